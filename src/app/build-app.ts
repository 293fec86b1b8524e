import { join } from 'node:path'
import type { LogGuard } from '../audit/log-guard.ts'
import type { Database } from '../contract/database.ts'
import type { DiskWatch } from '../contract/disk-watch.ts'
import type { ToolDesk } from '../contract/tool-desk.ts'
import { createGitService } from '../domains/git/service.ts'
import { createIdentityService, type IdentityService } from '../domains/identity/service.ts'
import { createSealGate, type SealGate } from '../domains/seal/gate.ts'
import type { SealService } from '../domains/seal/service.ts'
import { type ClockKeeper, openClockKeeper } from '../domains/server/clock-keeper.ts'
import type { ServerService } from '../domains/server/server-service.ts'
import { createSkillService, type SkillService } from '../domains/skills/service.ts'
import { createSwarmService } from '../domains/swarm/service.ts'
import { createTaskService } from '../domains/tasks/task-service.ts'
import { visibleTeamNames } from '../domains/teams/core.ts'
import type { TeamService } from '../domains/teams/service.ts'
import type { TrailService } from '../domains/trail/trail-service.ts'
import type { VaultService } from '../domains/vault/service.ts'
import type { WorkspaceBackend } from '../domains/workspaces/backend.ts'
import type { Workspace } from '../domains/workspaces/ports.ts'
import type { WorkspaceService } from '../domains/workspaces/service.ts'
import type { Engine } from '../engine/ports.ts'
import type { RunFeed } from '../http/rest-routes.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Logger } from '../kernel/logger.ts'
import type { Random } from '../kernel/random.ts'
import { createSteadyClock, type SteadyClock } from '../kernel/steady-clock.ts'
import { createDiskReserve } from '../stores/files/disk-reserve.ts'
import { createSkillSource } from '../stores/files/skill-source.ts'
import { sqlActivityStore } from '../stores/sql/activity-store.ts'
import { sqlApiKeyStore } from '../stores/sql/api-key-store.ts'
import { sqlClockFloor } from '../stores/sql/clock-floor.ts'
import { sqlLogStore } from '../stores/sql/log-store.ts'
import { sqlTaskStore } from '../stores/sql/task-store.ts'
import { sqlTeamStore } from '../stores/sql/team-store.ts'
import { loadToolset } from '../tools/index.ts'
import { type CallTool, createCallTool } from '../tools/runtime/call-tool.ts'
import { type Catalog, createPreparedCatalog } from '../tools/runtime/catalog.ts'
import { createToolHost, createToolSearch } from '../tools/runtime/create-tool-host.ts'
import { preparedTools } from '../tools/runtime/prepared-tools.ts'
import type { Services } from '../tools/runtime/services.ts'
import type { ToolHost } from '../tools/runtime/tool-host.ts'
import { everPresent, type Presence, whileWelcome } from '../tools/runtime/while-welcome.ts'
import { activityOf } from './agent-activity.ts'
import { chooseStages } from './choose-stages.ts'
import type { Config } from './config.ts'
import { describeServer } from './describe-server.ts'
import { openAgentTools } from './open-agent-tools.ts'
import { openAgents } from './open-agents.ts'
import { openDatabase } from './open-database.ts'
import { openEngine, openExecutions } from './open-executions.ts'
import { openIntents } from './open-intents.ts'
import { type OpenedPolicies, openPolicies } from './open-policies.ts'
import { openRecord } from './open-record.ts'
import { openRunFeed } from './open-run-feed.ts'
import { openSchedules } from './open-schedules.ts'
import { openSeal } from './open-seal.ts'
import { openStarters, type Starters } from './open-starters.ts'
import { openTeams } from './open-teams.ts'
import { createToolDesk } from './open-tool-desk.ts'
import { openVault } from './open-vault.ts'
import { openWorkflows } from './open-workflows.ts'
import { type OpenedWorkspaces, openWorkspaces } from './open-workspaces.ts'
import { presenceOnce } from './presence.ts'
import { workspacesDirectory } from './state-directory.ts'

/** The core, put together: everything behind the doors. Only this file and its neighbours construct. */
export type App = Readonly<{
  /** The time for everything that this store decides: it never goes back. */
  clock: Clock
  catalog: Catalog
  host: ToolHost
  skills: SkillService
  presence: Presence
  /** Resolves when the store is open; a start that fails rejects here and in every call. */
  ready: Promise<ReadyApp>
  close(): Promise<void>
}>

export type ReadyApp = Readonly<{
  /** Absent in mode MINIMAL. */
  database: Database | undefined
  identity: IdentityService | undefined
  seal: SealGate | undefined
  runs: RunFeed | undefined
  verifierKey: string | undefined
  /** What is wrong with logs that are halted, for everybody who uses the state. */
  haltedLogs(): readonly string[]
  /** What server_health answers, for probes that are not calls. */
  health(): ReturnType<ServerService['health']>
}>

export type AppDeps = Readonly<{
  config: Config
  version: string
  clock: Clock
  random: Random
  logger: Logger
  ownerPid(): number
  /** The configuration file that was read, if any. */
  configPath?: string
}>

