import { join } from 'node:path'
import { AppError } from '../../contract/app-error.ts'
import type { Call, EffectRecord } from '../../contract/call.ts'
import type { Database } from '../../contract/database.ts'
import type { GatewayDirectory } from '../../contract/gateway-directory.ts'
import { limits } from '../../contract/limits.ts'
import type { OwnerDirectory } from '../../contract/owner-directory.ts'
import type { Principal } from '../../contract/principal.ts'
import { canModify } from '../../contract/sharing.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { UpstreamContent } from '../../contract/upstream-content.ts'
import type { Subjects, UpstreamTools } from '../../contract/upstream-tools.ts'
import type { AssignmentDeps, ToolAssignments } from '../../domains/gateways/assignments.ts'
import { type Authorizations, createAuthorizations } from '../../domains/mcp-servers/authorizations.ts'
import { createCatalog, type TeamDirectory } from '../../domains/mcp-servers/catalog.ts'
import { type AgentTools, createDeployments, type Deployments } from '../../domains/mcp-servers/deployments.ts'
import { createCredentialExchange } from '../../domains/mcp-servers/exchanged-credentials.ts'
import { createGrants } from '../../domains/mcp-servers/grants.ts'
import { createInstallationRequests } from '../../domains/mcp-servers/installation-requests.ts'
import type { UpstreamRuntime } from '../../domains/mcp-servers/runtime.ts'
import { createMcpServerService, type McpServerService } from '../../domains/mcp-servers/service.ts'
import { createUpstreamContent } from '../../domains/mcp-servers/upstream-content.ts'
import {
  type AssignedCredentials,
  createUpstreamTools,
  openToolVersions,
} from '../../domains/mcp-servers/upstream-tools.ts'
import type { Profile } from '../../domains/profiles/ports.ts'
import { modifyPermission, noSuch } from '../../domains/profiles/rules.ts'
import type { ProfileService } from '../../domains/profiles/service.ts'
import { createBackground } from '../../kernel/background.ts'
import { createServerLog } from '../../stores/files/server-log.ts'
import { sqlAssignmentStore } from '../../stores/sql/assignment-store.ts'
import { sqlInstallationRequestStore } from '../../stores/sql/installation-request-store.ts'
import { sqlMcpServerStore as store } from '../../stores/sql/mcp-server-store.ts'
import { sqlPeopleStore } from '../../stores/sql/people-store.ts'
import type { ToolView, ToolViews } from '../../tools/runtime/tool-views.ts'
import type { AppDeps } from '../build-app.ts'
import { linkOrigin } from '../link-origin.ts'
import { once } from './once.ts'
import type { OpenedSecrets } from './open-secrets.ts'
import { openToolAssignments } from './open-tool-assignments.ts'
import { createServerWorkspaces, type ServerWorkspaceParts } from './server-workspaces.ts'

export type OpenedMcpServers = Readonly<{
  service: McpServerService
  authorizations: Pick<Authorizations, 'open'>
  tools: UpstreamTools
  contentOf(gateways: GatewayDirectory): UpstreamContent
  assignments: ToolAssignments
  noteChange: AssignmentDeps['noteChange']
  close(): Promise<void>
}>

export type McpServerParts = ServerWorkspaceParts &
  Readonly<{
    database: Database
    directory: string
    views: Pick<ToolViews, 'own' | 'viewFor'>
    sharing: ProfileService
    subjects: Subjects
    owners: Pick<OwnerDirectory, 'isRevoked'>
  }>

