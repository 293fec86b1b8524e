import type { Call } from '../../contract/call.ts'
import type { Principal } from '../../contract/principal.ts'
import { canSee } from '../../contract/sharing.ts'
import type { Authorizations } from './authorizations.ts'
import type { Catalog, TeamDirectory } from './catalog.ts'
import type { DeployInput, Deployments } from './deployments.ts'
import type { InstallationRequests } from './installation-requests.ts'
import { knownTools } from './listed-tools.ts'
import type { CatalogItem, McpServerStore } from './ports.ts'
import { createRegistryReader } from './registry-format.ts'

type McpServerDeps = Readonly<{
  store: McpServerStore
  catalog: Catalog
  deployments: Deployments
  requests: InstallationRequests
  authorizations: Authorizations
  teams: TeamDirectory
  /** The names of the upstream tools that the caller finds in its lists, by the id of the tool. */
  namesFor(principal: Principal): Promise<ReadonlyMap<string, string>>
}>

type Reading = Pick<Call, 'principal' | 'read'>

export type McpServerService = ReturnType<typeof createMcpServerService>

/** The MCP servers of a tenant, for the tools. */
export function createMcpServerService({
  store,
  catalog,
  deployments,
  requests,
  teams,
  authorizations,
  namesFor,
}: McpServerDeps) {
  async function search({ principal, read }: Reading, { query }: Readonly<{ query?: string | undefined }>) {
    const words = (query ?? '')
      .toLowerCase()
      .split(/\s+/)
      .filter((word) => word !== '')
    const isMatching = ({ name, description, labels }: CatalogItem): boolean => {
      const text = [name, description ?? '', ...labels.flatMap(({ key, value }) => [key, value])]
        .join(' ')
        .toLowerCase()
      return words.every((word) => text.includes(word))
    }
    const items = (await catalog.visible(read, principal)).filter(isMatching)
    return {
      items: items.map((item) => ({
        id: item.id,
        name: item.name,
        version: item.version,
        description: item.description,
        serverType: item.serverType,
        serverUrl: item.serverType === 'remote' ? (item.config.serverUrl ?? null) : null,
        repository: item.repository,
      })),
    }
  }

  /** With the problems of deployed servers: an empty list of tools would not show them. */
  async function list(call: Reading & Pick<Call, 'origin'>) {
    const { principal, read } = call
    const items = await catalog.visible(read, principal)
    const seen = (await store.listDeployments(read, principal.tenant)).filter(({ sharing }) =>
      canSee(principal, 'mcpServerInstallation', sharing),
    )
    const names = new Map<string, string>()
    for (const team of new Set(items.flatMap(({ sharing }) => sharing.teams))) {
      names.set(team, (await teams.find(read, principal.tenant, team))?.name ?? team)
    }
    return {
      items: items.map((item) => {
        const own = seen
          .filter(({ catalogId }) => catalogId === item.id)
          .map((one) => deployments.view(item, one, call.origin))
        return {
          id: item.id,
          name: item.name,
          icon: item.icon,
          description: item.description,
          scope: item.sharing.scope,
          teams: item.sharing.teams.map((id) => ({ id, name: names.get(id) ?? id })),
          serverType: item.serverType,
          deployments: own.map(({ id, scope, status, error, needsAuthorization, authorizeUrl, state }) => ({
            ...{ id, scope, status, error, needsAuthorization, authorizeUrl, state },
          })),
        }
      }),
    }
  }

  /**
   * Those of the deployment that the caller's calls use, by the names that call them; without one, those of the shared deployments
   * that it can see.
   */
  async function tools({ principal, read }: Reading, { mcpServerId }: Readonly<{ mcpServerId: string }>) {
    const item = await catalog.find(read, principal, mcpServerId, 'mcpServerId')
    const seen = (await store.listDeployments(read, item.tenant, item.id)).filter(({ sharing }) =>
      canSee(principal, 'mcpServerInstallation', sharing),
    )
    const known = await knownTools(store, read, principal, item.id, 'usable')
    const definitions = await store.definitions(read, item.tenant, item.id)
    const stored = await store.listTools(read, item.tenant, item.id)
    const names = await namesFor(principal)
    return {
      tools: stored.flatMap(({ id, name, catalogId }) => {
        const definition = definitions.get(known.get(id) ?? '')
        if (definition === undefined) return []
        return { id, name: names.get(id) ?? name, description: definition.description, catalogId }
      }),
      problems: seen.flatMap((one) => {
        const { id, status, error } = deployments.view(item, one, undefined)
        const problem = status === 'success' ? one.error : error
        return problem === null ? [] : [{ deploymentId: id, error: problem }]
      }),
      isDeployed: seen.length > 0,
    }
  }

  /** A server that needs a person's sign-in is deployed with a link for that. */
  async function deploy(call: Call, input: DeployInput) {
    const deployed = await deployments.deploy(call, input)
    return deployed.needsAuthorization ? await authorizations.offer(call, deployed) : deployed
  }

  return {
    readRegistry: createRegistryReader(catalog),
    search,
    list,
    tools,
    create: catalog.create,
    checkNew: catalog.checkNew,
    editDescription: catalog.editDescription,
    editConfig: catalog.editConfig,
    remove: catalog.remove,
    deploy,
    /** For the caller alone. */
    install: (call: Call, input: Pick<DeployInput, 'catalogId' | 'values'>) =>
      deploy(call, { ...input, scope: 'personal' }),
    authorize: authorizations.request,
    finishAuthorization: authorizations.finish,
    listDeployments: deployments.list,
    logs: deployments.logs,
    removeDeployment: deployments.remove,
    request: requests.create,
    listRequests: requests.list,
    noteRequest: requests.addNote,
    decideRequest: requests.decide,
  }
}
