import type { Call } from './call.ts'
import type { CallingClient } from './calling-client.ts'
import type { Principal } from './principal.ts'
import type { UpstreamCallOptions } from './upstream-tools.ts'

type ForeignObject = Readonly<Record<string, unknown>>

/**
 * A request of MCP that is not a call of a tool, and reaches a server all the same: it is judged and recorded as a call of the tool that
 * does the same.
 */
export type ContentRequest = Readonly<{
  /** The method, which the log names beside the tool. */
  method: string
  /** Whether the answer has what the server wrote. */
  isRead: boolean
  /** Sends it, once it is allowed. What the server says to the client because of it passes `hears` (`Call.hears`). */
  send(hears: NonNullable<Call['hears']>): Promise<ForeignObject>
}>

const contentKinds = ['resources', 'resourceTemplates', 'prompts'] as const
export type ContentKind = (typeof contentKinds)[number]

/** A server that did not answer: its part of a list is missing, and the list says so. */
export type UnreachableServer = Readonly<{ server: string; code: string; message: string }>

/** What upstream MCP servers offer beside tools, for a caller at a gateway. All of it is exactly as the servers sent it. */
export type UpstreamContent = Readonly<{
  /**
   * Of all servers of the gateway. Names of prompts begin with `<server>__`; if two servers have the same URI, the first one's
   * counts.
   */
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
   * Notifies the client when the resource changes, until the signal is aborted. Answers its deployment; rejects with
   * ERR_NOT_FOUND if no server of the gateway offers subscriptions to it.
   */
  subscribe(principal: Principal, uri: string, client: CallingClient, signal: AbortSignal): Promise<string>
  /** Whether the caller still gets content from this deployment at the gateway. */
  offers(principal: Principal, deploymentId: string, signal: AbortSignal): Promise<boolean>
  /** Suggestions for an argument of a prompt or of a resource template; empty if there are none. */
  complete(principal: Principal, params: ForeignObject, signal: AbortSignal): Promise<ForeignObject | undefined>
}>
