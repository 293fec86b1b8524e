import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import { isPermitted } from '../../contract/permissions.ts'
import { identityOf, type Principal, type TenantId } from '../../contract/principal.ts'
import type { RawAnswer } from '../../contract/raw-answer.ts'
import { sharingScopes } from '../../contract/sharing.ts'
import { createStoreMemo } from '../../contract/store-memo.ts'
import type { UnreachableServer } from '../../contract/upstream-content.ts'
import type {
  UpstreamCallOptions,
  UpstreamCredential,
  UpstreamTarget,
  UpstreamTool,
  UpstreamTools,
} from '../../contract/upstream-tools.ts'
import { nextTurn } from '../../kernel/time-slicer.ts'
import type { Deployments } from './deployments.ts'
import type { CredentialExchange } from './exchanged-credentials.ts'
import type { CatalogItem, Deployment, McpServerStore, StoredTool } from './ports.ts'
import type { InstanceState, UpstreamAddress, UpstreamRuntime } from './runtime.ts'

type UpstreamToolDeps = Readonly<{
  store: McpServerStore
  database: Pick<Database, 'read' | 'dataVersion'>
  runtime: Pick<UpstreamRuntime, 'callTool' | 'stateOf'>
  deployments: Pick<Deployments, 'addressOf'>
  versions: ToolVersions
  /** The credential that an agent's assignment names, if any. */
  assignedCredential(tenant: TenantId, agentId: string, toolId: string): Promise<UpstreamCredential | undefined>
  exchange: CredentialExchange
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

/** The tools of one server as they were when the mark was read: what has not changed stays the same objects. */
type ToolsOfItem = Readonly<{ mark: string; serverName: string; tools: readonly UpstreamTool[] }>

type Serving = Readonly<{ slug: string; deployment: Deployment }>

/** The deployment's own problem, else why it cannot be connected now. */
function problemOf(
  server: string,
  { status, error }: Deployment,
  { state, problem }: InstanceState,
): UnreachableServer[] {
  if (status === 'pending')
    return [{ server, code: 'ERR_CREDENTIAL_REQUIRED', message: error ?? 'Values that it needs are missing.' }]
  const isResting = state === 'backing-off' && problem !== undefined
  if (status !== 'error' && !isResting) return []
  return [{ server, code: 'ERR_UPSTREAM_UNAVAILABLE', message: error ?? problem ?? 'It cannot be connected.' }]
}

type CallArguments = [args: Readonly<Record<string, unknown>>, options: UpstreamCallOptions]

/** The route of one principal's call; without an address if the call itself decides. */
type Route = Readonly<{ tool: StoredTool; credential: UpstreamCredential; address?: UpstreamAddress }>

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
  const lists = new Map<TenantId, ReadonlyMap<string, ToolsOfItem>>()

  const toolsOf = async (item: CatalogItem): Promise<readonly UpstreamTool[]> =>
    (await store.listTools(read, item.tenant, item.id)).flatMap((tool) =>
      tool.removedAtMs === null ? toolOf(tool, item) : [],
    )

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

  async function deploymentFor(
    tool: StoredTool,
    principal: Principal,
    credential: UpstreamCredential,
  ): Promise<Deployment> {
    const all = await store.listDeployments(read, tool.tenant, tool.catalogId)
    if (credential.mode === 'static' && credential.deploymentId !== undefined) {
      const chosen = all.find(({ id }) => id === credential.deploymentId)
      // A personal deployment serves its author alone.
      if (
        chosen !== undefined &&
        (chosen.sharing.scope !== 'personal' || chosen.sharing.author === identityOf(principal))
      )
        return chosen
      throw noCredential(tool, principal, 'the deployment that is assigned to this tool does not exist or is not yours')
    }
    const own = nearest(principal, all)
    if (own !== undefined) return own
    throw noCredential(tool, principal, 'it is not deployed for you, for one of your teams, or for everyone')
  }

  async function addressFor(
    tool: StoredTool,
    caller: Pick<UpstreamTarget, 'principal' | 'origin'>,
    credential: UpstreamCredential,
  ): Promise<UpstreamAddress> {
    const deployment = await deploymentFor(tool, caller.principal, credential)
    if (credential.mode !== 'enterprise_managed') return deps.deployments.addressOf(deployment)
    const item = await store.findItem(read, tool.tenant, tool.catalogId)
    return deps.deployments.addressOf(deployment, await deps.exchange(item!, caller))
  }

  async function routeOf(target: UpstreamTarget): Promise<Route> {
    const tool = await store.findTool(read, target.tenant, target.toolId)
    if (tool === undefined || tool.removedAtMs !== null) {
      throw new AppError('ERR_UNKNOWN_TOOL', 'The MCP server no longer offers this tool.', {
        tool_id: target.toolId,
      })
    }
    const credential = await credentialFor(tool, target)
    if (credential.mode === 'enterprise_managed') return { tool, credential }
    return { tool, credential, address: await addressFor(tool, target, credential) }
  }

  /** At once where the address is known: a call that takes a moment should not wait for several. */
  function callBy(route: Route, target: UpstreamTarget, ...[args, options]: CallArguments): Promise<RawAnswer> {
    const { upstreamName, taskSupport } = route.tool
    const callAt = (address: UpstreamAddress): Promise<RawAnswer> =>
      deps.runtime.callTool(address, upstreamName, args, { ...options, asTask: taskSupport !== null })
    return route.address === undefined
      ? addressFor(route.tool, target, route.credential).then(callAt)
      : callAt(route.address)
  }

  return {
    addressFor,
    version: versions.get,
    onChanged: versions.onChanged,
    async list(tenant) {
      const before = lists.get(tenant)
      const now = new Map<string, ToolsOfItem>()
      // Read before the tools: what changes in between is read again the next time.
      const marks = await store.toolListMarks(read, tenant)
      for (const item of await store.listItems(read, tenant)) {
        const mark = marks.get(item.id)
        if (mark === undefined) continue
        const same = before?.get(item.id)
        const isSame = same?.mark === mark && same.serverName === item.name
        now.set(item.id, isSame ? same : { mark, serverName: item.name, tools: await toolsOf(item) })
        // The list may be very long: other work runs in between.
        if (!isSame) await nextTurn()
      }
      lists.set(tenant, now)
      const tools = [...now.values()].flatMap((known) => known.tools)
      return tools.sort((one, other) => compare(one.name, other.name) || compare(one.id, other.id))
    },
    async visibleTo(principal) {
      const { tenant } = principal
      const deployments = await store.listDeployments(read, tenant)
      return new Set(deployments.filter((one) => serves(one, principal)).map(({ catalogId }) => catalogId))
    },
    async unreachableFor(principal, items) {
      const known = await serving(principal, 'serving', () => servingNow(principal))
      const meant = known.filter(({ deployment }) => items?.has(deployment.catalogId) !== false)
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

/** Whether its credentials are for the caller. An administrator sees every deployment, but other people's do not serve it. */
function serves({ sharing }: Deployment, principal: Principal): boolean {
  if (sharing.scope === 'personal') return sharing.author === identityOf(principal)
  return sharing.scope === 'org' || sharing.teams.some((team) => principal.teams.includes(team))
}

/** The caller's own, else a team's, else the organisation's. */
function nearest(principal: Principal, all: readonly Deployment[]): Deployment | undefined {
  const serving = all.filter((one) => serves(one, principal))
  return sharingScopes.map((scope) => serving.find(({ sharing }) => sharing.scope === scope)).find(Boolean)
}

const toolOf = (tool: StoredTool, item: CatalogItem): UpstreamTool => ({
  id: tool.id,
  tenant: tool.tenant,
  catalogId: tool.catalogId,
  serverName: item.name,
  name: tool.name,
  aliases: tool.aliases,
  ...(tool.title === null ? {} : { title: tool.title }),
  description: tool.description,
  inputSchema: tool.inputSchema,
  ...(tool.outputSchema === null ? {} : { outputSchema: tool.outputSchema }),
  ...(tool.annotations === null ? {} : { annotations: tool.annotations }),
  ...(tool.taskSupport !== null && { takesTasks: true }),
})

/** With the tool to call. The name of the server is part of the name of the tool. */
function noCredential({ catalogId, name }: StoredTool, principal: Principal, reason: string): AppError {
  const [server] = name.split('__')
  const tool = deployToolFor(principal)
  const next =
    tool === undefined
      ? 'Request it by name with create_mcp_server_installation_request at the address /mcp. An administrator can then deploy it for one of your teams.'
      : `Deploy it for yourself: call ${tool} with {"catalogId":"${catalogId}"} at the address /mcp.`
  return new AppError(
    'ERR_CREDENTIAL_REQUIRED',
    `There is no credential for the MCP server '${server}': ${reason}. ${next}`,
    {
      catalog_id: catalogId,
      server: server ?? name,
      ...(tool !== undefined && { call: { tool, arguments: { catalogId } } }),
    },
  )
}

/** The tool with which the caller gets its own deployment; undefined if it may have none. */
const deployToolFor = (principal: Principal): string | undefined => {
  if (isPermitted(principal, 'mcpRegistry:update')) return 'deploy_mcp_server'
  return isPermitted(principal, 'mcpServerInstallation:create') ? 'install_mcp_server' : undefined
}
