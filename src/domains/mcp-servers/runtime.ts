import type { CallingClient } from '../../contract/calling-client.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { RawAnswer } from '../../contract/raw-answer.ts'
import type { UpstreamCallOptions } from '../../contract/upstream-tools.ts'
import type { OauthClient } from './oauth.ts'
import type { ServerMount } from './rules.ts'

/** A server as it is to be run or reached, with all values in it. It is made when a connection is opened, and not kept. */
export type UpstreamSpec = LocalSpec | RemoteSpec

export type LocalSpec = Readonly<{
  kind: 'local'
  /** For people, and for the name of its workspace. */
  name: string
  /** Whose the workspace is. */
  owner: string
  transport: 'stdio' | 'streamable-http'
  argv: readonly string[]
  env: Readonly<Record<string, string>>
  /** Files with secrets, by their absolute path inside. */
  files: Readonly<Record<string, string>>
  installationCommand: string | undefined
  allowedDomains: readonly string[]
  mounts: readonly ServerMount[]
  /** Of a server that listens. */
  port: number
  path: string
}>

/** A token for each request of a connection. */
export type UpstreamAuthorization = Readonly<{
  token(): Promise<string>
  /** The server refused this token, or the one that it has now: the request is repeated once if this succeeds. */
  renew(refused?: string): Promise<void>
  /** The header that has the token and nothing else; absent for `Authorization: Bearer`. */
  header?: string
}>

export type RemoteSpec = Readonly<{
  kind: 'remote'
  url: string
  headers: Readonly<Record<string, string>>
  query: Readonly<Record<string, string>>
  cookies: Readonly<Record<string, string>>
  authorization?: UpstreamAuthorization | undefined
}>

/** A deployment, for what runs it. `load` is asked each time a connection is opened, so that it has the newest values. */
export type UpstreamAddress = Readonly<{
  tenant: TenantId
  deploymentId: string
  /** For whom a connection is, where callers do not share one. */
  caller?: string
  load(): Promise<UpstreamSpec>
}>

/** A tool as a server lists it. */
export type ListedTool = Readonly<{
  name: string
  title?: string
  description?: string
  inputSchema: Readonly<Record<string, unknown>>
  outputSchema?: Readonly<Record<string, unknown>>
  annotations?: Readonly<Record<string, unknown>>
  /** Whether the server answers calls of it by tasks, if asked to or by itself. */
  taskSupport?: TaskSupport | undefined
}>

export type TaskSupport = 'optional' | 'required'

const contentMethods = [
  'resources/list',
  'resources/templates/list',
  'resources/read',
  'prompts/list',
  'prompts/get',
  'completion/complete',
] as const
export type ContentMethod = (typeof contentMethods)[number]

/** Of a server with several connections the last of these that one of them is in. */
export const instanceStates = ['stopped', 'backing-off', 'starting', 'running'] as const
export type InstanceState = Readonly<{
  state: (typeof instanceStates)[number]
  /** Why the last connection ended or was not made; undefined when all is well. */
  problem: string | undefined
  /** How often it was started by this process. */
  starts: number
}>

/**
 * Connections to MCP servers: one for all callers of a deployment, and one for each client that a server may ask something. They are
 * opened on first use, closed when idle, and opened again with increasing pauses when they fail. Nothing that it starts outlives it. Failures are AppErrors with ERR_UPSTREAM_UNAVAILABLE, unless
 * something of ours says why.
 */
export type UpstreamRuntime = Readonly<{
  listTools(at: UpstreamAddress, signal: AbortSignal): Promise<readonly ListedTool[]>
  callTool(
    at: UpstreamAddress,
    name: string,
    args: Readonly<Record<string, unknown>>,
    options: UpstreamCallOptions,
  ): Promise<RawAnswer>
  /** Something beside tools. Undefined if the server has nothing of the kind, or not the one that is asked for. */
  ask(
    at: UpstreamAddress,
    method: ContentMethod,
    params: Readonly<Record<string, unknown>>,
    options: UpstreamCallOptions,
  ): Promise<unknown>
  /**
   * Tells the client when the resource changes, until the signal is aborted. False if the server has no such resource, or does not tell
   * of changes.
   */
  subscribe(at: UpstreamAddress, uri: string, client: CallingClient, signal: AbortSignal): Promise<boolean>
  stateOf(deploymentId: string): InstanceState
  /** Ends the connection and the process; the next use begins anew. */
  stop(deploymentId: string): Promise<void>
  /** Ends it, and removes what was made for it: its workspace and its log. */
  remove(tenant: TenantId, deploymentId: string): Promise<void>
  /** The newest lines of what the server said and what became of it, oldest first. */
  readLog(tenant: TenantId, deploymentId: string, lines: number): Promise<readonly string[]>
  /** A server says that its tools are others than before. Answers how to stop listening. */
  onToolsChanged(listener: (tenant: TenantId, deploymentId: string) => void): () => void
  /** Whether an address may be reached: refused before it is saved. */
  checkAddress(url: string): Promise<void>
  /** How persons let us act for them at remote servers. */
  oauth: OauthClient
  close(): Promise<void>
}>