export function buildApp(deps: AppDeps): App {
  const { config, logger } = deps
  const clock = createSteadyClock(deps.clock)
  const catalog = createPreparedCatalog(preparedTools().tools, loadToolset)
  const skills = createSkillService({
    source: createSkillSource({
      roots: config.skills.roots,
      protectedDirectories: [config.data_dir],
      clock,
    }),
    logger,
  })
  const opened = openCore({ ...deps, clock }, catalog, skills)
  // A failed start is told to everyone who waits; nobody waiting must not end the process.
  opened.catch(() => {})
  const presence = presenceOnce(opened.then((core) => core.presence))
  const host = createToolHost({
    catalog,
    mode: config.mode,
    callTool: opened.then((core) => whileWelcome(core.callTool, core.presence)),
  })
  let closing: Promise<void> | undefined
  return {
    clock,
    catalog,
    host,
    skills,
    presence,
    ready: opened,
    close() {
      closing ??= opened.then(
        (core) => core.close(),
        () => {},
      )
      return closing
    },
  }
}

type Core = ReadyApp & Readonly<{ callTool: CallTool; presence: Presence; close(): Promise<void> }>

const nothingOpen = {
  database: undefined,
  identity: undefined,
  seal: undefined,
  runs: undefined,
  verifierKey: undefined,
  haltedLogs: () => [],
  presence: everPresent,
  close: async () => {},
}

async function openCore(
  deps: AppDeps & Readonly<{ clock: SteadyClock }>,
  catalog: Catalog,
  skills: SkillService,
): Promise<Core> {
  const { config, clock, logger } = deps
  if (config.mode === 'MINIMAL') return { ...createPipeline(deps, catalog, skills, undefined), ...nothingOpen }
  const store = await openDatabase({ config, clock, logger, random: deps.random })
  const { logIdentity, logService, trail, guard, checkpointer, database } = await openRecord(deps, store)
  const opened = { ...store, database }
  const time = await openClockKeeper({ clock, database: store.database, store: sqlClockFloor, logger })
  const starters = openStarters(deps, database)
  const identity = createIdentityService({
    store: sqlApiKeyStore,
    random: deps.random,
    read: database.read,
    noteRevoked: starters.keyRevoked,
    noteExpired: time.noteExpired,
    noteUse: (tenant, keyId, atMs) =>
      void database.writeSoon(tenant, (unit) => sqlApiKeyStore.touchKey(unit, tenant, keyId, atMs)),
  })
  // With a store elsewhere, what fills this disk keeps nobody from writing there.
  const disk = database.kind === 'sqlite' ? createDiskReserve({ ...deps, directory: opened.directory }) : undefined
  const workspaces = openWorkspaces(deps, opened, { starters, reserve: disk })
  const { noteExpired } = time
  const seal = await openSeal(deps, opened, { identity, contexts: openPolicies(deps).contexts, noteExpired })
  const { owners } = workspaces.ground
  const vault = openVault(deps, opened.directory, (call) =>
    visibleTeamNames({ owners, store: sqlTeamStore }, call, call.read),
  )
  const teams = openTeams(deps, { database, workspaces, vault })
  const engine = openEngine(deps, { database, workspaces, starters })
  const pipeline = createPipeline(deps, catalog, skills, {
    database,
    identity,
    trail,
    logService,
    guard,
    time,
    vault,
    workspaces: workspaces.service,
    teams: teams.service,
    seal,
    engine,
    starters,
    ground: workspaces.ground,
    imageFolder: join(workspacesDirectory(opened.directory), 'images'),
    images: workspaces.ground.backend.images,
    disk,
  })
  // What is wrong with a log is said at the start.
  void checkpointer.run()
  // Runs go on from where they were, once everything that they call is there.
  const begun = workspaces.begun
    .then(() => engine.begin())
    .then(() => pipeline.scheduler?.begin())
    .catch((error) => logger.warn('the runs were not taken up', { cause: String(error) }))
  return {
    ...pipeline,
    database,
    identity,
    seal: createSealGate(seal),
    runs: openRunFeed(engine, database, starters),
    verifierKey: logIdentity.signer.verifierKey,
    haltedLogs: guard.problems,
    presence: starters,
    async close() {
      starters.close()
      await begun
      await pipeline.scheduler?.close()
      await engine.close()
      await pipeline.closeAgents()
      await teams.close()
      await workspaces.close()
      await time.close()
      await database.flush()
      await checkpointer.close()
      await database.close()
      await opened.cleanUp()
    },
  }
}

/** Git runs inside a workspace, as everything else does. */
const gitIn = (workspaces: WorkspaceService) =>
  createGitService({
    access: { resolve: workspaces.resolve },
    runner: {
      run: (workspace: Workspace, request) => workspaces.runRaw(workspace, request),
      readFile: async (workspace: Workspace, path) => (await workspaces.openFiles(workspace).read(path)).stream,
    },
  })

