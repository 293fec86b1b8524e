import type { GatewayDirectory } from '../../contract/gateway-directory.ts'
import { isPermitted } from '../../contract/permissions.ts'
import type { Principal } from '../../contract/principal.ts'
import type { ProfileKind } from '../../contract/profile-kinds.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { Profile } from '../profiles/ports.ts'
import type { ProfileService } from '../profiles/service.ts'
import type { AssignmentStore } from './ports.ts'

export type DirectoryDeps = Readonly<{
  read: ReadTx
  sharing: Pick<ProfileService, 'find'>
  store: Pick<AssignmentStore, 'listAssignments'>
  isOwnTool(toolId: string): boolean
  /** What the manifest of an agent lists. */
  manifestTools(principal: Principal, agentId: string): Promise<readonly string[]>
}>

/** Gateways come first: an agent of the same name is reached by its id. */
const kinds: readonly ProfileKind[] = ['mcp_gateway', 'agent']
const permissions = { mcp_gateway: 'mcpGateway:read', agent: 'agent:read' } as const

export function createGatewayDirectory(deps: DirectoryDeps): GatewayDirectory {
  async function find(principal: Principal, idOrSlug: string): Promise<Profile | undefined> {
    for (const kind of kinds) {
      if (!isPermitted(principal, permissions[kind as keyof typeof permissions])) continue
      const found = await deps.sharing.find(deps.read, principal, kind, idOrSlug)
      if (found !== undefined) return found
    }
    return undefined
  }

  return {
    find: async (principal, idOrSlug) => (await find(principal, idOrSlug))?.id,
    async offeredTo(principal) {
      const profile = await find(principal, principal.gateway ?? '')
      if (profile === undefined || profile.id !== principal.gateway) return undefined
      const stored = await deps.store.listAssignments(deps.read, profile.tenant, profile.id)
      const own = stored.filter(({ toolId }) => deps.isOwnTool(toolId)).map(({ toolId }) => toolId)
      const listed = profile.kind === 'agent' ? await deps.manifestTools(principal, profile.id) : []
      return {
        exposure: profile.exposure,
        isVersioned: profile.kind === 'mcp_gateway',
        names: [...own, ...listed],
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
