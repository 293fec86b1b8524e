import type { TenantId } from '../../contract/principal.ts'
import { sharingScopes } from '../../contract/sharing.ts'
import type {
  ServedLists,
  UpstreamCredential,
  UpstreamList,
  UpstreamTool,
  UpstreamTools,
} from '../../contract/upstream-tools.ts'
import { nameBeside } from '../../domains/mcp-servers/tool-names.ts'
import type { Clock } from '../../kernel/clock.ts'
import { createTimeSlicer, nextTurn } from '../../kernel/time-slicer.ts'
import type { ArgumentChecks } from './argument-checks.ts'
import type { Catalog, CatalogTool } from './catalog.ts'
import type { ToolView } from './tool-views.ts'
import { upstreamCatalogTool } from './upstream-tool.ts'

/** The upstream tools of a tenant at one instant, as all of its deployments list them. */
export type Snapshot = Readonly<{
  version: number
  corpus: readonly CatalogTool[]
  /** By id, the tools of each list by theirs; those of wider servers first. */
  lists: ReadonlyMap<string, ReadonlyMap<string, CatalogTool>>
  /** By tool and definition. */
  byKey: ReadonlyMap<string, CatalogTool>
  /** Of the servers, by the id of their items: that of a wider server is lower. */
  ranks: ReadonlyMap<string, number>
  /** Some definition of each tool, by its id. */
  byId: ReadonlyMap<string, CatalogTool>
  /** The same tools under other names, where several have one name. */
  besides: ReadonlyMap<CatalogTool, CatalogTool>
  /** The views of this snapshot, by their visible lists: many callers see the same. */
  views: Map<string, ToolView>
}>
type SnapshotParts = Readonly<{ catalog: Catalog; clock: Clock; source: UpstreamTools; checks: ArgumentChecks }>

const neverAborted = new AbortController().signal

/** What has not changed stays the same objects. Other work runs in between. */
export async function loadSnapshot(
  { catalog, clock, source, checks }: SnapshotParts,
  tenant: TenantId,
  before: Snapshot | undefined,
): Promise<Snapshot> {
  const version = source.version(tenant)
  const listed = (await source.list(tenant)).toSorted((one, other) => widthOf(other.scope) - widthOf(one.scope))
  await nextTurn()
  const slicer = createTimeSlicer(clock, neverAborted)
  const lists = new Map<string, Map<string, CatalogTool>>()
  const byKey = new Map<string, CatalogTool>()
  const byId = new Map<string, CatalogTool>()
  const ranks = new Map<string, number>()
  const holders = new Map<string, string>()
  const contested = new Set<string>()
  const make = (tool: UpstreamTool, name: string) =>
    upstreamCatalogTool({ upstreams: source, checks }, tool, name, { mode: 'dynamic' })
  for (const { id, tools } of listed) {
    const own = new Map<string, CatalogTool>()
    lists.set(id, own)
    for (const tool of tools) {
      const pause = slicer.pause()
      if (pause !== undefined) await pause
      const key = keyOf(tool)
      let made = byKey.get(key)
      if (made === undefined) {
        const name = catalog.find(tool.name) === undefined ? tool.name : nameBeside(tool)
        const same = before?.byKey.get(key)
        made = same?.name === name && isEqual(same.upstream!, tool) ? same : make(tool, name)
        byKey.set(key, made)
        byId.set(tool.id, made)
        if (!ranks.has(tool.catalogId)) ranks.set(tool.catalogId, ranks.size)
        const holder = holders.get(name) ?? tool.id
        holders.set(name, holder)
        if (holder !== tool.id) contested.add(name)
      }
      own.set(tool.id, made)
    }
  }
  const besides = new Map<CatalogTool, CatalogTool>()
  for (const tool of contested.size === 0 ? [] : byKey.values()) {
    const pause = slicer.pause()
    if (pause !== undefined) await pause
    if (contested.has(tool.name)) besides.set(tool, make(tool.upstream!, nameBeside(tool.upstream!)))
  }
  const corpus = [...catalog.tools, ...byKey.values(), ...besides.values()]
  return { version, corpus, lists, byKey, ranks, byId, besides, views: new Map() }
}

/**
 * The tools of the lists, of wider servers first. Those that an agent was given come before others, so that these never take their
 * names.
 */
export function servedTools(
  { lists }: Snapshot,
  { byItem, byDeployment, assigned }: ServedLists,
): readonly CatalogTool[] {
  const visible = new Set(byItem.values())
  if (assigned.size === 0) return [...lists].flatMap(([id, list]) => (visible.has(id) ? [...list.values()] : []))
  const listOfPin = new Map([...assigned].map(([toolId, pin]) => [toolId, byDeployment.get(pin ?? '')]))
  const meant = new Set([...visible, ...listOfPin.values()])
  const own: CatalogTool[] = []
  const others: CatalogTool[] = []
  for (const [id, list] of lists) {
    for (const tool of meant.has(id) ? list.values() : []) {
      const toolId = tool.upstream!.id
      const pin = listOfPin.get(toolId)
      if (pin === undefined ? !visible.has(id) : pin !== id) continue
      if (assigned.has(toolId)) own.push(tool)
      else others.push(tool)
    }
  }
  return [...own, ...others]
}

/**
 * As the deployment describes it that a call would use; undefined if that does not list it. If there is none, the name is told, so
 * that a call can say how to get one.
 */
export function assignedTool(
  { lists, byId }: Snapshot,
  { byItem, byDeployment }: ServedLists,
  toolId: string,
  { deploymentId }: UpstreamCredential,
): UpstreamTool | undefined {
  const known = byId.get(toolId)?.upstream
  if (known === undefined) return undefined
  const listId = deploymentId === undefined ? byItem.get(known.catalogId) : byDeployment.get(deploymentId)
  return listId === undefined ? undescribed(known) : lists.get(listId)?.get(toolId)?.upstream
}

function undescribed({ id, tenant, catalogId, serverName, name, aliases }: UpstreamTool): UpstreamTool {
  const description = `A tool of the MCP server '${serverName}'. It has no credentials for you, so what it does is not known. A call says how to get them.`
  const inputSchema = { type: 'object' }
  return { id, tenant, catalogId, serverName, name, aliases, definition: 'none', description, inputSchema }
}

/** Each under a name of its own: the first keeps it. */
export function named({ besides }: Snapshot, tools: readonly CatalogTool[]): CatalogTool[] {
  const taken = new Set<string>()
  return tools.flatMap((tool) => {
    const free = taken.has(tool.name) ? besides.get(tool) : tool
    if (free === undefined || taken.has(free.name)) return []
    taken.add(free.name)
    return free
  })
}

export const keyOf = ({ id, definition }: UpstreamTool): string => `${id} ${definition}`
export const keyOfServed = ({ byItem, byDeployment, assigned }: ServedLists): string =>
  JSON.stringify([[...byItem.values()].sort(), [...assigned].map(([id, pin]) => [id, byDeployment.get(pin ?? '')])])
const widthOf = (scope: UpstreamList['scope']): number => sharingScopes.indexOf(scope)
export const byName = (one: CatalogTool, other: CatalogTool): number => (one.name < other.name ? -1 : 1)

const isEqual = (one: UpstreamTool, other: UpstreamTool): boolean =>
  one === other || JSON.stringify(one) === JSON.stringify(other)
