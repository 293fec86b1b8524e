import type { Principal } from './principal.ts'

type ForeignObject = Readonly<Record<string, unknown>>

export const contentKinds = ['resources', 'resourceTemplates', 'prompts'] as const
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
  read(principal: Principal, uri: string, signal: AbortSignal): Promise<readonly ForeignObject[]>
  prompt(
    principal: Principal,
    input: Readonly<{ name: string; arguments?: Readonly<Record<string, string>> | undefined }>,
    signal: AbortSignal,
  ): Promise<Readonly<{ description?: string; messages: readonly ForeignObject[] }>>
  /** Suggestions for an argument of a prompt or of a resource template; nothing if nobody knows any. */
  complete(principal: Principal, params: ForeignObject, signal: AbortSignal): Promise<ForeignObject | undefined>
}>
