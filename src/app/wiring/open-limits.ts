import { canSee } from '../../contract/sharing.ts'
import { OWN_SERVER } from '../../contract/usage-limits.ts'
import { createLimitService, type LimitedThings, type LimitService } from '../../domains/limits/service.ts'
import type { UsageAccounting } from '../../domains/limits/usage-limits.ts'
import { knownTools } from '../../domains/mcp-servers/listed-tools.ts'
import type { CatalogItem, StoredTool } from '../../domains/mcp-servers/ports.ts'
import { isNamed } from '../../domains/mcp-servers/tool-names.ts'
import type { VirtualKeyService } from '../../domains/model-proxies/virtual-keys.ts'
import { nearestFirst } from '../../domains/profiles/rules.ts'
import type { ProfileService } from '../../domains/profiles/service.ts'
import { nameKey } from '../../kernel/name-key.ts'
import { sqlLimitStore } from '../../stores/sql/limit-store.ts'
import { sqlMcpServerStore } from '../../stores/sql/mcp-server-store.ts'
import { sqlPeopleStore } from '../../stores/sql/people-store.ts'
import type { ToolViews } from '../../tools/runtime/tool-views.ts'
import type { AppDeps } from '../build-app.ts'

export type LimitParts = Readonly<{
  accounting: UsageAccounting
  sharing: ProfileService
  views: Pick<ToolViews, 'own'>
  virtualKeys: Pick<VirtualKeyService, 'seen'>
}>

/** The limits themselves, for their administrators. */
export const openLimits = ({ random }: AppDeps, { accounting, ...parts }: LimitParts): LimitService =>
  createLimitService({ store: sqlLimitStore, accounting, random, things: limitedThings(parts) })

const limitedKinds = ['agent', 'mcp_gateway', 'llm_proxy', 'profile'] as const

/** Ids of what the caller sees, by id or name. */
export function entityFinder(parts: Omit<LimitParts, 'accounting'>) {
  const { entity } = limitedThings(parts)
  return async (...sought: Parameters<LimitedThings['entity']>): Promise<string | undefined> =>
    (await entity(...sought))?.id
}

function limitedThings({ sharing, views, virtualKeys }: Omit<LimitParts, 'accounting'>): LimitedThings {
  return {
    async entity(read, principal, type, reference) {
      const { tenant } = principal
      switch (type) {
        case 'organization':
          return reference === tenant ? { id: tenant, name: tenant } : undefined
        case 'team':
          return await sqlPeopleStore.findTeam(read, tenant, reference)
        case 'user': {
          const user =
            (await sqlPeopleStore.findUser(read, tenant, reference)) ??
            (await sqlPeopleStore.findUserByEmail(read, reference.toLowerCase()))
          return user?.tenant === tenant ? { id: user.id, name: user.email } : undefined
        }
        case 'agent':
          for (const kind of limitedKinds) {
            const found = await sharing.find(read, principal, kind, reference)
            if (found !== undefined) return found
          }
          return undefined
        case 'virtual_key':
          return await virtualKeys.seen(read, principal, reference)
      }
    },
    async server(read, principal, name) {
      if (name === OWN_SERVER) return { id: OWN_SERVER, name: OWN_SERVER }
      const key = nameKey(name)
      const items = await sqlMcpServerStore.listItems(read, principal.tenant)
      const isMeant = (item: CatalogItem): boolean => item.id === name || nameKey(item.name) === key
      const seen = items.filter((item) => isMeant(item) && canSee(principal, 'mcpRegistry', item.sharing))
      const [found] = nearestFirst(seen)
      return found && { id: found.id, name: found.name }
    },
    async tool(read, principal, serverId, name) {
      if (serverId === OWN_SERVER) {
        const own = views.own.find(name)
        return own && { id: own.name, name: own.name }
      }
      const known = await knownTools(sqlMcpServerStore, read, principal, serverId, 'all')
      const tools = await sqlMcpServerStore.listTools(read, principal.tenant, serverId)
      const isMeant = (tool: StoredTool): boolean => [tool.upstreamName, tool.id].includes(name) || isNamed(tool, name)
      const found = tools.find((tool) => known.has(tool.id) && isMeant(tool))
      return found && { id: found.id, name: found.upstreamName }
    },
  }
}