/** Upstream MCP servers. Their client is loaded when the first is used. */
export async function openMcpServers(
  deps: AppDeps,
  parts: McpServerParts,
  { service: secrets, links }: OpenedSecrets,
): Promise<OpenedMcpServers> {
  const { clock, random, logger } = deps
  const { database } = parts
  const runtime = lazyRuntime(deps, parts)
  const versions = await openToolVersions({ store, database })
  const announcing = createBackground((error) =>
    logger.warn('change of MCP servers could not be announced', { cause: String(error) }),
  )
  const noteChange: AssignmentDeps['noteChange'] = async (tx, tenant) => {
    await store.raiseVersion(tx, tenant)
    // Listeners are notified after the commit.
    announcing.run(async () => {
      await database.flush()
      await versions.refresh(tenant)
    })
  }
  const assignments = openToolAssignments({ ...parts, noteChange })
  const shared = { store, secrets, runtime, teams, random, noteChange }
  const catalog = createCatalog(shared)
  const grants = createGrants({ store, secrets, oauth: runtime.oauth, database, clock, noteChange })
  const deployments = createDeployments({
    ...shared,
    catalog,
    grants,
    links,
    database,
    clock,
    logger,
    announce: versions.refresh,
    agentTools: openAgentTools(assignments, parts.sharing),
    isRevoked: parts.owners.isRevoked,
  })
  const authorizations = createAuthorizations({
    ...shared,
    deployments,
    grants,
    links,
    oauth: runtime.oauth,
    database,
    clock,
  })
  const exchange = createCredentialExchange({
    secrets,
    oauth: runtime.oauth,
    subjects: parts.subjects,
    origin: linkOrigin(deps.config),
    database,
    clock,
  })
  const tools = createUpstreamTools({
    store,
    database,
    runtime,
    deployments,
    versions,
    ...{ exchange, publicOrigin: linkOrigin(deps.config) },
    ...assignedCredentials(database.read),
  })
  const requests = createInstallationRequests({ store: sqlInstallationRequestStore, links, catalog, random })
  const namesFor = async (principal: Principal) => upstreamNames(await parts.views.viewFor(principal))
  const poll = (): void => announcing.run(() => versions.refreshAll().catch(() => {}))
  const polling = database.kind === 'sqlite' ? undefined : setInterval(poll, limits.mcpVersionPollMs).unref()
  const resumed = resume(deps, parts, deployments)
  return {
    service: createMcpServerService({ ...shared, deployments, requests, catalog, authorizations, namesFor }),
    authorizations,
    assignments,
    noteChange,
    tools,
    contentOf: (gateways) =>
      createUpstreamContent({
        store,
        read: database.read,
        runtime,
        addressFor: tools.addressFor,
        gateways,
      }),
    async close() {
      clearInterval(polling)
      await resumed
      // Requests that wait for a server continue when its connection ends.
      const ended = deployments.close()
      await runtime.close()
      await ended
      await announcing.close()
    },
  }
}

const upstreamNames = ({ tools }: ToolView): ReadonlyMap<string, string> =>
  new Map(tools.flatMap(({ upstream, name }) => (upstream === undefined ? [] : [[upstream.id, name] as const])))

const assignedCredentials = (read: ReadTx): AssignedCredentials => ({
  async assignedCredential(tenant, agentId, toolId) {
    const found = await sqlAssignmentStore.findAssignment(read, tenant, agentId, toolId)
    if (found === undefined) return undefined
    return { mode: found.mode, ...(found.deploymentId !== null && { deploymentId: found.deploymentId }) }
  },
  async assignedTo(tenant, agentId) {
    const assigned = await sqlAssignmentStore.listAssignments(read, tenant, agentId)
    return new Map(assigned.map(({ toolId, deploymentId }) => [toolId, deploymentId]))
  },
})

function openAgentTools(assignments: ToolAssignments, sharing: ProfileService): AgentTools {
  async function targetsOf({ principal, read }: Pick<Call, 'principal' | 'read'>, agentIds: readonly string[]) {
    const targets: Profile[] = []
    for (const id of new Set(agentIds)) {
      const found = await sharing.find(read, principal, 'agent', id)
      if (found === undefined) throw noSuch('agentIds', 'agent; use list_agents to find its id')
      if (!canModify(principal, 'agent', found.sharing)) {
        const permission = modifyPermission(found)
        const message = `agentIds: changing these agents requires the permission '${permission}'`
        throw new AppError('ERR_PERMISSION_DENIED', message, { field: 'agentIds', permission })
      }
      targets.push(found)
    }
    return targets
  }
  return {
    requireAssignable: async (call, agentIds) => void (await targetsOf(call, agentIds)),
    async assign(call, { agentIds, ...deployed }) {
      const { principal, nowMs } = call
      const effects: EffectRecord[] = []
      await call.transact(async (write) => {
        effects.length = 0
        const read = write as unknown as ReadTx
        const writing = { principal, nowMs, read, write, record: (effect: EffectRecord) => void effects.push(effect) }
        await assignments.assignDeployed(writing, { ...deployed, targets: await targetsOf(writing, agentIds) })
      })
      for (const effect of effects) call.record(effect)
    },
  }
}

