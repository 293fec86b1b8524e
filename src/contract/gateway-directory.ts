import { limits } from './limits.ts'
import type { Principal } from './principal.ts'
import type { Exposure } from './profile-kinds.ts'
import type { UpstreamCredential } from './upstream-tools.ts'

/** A sub-agent of the agent at an address, if the caller sees it. */
export type OfferedAgent = Readonly<{ id: string; toolName: string; displayName: string; description: string | null }>

/** What such an agent is told, as a tool. */
export const delegationInputSchema = {
  type: 'object',
  properties: {
    message: { type: 'string', minLength: 1, maxLength: limits.delegatedMessageCharsMax, description: 'What to do.' },
  },
  required: ['message'],
  additionalProperties: false,
} as const

/** What a gateway or an agent offers at its own address. */
export type OfferedTools = Readonly<{
  exposure: Exposure
  /** Whether every change raises the version of the tenant's tools. */
  isVersioned: boolean
  /** Tool names, and patterns such as `fs.*`, limited to those that the caller may use anyway. */
  names: readonly string[]
  /** Tools of other servers, even those that the caller could not use otherwise. */
  assigned: readonly Readonly<{ toolId: string; credential: UpstreamCredential }>[]
  /** For an agent: the sub-agents to which tasks can be delegated. */
  subAgents: readonly OfferedAgent[]
}>

/**
 * The addresses `/mcp/{slug or id}`: gateways and agents. Undefined both if there is none and if it is not shared with the
 * caller.
 */
export type GatewayDirectory = Readonly<{
  /** The id behind a slug, a name or an id; at once if it is known. */
  find(principal: Principal, idOrSlug: string): string | undefined | Promise<string | undefined>
  /** What `principal.gateway` offers now. */
  offeredTo(principal: Principal): Promise<OfferedTools | undefined>
}>
