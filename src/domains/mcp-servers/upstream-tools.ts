import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import { isPermitted } from '../../contract/permissions.ts'
import { identityOf, type Principal, type TenantId } from '../../contract/principal.ts'
import { sharingScopes } from '../../contract/sharing.ts'
import { createStoreMemo } from '../../contract/store-memo.ts'
import type { UnreachableServer } from '../../contract/upstream-content.ts'
import type { UpstreamCredential, UpstreamTarget, UpstreamTool, UpstreamTools } from '../../contract/upstream-tools.ts'
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
  /** What an agent was assigned the tool with, if it was. */
  assignedCredential(tenant: TenantId, agentId: string, toolId: string): Promise<UpstreamCredential | undefined>
  exchange: CredentialExchange
}>

/** The numbers by which others see that the tools of a tenant changed. */
type ToolVersions = Readonly<{
  get(tenant: TenantId): number
  /** Reads the number that was committed, and tells the listeners if it has grown. */
  refresh(tenant: TenantId): Promise<void>
  /** The same for all tenants: what other processes on the store changed is found so. */
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

type Serving = Readonly<{ slug: string; deployment: Deployment }>

/** What the deployment tells, else why it cannot be connected now. */
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

/** Where a call of one principal goes; without an address if the call itself decides. */
type Route = Readonly<{ tool: StoredTool; credential: UpstreamCredential; address?: UpstreamAddress }>

/** The tools of the servers that are deployed, for the catalogue of tools. */
export function createUpstreamTools(deps: UpstreamToolDeps): UpstreamTools &
  Readonly<{
    /** Where the caller reaches the server of a tool, with the credentials that are for it. */
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

  /** The deployment of each item that the principal uses if nothing else is assigned. */
  async function servingNow(principal: Principal): Promise<readonly Serving[]> {
    const { tenant } = principal
    const deployments = Map.groupBy(await store.listDeployments(read, tenant), ({ catalogId }) => catalogId)
    const items = await store.listItems(read, tenant)
    return items.flatMap(({ id, slug }) => {
      const deployment = nearest(principal, deployments.get(id) ?? [])
      return deployment === undefined ? [] : { slug, deployment }
    })
  }

  /** What an agent was assigned the tool with goes before what is found for its owner. */
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

  return {
    addressFor,
    version: versions.get,
    onChanged: versions.onChanged,
    async list(tenant) {
      const tools: UpstreamTool[] = []
      for (const item of await store.listItems(read, tenant)) {
        for (const tool of await store.listTools(read, tenant, item.id)) {
          if (tool.removedAtMs === null) tools.push(toolOf(tool, item))
        }
        // All together may be very many: others are served in between.
        await new Promise((resolve) => setImmediate(resolve))
      }
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
    async call(target, args, options) {
      const { toolId, principal, credential } = target
      const key = `${toolId} ${credential.mode} ${credential.deploymentId ?? ''}`
      const known = routes(principal, key, () => routeOf(target))
      const route = known instanceof Promise ? await known : known
      const address = route.address ?? (await addressFor(route.tool, target, route.credential))
      const { upstreamName, taskSupport } = route.tool
      return await deps.runtime.callTool(address, upstreamName, args, { ...options, asTask: taskSupport !== null })
    },
  }
}

const compare = (one: string, other: string): number => (one < other ? -1 : one === other ? 0 : 1)

/** Whether its credentials are for the caller. An administrator sees every deployment, and is served by none of other people's. */
function serves({ sharing }: Deployment, principal: Principal): boolean {
  if (sharing.scope === 'personal') return sharing.author === identityOf(principal)
  return sharing.scope === 'org' || sharing.teams.some((team) => principal.teams.includes(team))
}

/** The caller's own, else that of a team, else that of the organisation. */
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

/** With the call that helps. The name of the server is part of the name of the tool. */
function noCredential({ catalogId, name }: StoredTool, principal: Principal, reason: string): AppError {
  const [server] = name.split('__')
  const tool = deployToolFor(principal)
  const next =
    tool === undefined
      ? 'Ask for it with create_mcp_server_installation_request at the address /mcp, and name the server: an administrator can deploy it for a team of yours.'
      : `Deploy it for yourself: call ${tool} with {"catalogId":"${catalogId}"}; the address /mcp has that tool.`
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

/** With which the caller gets a deployment of its own; undefined if it may have none. */
const deployToolFor = (principal: Principal): string | undefined => {
  if (isPermitted(principal, 'mcpRegistry:update')) return 'deploy_mcp_server'
  return isPermitted(principal, 'mcpServerInstallation:create') ? 'install_mcp_server' : undefined
}
