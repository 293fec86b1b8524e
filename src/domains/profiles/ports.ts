import type { TenantId } from '../../contract/principal.ts'
import type { Exposure, ProfileKind } from '../../contract/profile-kinds.ts'
import type { Sharing, Viewer } from '../../contract/sharing.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

export type { Exposure, ProfileKind }

export type Label = Readonly<{ key: string; value: string }>
export type SuggestedPrompt = Readonly<{ summaryTitle: string; prompt: string }>

/**
 * What agents, gateways and proxies have in common: a display name, sharing, and presentation. It has no versions. The profile of
 * an agent has the id of the agent; the agent's manifest is what runs.
 */
export type Profile = Readonly<{
  tenant: TenantId
  id: string
  kind: ProfileKind
  /** For people. */
  name: string
  /** For addresses and names of tools. */
  slug: string
  description: string | null
  sharing: Sharing
  icon: string | null
  labels: readonly Label[]
  systemPrompt: string | null
  suggestedPrompts: readonly SuggestedPrompt[]
  exposure: Exposure
  /** Its context is never trusted. */
  contextUntrusted: boolean
  isDefault: boolean
  createdAtMs: number
  updatedAtMs: number
}>

export type ProfileFilter = Readonly<{
  kind: ProfileKind
  viewer: Viewer
  /** A part of the name, in any case. */
  name?: string | undefined
}>

/** Every method answers for one tenant only; `SYSTEM_TENANT` has what every tenant sees. */
export type ProfileStore = Readonly<{
  insertProfile(tx: WriteTx, tenant: TenantId, profile: Profile): Promise<void>
  /** Writes all but id, kind and creation. */
  saveProfile(tx: WriteTx, tenant: TenantId, profile: Profile): Promise<void>
  /** With its teams, tools and sub-agents, and its entries among the sub-agents of others. */
  deleteProfile(tx: WriteTx, tenant: TenantId, id: string): Promise<void>
  findProfile(tx: ReadTx, tenant: TenantId, id: string): Promise<Profile | undefined>
  /** All with the name, in any case, or the slug; the caller decides which of them are visible. */
  findNamed(tx: ReadTx, tenant: TenantId, kind: ProfileKind, name: string): Promise<Profile[]>
  /** What the viewer sees, by name. */
  listProfiles(
    tx: ReadTx,
    tenant: TenantId,
    filter: ProfileFilter,
    page: Readonly<{ limit: number; offset: number }>,
  ): Promise<Profile[]>
  countProfiles(tx: ReadTx, tenant: TenantId, filter: ProfileFilter): Promise<number>
  /** How many of a kind an author has, or the whole tenant. */
  countOf(tx: ReadTx, tenant: TenantId, kind: ProfileKind, author?: string): Promise<number>
  /** Existing ones stay. */
  addSubAgents(
    tx: WriteTx,
    tenant: TenantId,
    profileId: string,
    subAgentIds: readonly string[],
    atMs: number,
  ): Promise<void>
  /** In the order in which they were added. */
  subAgentsOf(tx: ReadTx, tenant: TenantId, profileId: string): Promise<string[]>
}>
