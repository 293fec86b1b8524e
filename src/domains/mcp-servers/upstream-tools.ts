import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import type { Principal, TenantId } from '../../contract/principal.ts'
import type { RawAnswer } from '../../contract/raw-answer.ts'
import { createStoreMemo } from '../../contract/store-memo.ts'
import type { UnreachableServer } from '../../contract/upstream-content.ts'
import type {
  ServedLists,
  UpstreamCallOptions,
  UpstreamCredential,
  UpstreamList,
  UpstreamTarget,
  UpstreamTool,
  UpstreamTools,
} from '../../contract/upstream-tools.ts'
import { nextTurn } from '../../kernel/time-slicer.ts'
import type { Deployments } from './deployments.ts'
import type { CredentialExchange } from './exchanged-credentials.ts'
import { nearest, serves, servesAsAssigned, toolListOf } from './listed-tools.ts'
import { notAssignable, notDeployed, valuesMissing } from './missing-credentials.ts'
import type { CatalogItem, Deployment, McpServerStore, StoredTool, ToolDefinition } from './ports.ts'
import type { InstanceState, UpstreamAddress, UpstreamRuntime } from './runtime.ts'

type UpstreamToolDeps = Readonly<{
  store: McpServerStore
  database: Pick<Database, 'read' | 'dataVersion'>
  runtime: Pick<UpstreamRuntime, 'callTool' | 'stateOf'>
  deployments: Pick<Deployments, 'addressOf'>
  versions: ToolVersions
  exchange: CredentialExchange
  /** Where the pages of this server are, for callers that did not use an address of it. */
  publicOrigin: string
}> &
  AssignedCredentials

export type AssignedCredentials = Readonly<{
  /** The credential that an agent's assignment names, if any. */
  assignedCredential(tenant: TenantId, agentId: string, toolId: string): Promise<UpstreamCredential | undefined>
  /** The tools of an agent's assignments, by id, each with the deployment that the assignment names, if any. */
  assignedTo(tenant: TenantId, agentId: string): Promise<ReadonlyMap<string, string | null>>
}>

/** The version numbers by which others see that the tools of a tenant changed. */
type ToolVersions = Readonly<{
  get(tenant: TenantId): number
  /** Reads the committed number, and notifies the listeners if it has grown. */
  refresh(tenant: TenantId): Promise<void>
  /** The same for all tenants, which finds changes by other processes on the store. */
  refreshAll(): Promise<void>
  onChanged(listener: (tenant: TenantId) => void): () => void
}>