/** A killed server leaves its workspaces running, with nothing in them. */
async function stopAbandoned({ logger }: AppDeps, parts: McpServerParts): Promise<void> {
  const workspaces = createServerWorkspaces(parts)
  const { read } = parts.database
  try {
    for (const tenant of (await store.versions(read)).keys()) {
      for (const { id } of await store.listDeployments(read, tenant)) await workspaces.stopIdle(tenant, id)
    }
  } catch (error) {
    logger.warn('workspaces of MCP servers could not be stopped', { cause: String(error) })
  }
}

/** The start of a server goes on where the last program left it. */
async function resume(deps: AppDeps, parts: McpServerParts, deployments: Pick<Deployments, 'resume'>): Promise<void> {
  const { read, kind } = parts.database
  if (kind === 'sqlite') await stopAbandoned(deps, parts)
  try {
    for (const tenant of (await store.versions(read)).keys()) await deployments.resume(tenant)
  } catch (error) {
    deps.logger.warn('MCP servers that were being deployed could not be connected', { cause: String(error) })
  }
}

const teams: TeamDirectory = { find: (tx, tenant, named) => sqlPeopleStore.findTeam(tx as ReadTx, tenant, named) }

/** Loads the MCP client at the first use. Until then no server is connected. */
function lazyRuntime(deps: AppDeps, parts: McpServerParts): UpstreamRuntime {
  const { config, clock, logger, version } = deps
  const log = createServerLog({ directory: join(parts.directory, 'mcp-logs'), clock, logger })
  const listeners: Parameters<UpstreamRuntime['onToolsChanged']>[0][] = []
  let made: UpstreamRuntime | undefined
  const load = once(async (): Promise<UpstreamRuntime> => {
    const [{ createUpstreams }, { createCheckedFetch }] = await Promise.all([
      import('../../upstreams/create-upstreams.ts'),
      import('../../web-client/checked-fetch.ts'),
    ])
    const messageBytesMax = limits.mcpMessageBytesMax
    const { idle_secs, start_timeout_secs, call_timeout_secs, max_running } = config.mcp_servers
    const runtime = createUpstreams({
      web: createCheckedFetch({ allowedNetworks: config.web.allow_private_addresses, messageBytesMax }),
      localFetch: createCheckedFetch({ allowedNetworks: ['127.0.0.1'], messageBytesMax }).fetch,
      workspaces: createServerWorkspaces(parts),
      log,
      clock,
      version,
      settings: {
        idleMs: idle_secs * 1_000,
        startMs: start_timeout_secs * 1_000,
        callMs: call_timeout_secs * 1_000,
        runningMax: max_running,
      },
    })
    for (const listener of listeners) runtime.onToolsChanged(listener)
    made = runtime
    return runtime
  })
  return {
    listTools: async (...args) => (await load()).listTools(...args),
    callTool: (at, name, args, options) =>
      made === undefined
        ? load().then((runtime) => runtime.callTool(at, name, args, options))
        : made.callTool(at, name, args, options),
    ask: async (...args) => (await load()).ask(...args),
    subscribe: async (...args) => (await load()).subscribe(...args),
    checkAddress: async (...args) => (await load()).checkAddress(...args),
    remove: async (...args) => (await load()).remove(...args),
    stop: async (...args) => await made?.stop(...args),
    stateOf: (id) => made?.stateOf(id) ?? { state: 'stopped', problem: undefined, isUnreachable: false, starts: 0 },
    readLog: log.read,
    oauth: {
      begin: async (...args) => (await load()).oauth.begin(...args),
      redeem: async (...args) => (await load()).oauth.redeem(...args),
      refresh: async (...args) => (await load()).oauth.refresh(...args),
      exchange: async (...args) => (await load()).oauth.exchange(...args),
    },
    onToolsChanged(listener) {
      listeners.push(listener)
      return () => {}
    },
    close: async () => await (await load.made())?.close(),
  }
}
