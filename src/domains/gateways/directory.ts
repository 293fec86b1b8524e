import type { Database } from '../../contract/database.ts'
import type { GatewayDirectory, OfferedAgent } from '../../contract/gateway-directory.ts'
import { isPermitted } from '../../contract/permissions.ts'
import type { Principal } from '../../contract/principal.ts'
import type { ProfileKind } from '../../contract/profile-kinds.ts'
import { createStoreMemo } from '../../contract/store-memo.ts'
import type { Profile } from '../profiles/ports.ts'
import type { ProfileService } from '../profiles/service.ts'
import type { AssignmentStore } from './ports.ts'

export type DirectoryDeps = Readonly<{
  database: Pick<Database, 'read' | 'dataVersion'>
  sharing: Pick<ProfileService, 'find'>
  store: Pick<AssignmentStore, 'listAssignments'>
  isOwnTool(toolId: string): boolean
  /** The tools in the manifest of an agent. */
  manifestTools(principal: Principal, agentId: string): Promise<readonly string[]>
  /** The sub-agents of an agent that the caller may see. */
  subAgents(principal: Principal, agentId: string): Promise<readonly OfferedAgent[]>
}>

/** Gateways come first: an agent of the same name is reached by its id. */
const kinds: readonly ProfileKind[] = ['mcp_gateway', 'agent']
const permissions = { mcp_gateway: 'mcpGateway:read', agent: 'agent:read' } as const

export function createGatewayDirectory(deps: DirectoryDeps): GatewayDirectory {
  const { read } = deps.database
  const idOf = createStoreMemo<string | undefined>(deps.database)

  async function find(principal: Principal, idOrSlug: string): Promise<Profile | undefined> {
    for (const kind of kinds) {
      if (!isPermitted(principal, permissions[kind as keyof typeof permissions])) continue
      const found = await deps.sharing.find(read, principal, kind, idOrSlug)
      if (found !== undefined) return found
    }
    return undefined
  }

  return {
    find: (principal, idOrSlug) => idOf(principal, idOrSlug, async () => (await find(principal, idOrSlug))?.id),
    async offeredTo(principal) {
      const profile = await find(principal, principal.gateway ?? '')
      if (profile === undefined || profile.id !== principal.gateway) return undefined
      const stored = await deps.store.listAssignments(read, profile.tenant, profile.id)
      const own = stored.filter(({ toolId }) => deps.isOwnTool(toolId)).map(({ toolId }) => toolId)
      const listed = profile.kind === 'agent' ? await deps.manifestTools(principal, profile.id) : []
      return {
        exposure: profile.exposure,
        isVersioned: profile.kind === 'mcp_gateway',
        names: [...own, ...listed],
        subAgents: profile.kind === 'agent' ? await deps.subAgents(principal, profile.id) : [],
        assigned: stored
          .filter(({ toolId }) => !deps.isOwnTool(toolId))
          .map(({ toolId, mode, deploymentId }) => ({
            toolId,
            credential: { mode, ...(deploymentId !== null && { deploymentId }) },
          })),
      }
    },
  }
}
