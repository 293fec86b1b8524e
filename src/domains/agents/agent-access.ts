import { AppError } from '../../contract/app-error.ts'
import { type Principal, SYSTEM_TENANT, type TenantId, tierAllows } from '../../contract/principal.ts'
import { canModify, canSee, viewerOf } from '../../contract/sharing.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { Profile, ProfileStore } from '../profiles/ports.ts'
import { nearestFirst } from '../profiles/rules.ts'
import type { Agent, AgentStore } from './ports.ts'

export type FoundAgent = Readonly<{ agent: Agent; profile: Profile }>

/** The platform itself sees only global agents. */
export type AgentViewer = Principal | 'platform'

type AccessDeps = Readonly<{
  store: Pick<AgentStore, 'findAgent' | 'findAgentsByName' | 'listAgents'>
  profiles: Pick<ProfileStore, 'findProfile' | 'findNamed'>
}>

export type AgentAccess = ReturnType<typeof createAgentAccess>

/** The agents of a caller: those of its tenant that are shared with it, then global ones. */
export function createAgentAccess({ store, profiles }: AccessDeps) {
  const isSeen = (viewer: AgentViewer, tenant: TenantId, { sharing }: Profile): boolean =>
    tenant === SYSTEM_TENANT || (viewer !== 'platform' && canSee(viewer, 'agent', sharing))

  async function withProfile(read: ReadTx, agent: Agent | undefined): Promise<FoundAgent | undefined> {
    if (agent === undefined) return undefined
    const profile = await profiles.findProfile(read, agent.tenant, agent.id)
    return profile && { agent, profile }
  }

  async function findIn(read: ReadTx, viewer: AgentViewer, tenant: TenantId, idOrName: string) {
    const byId = await withProfile(read, await store.findAgent(read, tenant, idOrName))
    if (byId !== undefined && isSeen(viewer, tenant, byId.profile)) return byId
    const named = await profiles.findNamed(read, tenant, 'agent', idOrName)
    const [nearest] = nearestFirst(named.filter((profile) => isSeen(viewer, tenant, profile)))
    if (nearest === undefined) return undefined
    const agent = await store.findAgent(read, tenant, nearest.id)
    return agent && { agent, profile: nearest }
  }

  return {
    /** By id, by slug, or by display name. */
    async find(read: ReadTx, viewer: AgentViewer, idOrName: string): Promise<FoundAgent | undefined> {
      const own = viewer === 'platform' ? undefined : await findIn(read, viewer, viewer.tenant, idOrName)
      return own ?? (await findIn(read, viewer, SYSTEM_TENANT, idOrName))
    },

    /** The agent that a manifest of this name is a version of, for the caller: the nearest visible one in the tenant. */
    async findDeployed(
      read: ReadTx,
      principal: Principal,
      tenant: TenantId,
      name: string,
    ): Promise<FoundAgent | undefined> {
      const agents = await store.findAgentsByName(read, tenant, name)
      const found = await Promise.all(agents.map((agent) => withProfile(read, agent)))
      const seen = found.filter((one) => one !== undefined && isSeen(principal, tenant, one.profile)) as FoundAgent[]
      const [nearest] = nearestFirst(seen.map(({ profile }) => profile))
      return seen.find(({ profile }) => profile === nearest)
    },

    async list(read: ReadTx, principal: Principal): Promise<Agent[]> {
      const { tenant } = principal
      const viewer = viewerOf(principal, 'agent')
      const own = await store.listAgents(read, tenant, viewer)
      if (tenant === SYSTEM_TENANT) return own
      const names = new Set(own.map(({ name }) => name))
      const shared = await store.listAgents(read, SYSTEM_TENANT, viewer)
      return [...own, ...shared.filter(({ name }) => !names.has(name))]
    },
  }
}

/** Callers of the tier `system` deploy for the whole tenant; for other sharing, only the sharing counts. */
export function requireModifiable(principal: Principal, { profile }: FoundAgent): void {
  const { sharing } = profile
  if (sharing.scope === 'org' && tierAllows(principal.tier, 'system')) return
  if (canModify(principal, 'agent', sharing)) return
  const permission = sharing.scope === 'org' ? 'agent:admin' : 'agent:team-admin'
  throw new AppError(
    'ERR_PERMISSION_DENIED',
    `agent_id: the agent has the scope ${sharing.scope}; changing it needs the permission '${permission}'`,
    { field: 'agent_id', permission },
  )
}
