import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import { isPermitted } from '../../contract/permissions.ts'
import { identityOf, type Principal, type TenantId } from '../../contract/principal.ts'
import { sharingScopes } from '../../contract/sharing.ts'
import type { UpstreamCredential, UpstreamTarget, UpstreamTool, UpstreamTools } from '../../contract/upstream-tools.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import type { Deployments } from './deployments.ts'
import type { CredentialExchange } from './exchanged-credentials.ts'
import type { CatalogItem, Deployment, McpServerStore, StoredTool } from './ports.ts'
import type { UpstreamRuntime } from './runtime.ts'

export type UpstreamToolDeps = Readonly<{
  store: McpServerStore
  database: Pick<Database, 'read'>
  runtime: Pick<UpstreamRuntime, 'callTool'>
  deployments: Pick<Deployments, 'addressOf'>
  versions: ToolVersions
  /** What an agent was assigned the tool with, if it was. */
  assignedCredential(tenant: TenantId, agentId: string, toolId: string): Promise<UpstreamCredential | undefined>
  exchange: CredentialExchange
}>

/** The numbers by which others see that the tools of a tenant changed. */
export type ToolVersions = Readonly<{
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
}: Pick<UpstreamToolDeps, 'store' | 'database'>): Promise<ToolVersions> {
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

/** The tools of the servers that are deployed, for the catalogue of tools. */
export function createUpstreamTools(deps: UpstreamToolDeps): UpstreamTools &
  Readonly<{
    deploymentFor(tool: StoredTool, principal: Principal, credential: UpstreamCredential): Promise<Deployment>
  }> {
  const { store, versions } = deps
  const { read } = deps.database

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
      throw noCredential(tool, principal, 'the deployment that is assigned to this tool is not there, or not yours')
    }
    const own = nearest(principal, all)
    if (own !== undefined) return own
    throw noCredential(tool, principal, 'it is deployed neither for you, nor for a team of yours, nor for everybody')
  }

  /** A caller that comes with another token has another connection: what the one may do is not for the other. */
  async function exchangedFor({ tenant, catalogId }: Deployment, { principal, subject }: UpstreamTarget) {
    const item = await store.findItem(read, tenant, catalogId)
    const authorization = deps.exchange(item!, subject)
    return { caller: sha256Hex(`${identityOf(principal)}\n${subject!.token}`), authorization }
  }

  return {
    deploymentFor,
    version: versions.get,
    onChanged: versions.onChanged,
    async list(tenant) {
      const items = new Map((await store.listItems(read, tenant)).map((item) => [item.id, item]))
      return (await store.listTools(read, tenant))
        .filter(({ removedAtMs, catalogId }) => removedAtMs === null && items.has(catalogId))
        .map((tool) => toolOf(tool, items.get(tool.catalogId)!))
    },
    async visibleTo(principal) {
      const { tenant } = principal
      const deployments = await store.listDeployments(read, tenant)
      return new Set(deployments.filter((one) => serves(one, principal)).map(({ catalogId }) => catalogId))
    },
    async call(target, args, options) {
      const tool = await store.findTool(read, target.tenant, target.toolId)
      if (tool === undefined || tool.removedAtMs !== null) {
        throw new AppError('ERR_UNKNOWN_TOOL', 'The MCP server does not offer this tool any more.', {
          tool_id: target.toolId,
        })
      }
      const credential = await credentialFor(tool, target)
      const deployment = await deploymentFor(tool, target.principal, credential)
      const exchanged = credential.mode === 'enterprise_managed' ? await exchangedFor(deployment, target) : undefined
      const address = deps.deployments.addressOf(deployment, exchanged)
      return await deps.runtime.callTool(address, tool.upstreamName, args, options)
    },
  }
}

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
})

/** With the call that helps. The name of the server is part of the name of the tool. */
function noCredential({ catalogId, name }: StoredTool, principal: Principal, reason: string): AppError {
  const [server] = name.split('__')
  const call = { tool: 'deploy_mcp_server', arguments: { catalogId } }
  const next = isPermitted(principal, 'mcpRegistry:update')
    ? `Deploy it for yourself: call deploy_mcp_server with {"catalogId":"${catalogId}"}; the address /mcp has that tool.`
    : `Ask for it with create_mcp_server_installation_request at the address /mcp, and name the server: an administrator can deploy it for a team of yours.`
  return new AppError(
    'ERR_CREDENTIAL_REQUIRED',
    `There is no credential for the MCP server '${server}': ${reason}. ${next}`,
    {
      catalog_id: catalogId,
      server: server ?? name,
      ...(isPermitted(principal, 'mcpRegistry:update') && { call }),
    },
  )
}
