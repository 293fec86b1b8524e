import type { CallingClient } from './calling-client.ts'
import type { Principal } from './principal.ts'
import type { UpstreamCallOptions } from './upstream-tools.ts'

type ForeignObject = Readonly<Record<string, unknown>>

const contentKinds = ['resources', 'resourceTemplates', 'prompts'] as const
export type ContentKind = (typeof contentKinds)[number]

/** A server that could not be asked: its part of a list is missing, and the list says so. */
export type UnreachableServer = Readonly<{ server: string; code: string; message: string }>

/** What MCP servers offer beside tools, for a caller at the address of a gateway. All of it is as the servers sent it. */
export type UpstreamContent = Readonly<{
  /** Of all servers of the gateway. Names of prompts begin with `<server>__`; a URI that two servers have is the first one's. */
  list(
    principal: Principal,
    kind: ContentKind,
    signal: AbortSignal,
  ): Promise<Readonly<{ items: readonly ForeignObject[]; unreachable: readonly UnreachableServer[] }>>
  /** The contents of a resource. Rejects with ERR_NOT_FOUND if no server of the gateway has it. */
  read(principal: Principal, uri: string, options: UpstreamCallOptions): Promise<readonly ForeignObject[]>
  prompt(
    principal: Principal,
    input: Readonly<{ name: string; arguments?: Readonly<Record<string, string>> | undefined }>,
    options: UpstreamCallOptions,
  ): Promise<Readonly<{ description?: string; messages: readonly ForeignObject[] }>>
  /**
   * Has the client told when the resource changes, until the signal is aborted. Answers from which deployment it is; rejects with
   * ERR_NOT_FOUND if no server of the gateway has it and tells of changes.
   */
  subscribe(principal: Principal, uri: string, client: CallingClient, signal: AbortSignal): Promise<string>
  /** Whether the caller still gets content from this deployment at the gateway. */
  offers(principal: Principal, deploymentId: string, signal: AbortSignal): Promise<boolean>
  /** Suggestions for an argument of a prompt or of a resource template; nothing if nobody knows any. */
  complete(principal: Principal, params: ForeignObject, signal: AbortSignal): Promise<ForeignObject | undefined>
}>
