import type { GatewayDirectory, OfferedTools } from '../../contract/gateway-directory.ts'
import { permissionsKey } from '../../contract/permissions.ts'
import { identityOf, type Principal, type TenantId } from '../../contract/principal.ts'
import { beginningOf } from '../../contract/tool-pattern.ts'
import type { UnreachableServer } from '../../contract/upstream-content.ts'
import type { ServedLists, UpstreamTools } from '../../contract/upstream-tools.ts'
import { nameBeside } from '../../domains/mcp-servers/tool-names.ts'
import type { Clock } from '../../kernel/clock.ts'
import { nextTurn } from '../../kernel/time-slicer.ts'
import { createArgumentChecks } from './argument-checks.ts'
import type { Catalog, CatalogTool } from './catalog.ts'
import { delegationTool } from './delegation-tool.ts'
import { isAlwaysListed, isUpstreamName } from './exposure.ts'
import { createKnownNames, type KnownNames } from './known-names.ts'
import { findByName, indexByName } from './name-index.ts'
import {
  assignedTool,
  byName,
  keyOf,
  keyOfServed,
  loadSnapshot,
  named,
  type Snapshot,
  servedTools,
} from './tool-snapshot.ts'
import { upstreamCatalogTool } from './upstream-tool.ts'

/**
 * The tools that one caller can find: ours, and those of upstream MCP servers that it may use.
 *
 * 1. A view is of one instant and immutable. When something changes, callers get another view.
 * 2. Each tenant has one snapshot of its upstream tools, with a version. A view is a part of that snapshot, so it cannot contain
 *    a tool of another tenant.
 * 3. An upstream tool is what that deployment says of it which the caller's call would use. What another deployment lists is in
 *    the view of nobody else.
 * 4. Our tools keep their names. Of upstream tools with one name in one view, that of the wider server keeps it, and the others
 *    get another one, the same each time. What a caller cannot see takes no name.
 * 5. Building a snapshot of very many tools lets other work run in between.
 */
export type ToolView = Readonly<{
  tools: readonly CatalogTool[]
  find(name: string): CatalogTool | undefined
  readonly names: KnownNames
  /** All tools of the tenant, even those that the caller may not use: the source of the tenant's shared index. Several have one name. */
  corpus: readonly CatalogTool[]
  /** The listed tools, if the connection may not choose. */
  listed?: readonly CatalogTool[]
}>

export type ToolViews = Readonly<{
  /** Our tools alone. */
  own: ToolView
  /** The principal's view now; a promise only if something may have changed since the last request. */
  viewFor(principal: Principal): ToolView | Promise<ToolView>
  /** The principal's view at the last request. */
  latest(principal: Principal): ToolView
  /** The upstream servers that the principal would use and that cannot be reached now; at a gateway, those of its tools. */
  unreachableFor(principal: Principal): Promise<readonly UnreachableServer[]>
  /** Called for a tenant whose callers may now find other tools. Returns an unsubscribe function. */
  onChanged(listener: (tenant: TenantId) => void): () => void
  /** Adds the upstream tools; until then callers find only ours. */
  connect(upstreams: UpstreamTools, gateways?: GatewayDirectory): void
}>

/** `isCurrent` is false for a view that can change without a new version. */
type Known = Readonly<{ version: number; view: ToolView; isCurrent: boolean }>

const VIEWS_MAX = 256
const CALLERS_MAX = 2_000
/** A list that changes all the time is used as found, and read again the next time. */
const TRIES_MAX = 3
/** More than that take so long that others are served between two steps. */
const MANY = 1_000