export async function openToolVersions({
  store,
  database,
}: Pick<UpstreamToolDeps, 'store'> & Readonly<{ database: Pick<Database, 'read'> }>): Promise<ToolVersions> {
  const known = new Map(await store.versions(database.read))
  const listeners = new Set<(tenant: TenantId) => void>()
  function note(tenant: TenantId, version: number): void {
    if (version <= (known.get(tenant) ?? 0)) return
    known.set(tenant, version)
    for (const listener of listeners) listener(tenant)
  }
  return {
    get: (tenant) => known.get(tenant) ?? 0,
    async refresh(tenant) {
      note(tenant, (await store.versions(database.read)).get(tenant) ?? 0)
    },
    async refreshAll() {
      for (const [tenant, version] of await store.versions(database.read)) note(tenant, version)
    },
    onChanged(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}

/** The lists of one server as they were when the mark was read: what has not changed stays the same objects. */
type ListsOfItem = Readonly<{
  mark: string
  lists: readonly UpstreamList[]
  /** By tool and definition. */
  tools: ReadonlyMap<string, UpstreamTool>
}>

type Serving = Readonly<{ slug: string; deployment: Deployment }>

/** The deployment's own problem, else why it cannot be connected now. */
function problemOf(
  server: string,
  { status, error }: Deployment,
  { isUnreachable, problem }: InstanceState,
): UnreachableServer[] {
  if (status === 'pending')
    return [{ server, code: 'ERR_CREDENTIAL_REQUIRED', message: error ?? 'Values that it needs are missing.' }]
  if (status !== 'error' && !isUnreachable) return []
  return [{ server, code: 'ERR_UPSTREAM_UNAVAILABLE', message: error ?? problem ?? 'It cannot be connected.' }]
}

type CallArguments = [args: Readonly<Record<string, unknown>>, options: UpstreamCallOptions]

/** The route of one principal's call; without an address if the call itself decides. */
type Route = Readonly<{
  tool: StoredTool
  credential: UpstreamCredential
  takesTasks: boolean
  address?: UpstreamAddress
}>

/** The tools of the servers that are deployed, for the catalogue of tools. */
export function createUpstreamTools(deps: UpstreamToolDeps): UpstreamTools &
  Readonly<{
    /** The server of a tool for the caller, with its credentials. */
    addressFor(
      tool: StoredTool,
      caller: Pick<UpstreamTarget, 'principal' | 'origin'>,
      credential: UpstreamCredential,
    ): Promise<UpstreamAddress>
  }> {
  const { store, versions } = deps
  const { read } = deps.database
  const routes = createStoreMemo<Route>(deps.database)
  const serving = createStoreMemo<readonly Serving[]>(deps.database)
  const known = new Map<TenantId, ReadonlyMap<string, ListsOfItem>>()

  /**
   * Read from the store, with the objects of `before` for what is as it was. Without a mark if a change in between removed a part:
   * it is read again the next time.
   */
  async function listsOf(
    item: CatalogItem,
    listIds: readonly string[],
    mark: string,
    before: ListsOfItem | undefined,
  ): Promise<ListsOfItem> {
    const { tenant, id: catalogId, sharing } = item
    const stored = new Map((await store.listTools(read, tenant, catalogId)).map((tool) => [tool.id, tool]))
    const definitions = await store.definitions(read, tenant, catalogId)
    // Parsing the schemas takes most of a turn of the event loop.
    await nextTurn()
    const entries = await store.toolLists(read, tenant, catalogId)
    const tools = new Map<string, UpstreamTool>()
    let isWhole = listIds.every((id) => entries.has(id))
    const lists = listIds.map((id): UpstreamList => {
      const listed = [...(entries.get(id) ?? [])].flatMap(([toolId, digest]) => {
        const key = `${toolId} ${digest}`
        const same = tools.get(key)
        if (same !== undefined) return same
        const [tool, definition] = [stored.get(toolId), definitions.get(digest)]
        if (tool === undefined || definition === undefined) {
          isWhole = false
          return []
        }
        const made = sameTool(before?.tools.get(key), toolOf(tool, item, digest, definition))
        tools.set(key, made)
        return made
      })
      listed.sort(byName)
      return { id: `${catalogId} ${id}`, scope: sharing.scope, tools: listed }
    })
    return { mark: isWhole ? mark : '', lists, tools }
  }

  async function servedTo(principal: Principal): Promise<ServedLists> {
    const { tenant } = principal
    const listed = (await store.listDeployments(read, tenant)).filter(({ toolList }) => toolList !== null)
    const serving = listed.filter((one) => serves(one, principal))
    const assignable = listed.filter((one) => servesAsAssigned(one, principal))
    const listIdOf = ({ catalogId, toolList }: Deployment): string => `${catalogId} ${toolList}`
    const byItem = new Map<string, string>()
    for (const [catalogId, deployments] of Map.groupBy(serving, (one) => one.catalogId)) {
      byItem.set(catalogId, listIdOf(nearest(principal, deployments)!))
    }
    const isAgents = principal.kind === 'agent' && principal.agent !== undefined
    return {
      byItem,
      byDeployment: new Map(assignable.map((one) => [one.id, listIdOf(one)])),
      assigned: isAgents ? await deps.assignedTo(tenant, principal.agent!) : new Map(),
    }
  }

  /** The deployment of each item that the principal uses by default. */
  async function servingNow(principal: Principal): Promise<readonly Serving[]> {
    const { tenant } = principal
    const deployments = Map.groupBy(await store.listDeployments(read, tenant), ({ catalogId }) => catalogId)
    const items = await store.listItems(read, tenant)
    return items.flatMap(({ id, slug }) => {
      const deployment = nearest(principal, deployments.get(id) ?? [])
      return deployment === undefined ? [] : { slug, deployment }
    })
  }

  /** An agent's assigned credential takes precedence over its owner's. */
  async function credentialFor(
    tool: StoredTool,
    { principal, credential }: UpstreamTarget,
  ): Promise<UpstreamCredential> {
    const isAgents = principal.kind === 'agent' && principal.agent !== undefined && credential.mode === 'dynamic'
    const assigned = isAgents ? await deps.assignedCredential(tool.tenant, principal.agent!, tool.id) : undefined
    return assigned ?? credential
  }

  type Asking = Pick<UpstreamTarget, 'principal' | 'origin'>
  const lackingOf = async (tool: StoredTool, caller: Asking) => ({
    ...{ tool, principal: caller.principal, origin: caller.origin, publicOrigin: deps.publicOrigin },
    item: await store.findItem(read, tool.tenant, tool.catalogId),
  })

  async function deploymentFor(tool: StoredTool, caller: Asking, credential: UpstreamCredential): Promise<Deployment> {
    const { principal } = caller
    const all = await store.listDeployments(read, tool.tenant, tool.catalogId)
    if (credential.mode === 'static' && credential.deploymentId !== undefined) {
      const chosen = all.find(({ id }) => id === credential.deploymentId)
      if (chosen !== undefined && servesAsAssigned(chosen, principal)) return chosen
      throw notAssignable(await lackingOf(tool, caller))
    }
    const own = nearest(principal, all)
    if (own !== undefined) return own
    throw notDeployed(await lackingOf(tool, caller))
  }

  async function addressFor(
    tool: StoredTool,
    caller: Asking,
    credential: UpstreamCredential,
  ): Promise<UpstreamAddress> {
    return await addressOf(await deploymentFor(tool, caller, credential), tool, caller, credential)
  }

  async function addressOf(
    deployment: Deployment,
    tool: StoredTool,
    caller: Asking,
    credential: UpstreamCredential,
  ): Promise<UpstreamAddress> {
    const problem =
      deployment.status === 'success' ? undefined : valuesMissing(await lackingOf(tool, caller), deployment)
    if (problem !== undefined) throw problem
    if (credential.mode !== 'enterprise_managed') return deps.deployments.addressOf(deployment)
    const item = await store.findItem(read, tool.tenant, tool.catalogId)
    return deps.deployments.addressOf(deployment, await deps.exchange(item!, caller))
  }

  async function routeOf(target: UpstreamTarget): Promise<Route> {
    const { tenant, toolId } = target
    const tool = await store.findTool(read, tenant, toolId)
    if (tool === undefined || tool.removedAtMs !== null) throw notOffered(toolId)
    const credential = await credentialFor(tool, target)
    const deployment = await deploymentFor(tool, target, credential)
    const list = await toolListOf(store, read, deployment)
    const digest = list?.get(toolId)
    if (list !== undefined && digest === undefined) throw notOffered(toolId)
    const listed = known.get(tenant)?.get(tool.catalogId)?.tools.get(`${toolId} ${digest}`)
    const definition =
      listed === undefined && digest !== undefined
        ? await store.findDefinition(read, tenant, tool.catalogId, digest)
        : undefined
    const takesTasks = listed?.takesTasks === true || (definition?.taskSupport ?? null) !== null
    if (credential.mode === 'enterprise_managed') return { tool, credential, takesTasks }
    return { tool, credential, takesTasks, address: await addressOf(deployment, tool, target, credential) }
  }

  /** At once where the address is known: a call that takes a moment should not wait for several. */
  function callBy(route: Route, target: UpstreamTarget, ...[args, options]: CallArguments): Promise<RawAnswer> {
    const { upstreamName } = route.tool
    const callAt = (address: UpstreamAddress): Promise<RawAnswer> =>
      deps.runtime.callTool(address, upstreamName, args, { ...options, asTask: route.takesTasks })
    return route.address === undefined
      ? addressFor(route.tool, target, route.credential).then(callAt)
      : callAt(route.address)
  }

  return {
    addressFor,
    version: versions.get,
    onChanged: versions.onChanged,
    async list(tenant) {
      const before = known.get(tenant)
      const now = new Map<string, ListsOfItem>()
      // Read before the tools: what changes in between is read again the next time.
      const marks = await store.toolListMarks(read, tenant)
      const deployments = Map.groupBy(await store.listDeployments(read, tenant), ({ catalogId }) => catalogId)
      for (const item of await store.listItems(read, tenant)) {
        const listed = (deployments.get(item.id) ?? []).flatMap(({ toolList }) => toolList ?? [])
        if (listed.length === 0) continue
        const listIds = [...new Set(listed)].sort()
        const mark = JSON.stringify([marks.get(item.id), item.name, item.sharing.scope, listIds])
        const same = before?.get(item.id)
        const isSame = same?.mark === mark
        now.set(item.id, isSame ? same : await listsOf(item, listIds, mark, same))
        // The list may be very long: other work runs in between.
        if (!isSame) await nextTurn()
      }
      known.set(tenant, now)
      return [...now.values()].flatMap(({ lists }) => lists)
    },
    visibleTo: servedTo,
    async unreachableFor(principal, items) {
      const deployed = await serving(principal, 'serving', () => servingNow(principal))
      const meant = deployed.filter(({ deployment }) => items?.has(deployment.catalogId) !== false)
      return meant.flatMap(({ slug, deployment }) => problemOf(slug, deployment, deps.runtime.stateOf(deployment.id)))
    },
    call(target, args, options) {
      const { toolId, principal, credential } = target
      const key = `${toolId} ${credential.mode} ${credential.deploymentId ?? ''}`
      const route = routes(principal, key, () => routeOf(target))
      return route instanceof Promise
        ? route.then((found) => callBy(found, target, args, options))
        : callBy(route, target, args, options)
    },
  }
}

const compare = (one: string, other: string): number => (one < other ? -1 : one === other ? 0 : 1)

const byName = (one: UpstreamTool, other: UpstreamTool): number =>
  compare(one.name, other.name) || compare(one.id, other.id)

const notOffered = (toolId: string): AppError =>
  new AppError('ERR_UNKNOWN_TOOL', 'The MCP server no longer offers this tool.', { tool_id: toolId })

/** The former object, if the tool is called as it was: its definition is the same anyway. */
function sameTool(before: UpstreamTool | undefined, now: UpstreamTool): UpstreamTool {
  const isSame =
    before?.name === now.name && before.serverName === now.serverName && before.aliases.join() === now.aliases.join()
  return isSame ? before : now
}

const toolOf = (tool: StoredTool, item: CatalogItem, digest: string, definition: ToolDefinition): UpstreamTool => ({
  id: tool.id,
  definition: digest,
  tenant: tool.tenant,
  catalogId: tool.catalogId,
  serverName: item.name,
  name: tool.name,
  aliases: tool.aliases,
  ...(definition.title === null ? {} : { title: definition.title }),
  description: definition.description,
  inputSchema: definition.inputSchema,
  ...(definition.outputSchema === null ? {} : { outputSchema: definition.outputSchema }),
  ...(definition.annotations === null ? {} : { annotations: definition.annotations }),
  ...(definition.taskSupport !== null && { takesTasks: true }),
})