type OpenParts = Readonly<{
  database: Database
  identity: IdentityService
  trail: TrailService
  logService: Services['log']
  guard: LogGuard
  time: ClockKeeper
  vault: VaultService
  workspaces: WorkspaceService
  teams: TeamService
  seal: SealService
  engine: Engine
  starters: Starters
  ground: OpenedWorkspaces['ground']
  imageFolder: string
  images: WorkspaceBackend['images']
  disk: DiskWatch | undefined
}>

function createPipeline(deps: AppDeps, catalog: Catalog, skills: SkillService, parts: OpenParts | undefined) {
  const { config, clock, logger } = deps
  const server = describeServer(deps, catalog, skills, parts)
  const bootId = deps.random.bytes(9).toString('base64url')
  let callCount = 0
  const git = parts && gitIn(parts.workspaces)
  const desk = createToolDesk(catalog, config.mode, async (tenant, owner) =>
    parts === undefined ? false : parts.starters.isGone(parts.database.read, tenant, owner),
  )
  const agentTools = parts && openAgentTools(deps, { workspaces: parts.workspaces, desk })
  // Mode MINIMAL refuses every tool that would reach for one of these.
  const unavailable = undefined as never
  const policies = openPolicies(deps)
  const agentParts = parts && openAgentParts(deps, { parts, catalog, desk, policies, server })
  const callTool = createCallTool({
    spelling: catalog.spelling,
    stages: chooseStages(deps, catalog, policies, parts?.disk),
    database: parts?.database,
    requireSoundLog: parts?.guard.requireSound,
    log: sqlLogStore,
    services: {
      tasks:
        parts === undefined
          ? unavailable
          : createTaskService({
              store: sqlTaskStore,
              trail: parts.trail,
              strictProjects: config.ledger.strict_projects,
            }),
      trail: parts?.trail ?? unavailable,
      log: parts?.logService ?? unavailable,
      clock: parts?.time ?? unavailable,
      identity: parts?.identity ?? unavailable,
      skills,
      server,
      vault: parts?.vault ?? unavailable,
      workspaces: parts?.workspaces ?? unavailable,
      teams: parts?.teams ?? unavailable,
      seal: parts?.seal ?? unavailable,
      git: git ?? unavailable,
      executions: agentParts?.executions.service ?? unavailable,
      agents: agentParts?.agents.registry ?? unavailable,
      platform: agentParts?.agents.platform ?? unavailable,
      workflows: agentParts?.workflows ?? unavailable,
      generation: agentParts?.generation ?? unavailable,
      intents: agentParts?.intents ?? unavailable,
      files: agentTools?.files ?? unavailable,
      commands: agentTools?.commands ?? unavailable,
      web: agentTools?.web ?? unavailable,
      swarms:
        parts === undefined || git === undefined
          ? unavailable
          : createSwarmService({ workspaces: parts.workspaces, git, clock, random: deps.random, logger }),
      searchTools: createToolSearch(catalog, config.mode),
    },
    clock,
    logger,
    newCallId: () => `c_${bootId}_${(callCount++).toString(36)}`,
    strictReadRecords: config.audit.read_records === 'strict',
  })
  desk.connect(callTool)
  return {
    callTool,
    scheduler: agentParts?.schedules.scheduler,
    closeAgents: async () => agentParts?.agents.close(),
    health: () => server.health({ nowMs: clock.nowMs() }),
  }
}

type AgentGround = Readonly<{
  parts: OpenParts
  catalog: Catalog
  desk: ToolDesk
  policies: OpenedPolicies
  server: ServerService
}>

function openAgentParts(deps: AppDeps, { parts, catalog, desk, policies, server }: AgentGround) {
  const { engine, database, imageFolder, workspaces } = parts
  const schedules = openSchedules(deps, { ...parts, tools: desk })
  const agents = openAgents(deps, {
    schedules: schedules.desks.agent,
    imageFolder,
    policies,
    tools: desk,
    toolNames: new Set(catalog.names),
    activity: activityOf(engine, sqlActivityStore),
    health: async () => {
      const { version, status } = await server.health({ nowMs: deps.clock.nowMs() })
      return { version, isHealthy: status === 'ok' }
    },
    capabilities: [...new Set(catalog.tools.map(({ definition }) => definition.toolset))].sort(),
  })
  const imageOf = agents.runtimes.resolve
  const executions = openExecutions(deps, {
    engine,
    database,
    agents: agents.registry,
    imageOf,
    desk,
    policies,
    workspaces,
    snapshots: parts.workspaces,
  })
  const workflows = openWorkflows(deps, {
    engine,
    database,
    agents: agents.registry,
    search: agents.search,
    desk,
    images: parts.images,
    schedules: schedules.desks.workflow,
  })
  const { registry } = agents
  schedules.connect({ agents: registry, executions: executions.service, workflows })
  const intents = openIntents(deps, {
    engine,
    database,
    agents: registry,
    executions: executions.service,
    imageOf,
    desk,
  })
  return { agents, executions, workflows, schedules, ...intents }
}