export function createToolViews({ catalog, clock }: Readonly<{ catalog: Catalog; clock: Clock }>): ToolViews {
  const own = ownView(catalog)
  const checks = createArgumentChecks()
  const listeners = new Set<(tenant: TenantId) => void>()
  const snapshots = new Map<TenantId, Snapshot>()
  const loading = new Map<TenantId, Promise<Snapshot>>()
  const known = new Map<string, Known>()
  let upstreams: UpstreamTools | undefined
  let gateways: GatewayDirectory | undefined
  const nothing = gatewayView({ tools: [], listed: [], corpus: catalog.tools })

  function snapshotOf(source: UpstreamTools, tenant: TenantId): Promise<Snapshot> {
    const before = snapshots.get(tenant)
    if (before?.version === source.version(tenant)) return Promise.resolve(before)
    let pending = loading.get(tenant)
    if (pending === undefined) {
      pending = loadSnapshot({ catalog, clock, source, checks }, tenant, before)
        .then((snapshot) => {
          snapshots.set(tenant, snapshot)
          return snapshot
        })
        .finally(() => loading.delete(tenant))
      loading.set(tenant, pending)
    }
    return pending
  }

  async function bringUpToDate(source: UpstreamTools, principal: Principal, key: string): Promise<ToolView> {
    const { tenant } = principal
    for (let tries = 1; ; tries++) {
      const version = source.version(tenant)
      const [snapshot, served, offered] = await Promise.all([
        snapshotOf(source, tenant),
        source.visibleTo(principal),
        principal.gateway === undefined ? undefined : gateways?.offeredTo(principal),
      ])
      // A read that overlaps a change may mix old and new values.
      const isMixed = snapshot.version !== version || source.version(tenant) !== version
      if (isMixed && tries < TRIES_MAX) continue
      if (snapshot.byKey.size > MANY) await nextTurn()
      const view =
        principal.gateway === undefined
          ? visiblePart(snapshot, served)
          : offeredPart(source, snapshot, served, principal.gateway, offered)
      known.delete(key)
      if (known.size >= CALLERS_MAX) known.delete(known.keys().next().value!)
      known.set(key, { version, view, isCurrent: offered?.isVersioned !== false })
      return view
    }
  }

  function visiblePart(snapshot: Snapshot, served: ServedLists): ToolView {
    const key = keyOfServed(served)
    let view = snapshot.views.get(key)
    if (view === undefined) {
      const visible = named(snapshot, servedTools(snapshot, served)).sort(byName)
      view = visible.length === 0 ? { ...own, corpus: snapshot.corpus } : viewOf(catalog, visible, snapshot.corpus)
      if (snapshot.views.size >= VIEWS_MAX) snapshot.views.clear()
      snapshot.views.set(key, view)
    }
    return view
  }

  /** The assigned tools, and the two tools that find and call all of them. */
  function offeredPart(
    source: UpstreamTools,
    snapshot: Snapshot,
    served: ServedLists,
    gatewayId: string,
    offered: OfferedTools | undefined,
  ): ToolView {
    if (offered === undefined) return nothing
    const chosen = offered.assigned.flatMap(({ toolId, credential }) => {
      const tool = assignedTool(snapshot, served, toolId, credential)
      return tool === undefined ? [] : { tool, credential }
    })
    const key = JSON.stringify([
      ...[gatewayId, offered, chosen.map(({ tool }) => keyOf(tool))],
      offered.names.some(isUpstreamName) ? keyOfServed(served) : 0,
    ])
    const before = snapshot.views.get(key)
    if (before !== undefined) return before
    const rankOf = ({ tool }: (typeof chosen)[number]): number => snapshot.ranks.get(tool.catalogId)!
    const taken = new Set<string>()
    const assigned = chosen
      .sort((one, other) => rankOf(one) - rankOf(other))
      .map(({ tool, credential }) => {
        const known = snapshot.byKey.get(keyOf(tool))
        const { name: first } = known ?? snapshot.byId.get(tool.id)!
        const name = taken.has(first) ? nameBeside(tool) : first
        taken.add(name)
        if (known?.name === name && credential.mode === 'dynamic') return known
        return upstreamCatalogTool({ upstreams: source, checks }, tool, name, credential)
      })
      .sort(byName)
    const reachable = [...catalog.tools, ...named(snapshot, servedTools(snapshot, served))]
    const isNamed = namedBy(offered.names)
    const others = reachable.filter(({ name }) => isNamed(name) && !isMeta(name) && !taken.has(name))
    const delegations = offered.subAgents
      .filter(({ toolName }) => !taken.has(toolName))
      .map((agent) => delegationTool(gatewayId, agent))
    const all = [...others, ...assigned, ...delegations]
    const meta = catalog.tools.filter(({ name }) => isMeta(name))
    const content = catalog.tools.filter(({ name }) => isContent(name) && !all.some((tool) => tool.name === name))
    const listed = offered.exposure === 'full' ? all : [...meta, ...all.filter(isAlwaysListed), ...delegations]
    // A tool that is not described is not in the tenant's index.
    const isKnown = assigned.every((tool) => snapshot.byKey.has(keyOf(tool.upstream!)))
    const corpus = isKnown
      ? snapshot.corpus
      : [...catalog.tools, ...others.filter(({ upstream }) => upstream), ...assigned]
    const view = gatewayView({ tools: [...meta, ...content, ...all], listed, corpus })
    if (snapshot.views.size >= VIEWS_MAX) snapshot.views.clear()
    snapshot.views.set(key, view)
    return view
  }

  return {
    own,
    viewFor(principal) {
      const version = upstreams?.version(principal.tenant) ?? 0
      if (upstreams === undefined) return principal.gateway === undefined ? own : nothing
      // An agent has an address even if there has never been an upstream tool.
      if (version === 0 && principal.gateway === undefined) return own
      const key = viewerKey(principal)
      const current = known.get(key)
      return current?.version === version && current.isCurrent ? current.view : bringUpToDate(upstreams, principal, key)
    },
    latest: (principal) => known.get(viewerKey(principal))?.view ?? (principal.gateway === undefined ? own : nothing),
    async unreachableFor(principal) {
      if (upstreams === undefined || upstreams.version(principal.tenant) === 0) return []
      if (principal.gateway === undefined) return await upstreams.unreachableFor(principal)
      const { tools } = known.get(viewerKey(principal))?.view ?? nothing
      return await upstreams.unreachableFor(
        principal,
        new Set(tools.flatMap(({ upstream }) => upstream?.catalogId ?? [])),
      )
    },
    onChanged(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    connect(source, directory) {
      upstreams = source
      gateways = directory
      source.onChanged((tenant) => {
        for (const listener of listeners) listener(tenant)
      })
    },
  }
}

function ownView(catalog: Catalog): ToolView {
  const names = createKnownNames(catalog.names)
  return { tools: catalog.tools, find: catalog.find, names, corpus: catalog.tools }
}

/** A part of the tools, found by the same spellings as in the whole catalogue. */
function gatewayView({ tools, listed, corpus }: Required<Pick<ToolView, 'tools' | 'listed' | 'corpus'>>): ToolView {
  const byName = new Map(indexByName(tools))
  for (const tool of tools) {
    for (const alias of tool.upstream?.aliases ?? []) if (!byName.has(alias)) byName.set(alias, tool)
  }
  let names: KnownNames | undefined
  return {
    tools,
    listed,
    corpus,
    find: (name) => findByName(byName, name),
    get names() {
      names ??= createKnownNames(tools.map(({ name }) => name))
      return names
    },
  }
}

/** A predicate for the names that a list of names and patterns means. */
function namedBy(allowed: readonly string[]): (name: string) => boolean {
  const names = new Set(allowed)
  const beginnings = allowed.map(beginningOf).filter((beginning) => beginning !== undefined)
  return (name) => names.has(name) || beginnings.some((beginning) => name.startsWith(beginning))
}

/** Used by clients through the protocol: always callable, never listed. */
const isContent = (name: string): boolean => name === 'read_mcp_resource' || name === 'get_mcp_prompt'

const isMeta = (name: string): boolean => name === 'search_tools' || name === 'run_tool'

function viewOf(catalog: Catalog, upstream: readonly CatalogTool[], corpus: readonly CatalogTool[]): ToolView {
  const byName = new Map(upstream.map((tool) => [tool.name, tool]))
  for (const tool of upstream) {
    for (const alias of tool.upstream!.aliases) if (!byName.has(alias)) byName.set(alias, tool)
  }
  const tools = [...catalog.tools, ...upstream]
  let names: KnownNames | undefined
  return {
    tools,
    corpus,
    find: (name) => catalog.find(name) ?? byName.get(name),
    get names() {
      names ??= createKnownNames(tools.map(({ name }) => name))
      return names
    },
  }
}

const keys = new WeakMap<Principal, string>()

/** Everything that determines what a principal may see. */
function viewerKey(principal: Principal): string {
  let key = keys.get(principal)
  if (key === undefined) {
    const { tenant, permissions, teams, gateway, agent } = principal
    const of = [identityOf(principal), agent]
    key = JSON.stringify([tenant, of, permissionsKey(permissions), [...teams].sort(), gateway])
    keys.set(principal, key)
  }
  return key
}
