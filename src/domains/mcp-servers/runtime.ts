import type { CallingClient } from '../../contract/calling-client.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { RawAnswer } from '../../contract/raw-answer.ts'
import type { UpstreamCallOptions } from '../../contract/upstream-tools.ts'
import type { OauthClient } from './oauth.ts'
import type { ServerMount } from './rules.ts'

/** A server to run or reach, with all values. It is created when a connection is opened, and not stored. */
export type UpstreamSpec = LocalSpec | RemoteSpec

export type LocalSpec = Readonly<{
  kind: 'local'
  /** The prefix of its tools: for people, and for the name of its workspace. */
  name: string
  /** The owner of the workspace. */
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
  /** The server refused this token, or the current one: the request is repeated once if this succeeds. */
  renew(refused?: string): Promise<void>
  /** The header that contains only the token; absent for `Authorization: Bearer`. */
  header?: string
}>

export type RemoteSpec = Readonly<{
  kind: 'remote'
  /** The prefix of its tools, for people. */
  name: string
  url: string
  headers: Readonly<Record<string, string>>
  query: Readonly<Record<string, string>>
  cookies: Readonly<Record<string, string>>
  authorization?: UpstreamAuthorization | undefined
}>

/** A deployment, for its runtime. `load` is called each time a connection is opened, so that it has the newest values. */
export type UpstreamAddress = Readonly<{
  tenant: TenantId
  deploymentId: string
  /** The caller of a connection that is not shared. */
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
  /** Whether the server answers its calls with tasks, on request or by itself. */
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

/** For a server with several connections, the last of these states that one of them is in. */
export const instanceStates = ['stopped', 'backing-off', 'starting', 'running'] as const
export type InstanceState = Readonly<{
  state: (typeof instanceStates)[number]
  /** Why the last connection ended or failed; undefined if all is well. */
  problem: string | undefined
  /** The last use did not reach the server, or the server ended and rests: `problem` is why. */
  isUnreachable: boolean
  /** How often it was started by this process. */
  starts: number
}>

/**
 * Connections to MCP servers: one for all callers of a deployment, and one for each client that a server may ask questions. They
 * are opened on first use, closed when idle, and reopened with increasing pauses when they fail. Nothing that it starts outlives
 * it. Failures are AppErrors with ERR_UPSTREAM_UNAVAILABLE, unless there is a more specific code.
 */
export type UpstreamRuntime = Readonly<{
  listTools(at: UpstreamAddress, signal: AbortSignal): Promise<readonly ListedTool[]>
  callTool(
    at: UpstreamAddress,
    name: string,
    args: Readonly<Record<string, unknown>>,
    options: UpstreamCallOptions,
  ): Promise<RawAnswer>
  /** Content other than tools. Undefined if the server offers none of the kind, or not the requested one. */
  ask(
    at: UpstreamAddress,
    method: ContentMethod,
    params: Readonly<Record<string, unknown>>,
    options: UpstreamCallOptions,
  ): Promise<unknown>
  /**
   * Notifies the client when the resource changes, until the signal is aborted. False if the server has no such resource, or no
   * subscriptions.
   */
  subscribe(at: UpstreamAddress, uri: string, client: CallingClient, signal: AbortSignal): Promise<boolean>
  stateOf(deploymentId: string): InstanceState
  /** Ends the connection and the process; the next use starts again. */
  stop(deploymentId: string): Promise<void>
  /** Ends it, and removes its workspace and its log. */
  remove(tenant: TenantId, deploymentId: string): Promise<void>
  /** The newest lines of the server's output and lifecycle, oldest first. */
  readLog(tenant: TenantId, deploymentId: string, lines: number): Promise<readonly string[]>
  /** Called when a server announces changed tools. Returns an unsubscribe function. */
  onToolsChanged(listener: (tenant: TenantId, deploymentId: string) => void): () => void
  /** Throws if the address in the field may not be reached: checked before it is saved. */
  checkAddress(field: string, url: string): Promise<void>
  /** OAuth for people at remote servers. */
  oauth: OauthClient
  close(): Promise<void>
}>
