import type { Principal } from './principal.ts'
import type { Exposure } from './profile-kinds.ts'
import type { UpstreamCredential } from './upstream-tools.ts'

/** A sub-agent of the agent at an address, that the caller sees. */
export type OfferedAgent = Readonly<{ id: string; toolName: string; displayName: string; description: string | null }>

/** What a gateway or an agent offers at its own address. */
export type OfferedTools = Readonly<{
  exposure: Exposure
  /** Whether every change of it raises the version of the tools of its tenant. */
  isVersioned: boolean
  /** Names of tools, and patterns such as `fs.*`, of those that the caller may use anyway. */
  names: readonly string[]
  /** Tools of other servers, whether or not the caller could use them otherwise. */
  assigned: readonly Readonly<{ toolId: string; credential: UpstreamCredential }>[]
  /** Of an agent: those to which tasks can be handed on. */
  subAgents: readonly OfferedAgent[]
}>

/** The addresses `/mcp/{slug or id}`: gateways and agents. Not there and not the caller's are the same: undefined. */
export type GatewayDirectory = Readonly<{
  /** The id behind a slug, a name or an id. */
  find(principal: Principal, idOrSlug: string): Promise<string | undefined>
  /** For `principal.gateway`, as it is shared now. */
  offeredTo(principal: Principal): Promise<OfferedTools | undefined>
}>
