import { join } from 'node:path'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { UpstreamTools } from '../../contract/upstream-tools.ts'
import { createCatalog, type TeamDirectory } from '../../domains/mcp-servers/catalog.ts'
import { createDeployments } from '../../domains/mcp-servers/deployments.ts'
import { createInstallationRequests } from '../../domains/mcp-servers/installation-requests.ts'
import type { UpstreamRuntime } from '../../domains/mcp-servers/runtime.ts'
import { createMcpServerService, type McpServerService } from '../../domains/mcp-servers/service.ts'
import { createUpstreamTools, openToolVersions } from '../../domains/mcp-servers/upstream-tools.ts'
import { createServerLog } from '../../stores/files/server-log.ts'
import { sqlInstallationRequestStore } from '../../stores/sql/installation-request-store.ts'
import { sqlMcpServerStore as store } from '../../stores/sql/mcp-server-store.ts'
import { sqlPeopleStore } from '../../stores/sql/people-store.ts'
import type { AppDeps } from '../build-app.ts'
import { once } from './once.ts'
import type { OpenedSecrets } from './open-secrets.ts'
import { createServerWorkspaces, type ServerWorkspaceParts } from './server-workspaces.ts'

export type OpenedMcpServers = Readonly<{
  service: McpServerService
  tools: UpstreamTools
  close(): Promise<void>
}>

export type McpServerParts = ServerWorkspaceParts & Readonly<{ database: Database; directory: string }>

/** The MCP servers behind this one. What connects to them is loaded when the first is used. */
export async function openMcpServers(
  deps: AppDeps,
  parts: McpServerParts,
  { service: secrets, links }: OpenedSecrets,
): Promise<OpenedMcpServers> {
  const { clock, random, logger } = deps
  const { database } = parts
  const runtime = lazyRuntime(deps, parts)
  const versions = await openToolVersions({ store, database })
  const noteChange = async (
    tx: Parameters<typeof store.raiseVersion>[0],
    tenant: Parameters<typeof store.raiseVersion>[1],
  ) => {
    await store.raiseVersion(tx, tenant)
    // Listeners are told what was committed.
    void database.flush().then(
      () => versions.refresh(tenant),
      (error: unknown) => logger.warn('a change of MCP servers was not announced', { cause: String(error) }),
    )
  }
  const shared = { store, secrets, runtime, teams, random, noteChange }
  const catalog = createCatalog(shared)
  const deployments = createDeployments({
    ...shared,
    catalog,
    links,
    database,
    clock,
    logger,
    announce: versions.refresh,
    assignTools: undefined,
  })
  const requests = createInstallationRequests({ store: sqlInstallationRequestStore, links, random })
  const isAlone = database.kind === 'sqlite'
  const polling = isAlone
    ? undefined
    : setInterval(() => void versions.refreshAll().catch(() => {}), limits.mcpVersionPollMs).unref()
  const tidied = isAlone ? stopAbandoned(deps, parts) : undefined
  return {
    service: createMcpServerService({ store, catalog, deployments, requests, teams }),
    tools: createUpstreamTools({ store, database, runtime, deployments, versions }),
    async close() {
      clearInterval(polling)
      await tidied
      await runtime.close()
    },
  }
}

/** A server process that was killed leaves workspaces running in which nothing runs any more. */
async function stopAbandoned({ logger }: AppDeps, parts: McpServerParts): Promise<void> {
  const workspaces = createServerWorkspaces(parts)
  const { read } = parts.database
  try {
    for (const tenant of (await store.versions(read)).keys()) {
      for (const { id } of await store.listDeployments(read, tenant)) await workspaces.stopIdle(tenant, id)
    }
  } catch (error) {
    logger.warn('workspaces of MCP servers were not stopped', { cause: String(error) })
  }
}

const teams: TeamDirectory = { find: (tx, tenant, named) => sqlPeopleStore.findTeam(tx as ReadTx, tenant, named) }

/** The same before the client of MCP is loaded: nothing runs then. */
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
    const lineBytesMax = limits.mcpMessageBytesMax
    const { idle_secs, start_timeout_secs, call_timeout_secs, max_running } = config.mcp_servers
    const runtime = createUpstreams({
      web: createCheckedFetch({ allowedNetworks: config.web.allow_private_addresses, lineBytesMax }),
      localFetch: createCheckedFetch({ allowedNetworks: ['127.0.0.1'], lineBytesMax }).fetch,
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
    callTool: async (...args) => (await load()).callTool(...args),
    checkAddress: async (...args) => (await load()).checkAddress(...args),
    remove: async (...args) => (await load()).remove(...args),
    stop: async (...args) => await made?.stop(...args),
    stateOf: (id) => made?.stateOf(id) ?? { state: 'stopped', problem: undefined, starts: 0 },
    readLog: log.read,
    onToolsChanged(listener) {
      listeners.push(listener)
      return () => {}
    },
    close: async () => await (await load.made())?.close(),
  }
}
