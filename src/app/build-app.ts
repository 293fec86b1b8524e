import type { LogGuard } from '../audit/log-guard.ts'
import type { Database } from '../contract/database.ts'
import type { DiskWatch } from '../contract/disk-watch.ts'
import type { ForwardedAnswers } from '../contract/forwarded-answers.ts'
import type { GatewayDirectory } from '../contract/gateway-directory.ts'
import type { McpSessionMemory } from '../contract/mcp-sessions.ts'
import type { TenantId } from '../contract/principal.ts'
import type { TaskDirectory } from '../contract/task-directory.ts'
import type { UpstreamContent } from '../contract/upstream-content.ts'
import type { UpstreamTools } from '../contract/upstream-tools.ts'
import type { UsageLimits } from '../contract/usage-limits.ts'
import { createRoleService, type RoleService } from '../domains/identity/roles.ts'
import { createIdentityService, type IdentityService } from '../domains/identity/service.ts'
import type { InteractionRecorder } from '../domains/interactions/recorder.ts'
import type { PasswordCost } from '../domains/people/ports.ts'
import { createSealGate, type SealGate } from '../domains/seal/gate.ts'
import { type ClockKeeper, openClockKeeper } from '../domains/server/clock-keeper.ts'
import type { ServerService } from '../domains/server/service.ts'
import { createSkillService, type SkillService } from '../domains/skills/service.ts'
import { createTaskService } from '../domains/tasks/service.ts'
import type { AuthorizationGate } from '../http/pages/authorization-page.ts'
import type { SecretLinkGate } from '../http/pages/secret-link-page.ts'
import type { PeopleGate } from '../http/people-gate.ts'
import type { RunFeed } from '../http/rest-routes.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Logger } from '../kernel/logger.ts'
import type { Random } from '../kernel/random.ts'
import { createSteadyClock, type SteadyClock } from '../kernel/steady-clock.ts'
import { createDiskReserve } from '../stores/files/disk-reserve.ts'
import { createSkillSource } from '../stores/files/skill-source.ts'
import { sqlApiKeyStore } from '../stores/sql/api-key-store.ts'
import { sqlClockFloor } from '../stores/sql/clock-floor.ts'
import { sqlForwardedAnswers } from '../stores/sql/forwarded-answer-store.ts'
import { sqlLogStore } from '../stores/sql/log-store.ts'
import { sqlMcpSessions } from '../stores/sql/mcp-session-store.ts'
import { sqlRoleStore } from '../stores/sql/role-store.ts'
import { sqlTaskDirectory } from '../stores/sql/task-directory-store.ts'
import { sqlTaskStore } from '../stores/sql/task-store.ts'
import { loadToolset } from '../tools/index.ts'
import { type CallTool, createCallTool } from '../tools/runtime/call-tool.ts'
import { type Catalog, createPreparedCatalog } from '../tools/runtime/catalog.ts'
import { createToolHost } from '../tools/runtime/create-tool-host.ts'
import { createToolSearch } from '../tools/runtime/create-tool-search.ts'
import type { Toolset } from '../tools/runtime/define-tool.ts'
import { createInFlightCalls, type InFlightCalls } from '../tools/runtime/in-flight-calls.ts'
import { preparedTools } from '../tools/runtime/prepared-tools.ts'
import { everPresent, type Presence } from '../tools/runtime/presence.ts'
import type { Services } from '../tools/runtime/services.ts'
import type { ToolHost } from '../tools/runtime/tool-host.ts'
import { createToolViews, type ToolViews } from '../tools/runtime/tool-views.ts'
import type { Config } from './config.ts'
import type { LinkAddress } from './link-origin.ts'
import { unsetVariables } from './unset-variables.ts'
import { chooseStages } from './wiring/choose-stages.ts'
import { describeServer } from './wiring/describe-server.ts'
import type { ModelAccess } from './wiring/governance-services.ts'
import { inheritTrust } from './wiring/inherit-trust.ts'
import { openDatabase } from './wiring/open-database.ts'
import { openEmbedder } from './wiring/open-embedder.ts'
import { type ModelChoices, openModelUsage } from './wiring/open-model-usage.ts'
import { openModels } from './wiring/open-models.ts'
import { type OwnerWatch, openOwnerWatch } from './wiring/open-owner-watch.ts'
import { type OpenedPeople, openPeople } from './wiring/open-people.ts'
import { type OpenedPolicies, openPolicies } from './wiring/open-policies.ts'
import { openRecord } from './wiring/open-record.ts'
import { openSeal } from './wiring/open-seal.ts'
import type { CallParts } from './wiring/open-secrets.ts'
import { openServiceGroups } from './wiring/open-service-groups.ts'
import { createToolInvoker } from './wiring/open-tool-invoker.ts'
import { type Guardrails, openToolPolicies } from './wiring/open-tool-policies.ts'
import { createOwnerDirectory } from './wiring/owner-directory.ts'
import { presenceOnce } from './wiring/presence.ts'

/** The core: everything behind the transports. Only this file and its neighbours construct. */
export type App = Readonly<{
  /** The clock of all decisions about this store: it never goes back. */
  clock: Clock
  catalog: Catalog
  /** The tools that each caller can find: ours, and those of upstream servers. */
  views: ToolViews
  host: ToolHost
  /** Every call that a transport has accepted. */
  inFlight: InFlightCalls
  skills: SkillService
  presence: Presence
  /** Resolves when the store is open; a failed start rejects here and in every call. */
  ready: Promise<ReadyApp>
  close(): Promise<void>
}>

type ReadyApp = Readonly<{
  /** Absent in mode MINIMAL. */
  database: Database | undefined
  identity: IdentityService | undefined
  seal: SealGate | undefined
  runs: RunFeed | undefined
  secretLinks: SecretLinkGate | undefined
  authorizations: AuthorizationGate | undefined
  gateways: Pick<GatewayDirectory, 'find'> | undefined
  modelAccess: (() => Promise<ModelAccess>) | undefined
  /** Resources and prompts of upstream servers. */
  upstreamContent: (() => Promise<UpstreamContent>) | undefined
  mcpSessions: McpSessionMemory | undefined
  /** Only where several processes may share the store. */
  forwardedAnswers: ForwardedAnswers | undefined
  taskDirectory: TaskDirectory | undefined
  /** The tools of upstream MCP servers. */
  upstreamTools: (() => Promise<UpstreamTools>) | undefined
  /** Absent in mode MINIMAL. */
  people: PeopleGate | undefined
  verifierKey: string | undefined
  /** The problems of halted logs, for everybody who uses the state. */
  haltedLogs(): readonly string[]
  /** Absent in mode MINIMAL. */
  usageLimits: UsageLimits | undefined
  interactions: InteractionRecorder | undefined
  modelChoices: ModelChoices | undefined
  guardrails: Guardrails | undefined
  /** Rejects with ERR_LOG_INVALID for a tenant whose log is halted. */
  requireSoundLog(tenant: TenantId): void | Promise<void>
  /** The answer of server_health, for probes that are not calls. */
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
  /** Where links lead for a call that came over no HTTP; undefined for a port of this process. */
  linksAt?: () => LinkAddress | undefined
  /** Not configurable: the program always hashes passwords at full cost. */
  passwordCost?: PasswordCost
}>

export function buildApp(deps: AppDeps): App {
  const { config, logger } = deps
  const clock = createSteadyClock(deps.clock)
  const catalog = createPreparedCatalog(preparedTools().tools, async (toolset) => {
    const [definitions] = await Promise.all([loadToolset(toolset), opened.then(({ openFor }) => openFor(toolset))])
    return definitions
  })
  const skills = createSkillService({
    source: createSkillSource({
      roots: config.skills.roots,
      protectedDirectories: [config.data_dir],
      clock,
    }),
    logger,
  })
  const views = createToolViews({ catalog, clock })
  const open = config.mode === 'MINIMAL' ? openMinimal : openCore
  const opened = open({ ...deps, clock }, { catalog, views, skills, transports: () => ({ host, inFlight }) })
  let core: Core | undefined
  // A failed start is reported to every waiter; without a waiter it must not end the process.
  opened.then(
    (made) => {
      core = made
    },
    () => {},
  )
  const presence = presenceOnce(opened.then((core) => core.presence))
  const inFlight = createInFlightCalls(presence)
  const host = createToolHost({
    views,
    mode: config.mode,
    clock,
    callTool: opened.then((core) => core.callTool),
    mayAskPerson: (tenant) => core?.guardrails?.engine.mayRequireApproval(tenant) === true,
    async readsFrom(reader, writer) {
      const { guardrails, database } = await opened
      if (guardrails === undefined || database === undefined) return
      const { trust } = guardrails
      await inheritTrust({ trust, database, clock }, reader, () => trust.contextOf(writer))
    },
  })
  let closing: Promise<void> | undefined
  return {
    clock,
    catalog,
    views,
    host,
    inFlight,
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

type Core = ReadyApp &
  Readonly<{
    callTool: CallTool
    presence: Presence
    /** Resolves when the services of the toolset are open. */
    openFor(toolset: Toolset): Promise<void>
    close(): Promise<void>
  }>
type CoreDeps = AppDeps & Readonly<{ clock: SteadyClock }>
/** The parts that exist before the store is open. */
type CoreParts = Readonly<{ catalog: Catalog; views: ToolViews; skills: SkillService; transports(): CallParts }>

/** Mode MINIMAL, without a store: every tool that needs one is refused. */
async function openMinimal(deps: CoreDeps, { catalog, views, skills }: CoreParts): Promise<Core> {
  const { clock } = deps
  const server = describeServer(deps, catalog, skills, undefined)
  return {
    ...createPipeline(deps, catalog, views, openPolicies(deps), { server }),
    database: undefined,
    identity: undefined,
    seal: undefined,
    runs: undefined,
    secretLinks: undefined,
    authorizations: undefined,
    gateways: undefined,
    modelAccess: undefined,
    upstreamContent: undefined,
    mcpSessions: undefined,
    forwardedAnswers: undefined,
    taskDirectory: undefined,
    upstreamTools: undefined,
    people: undefined,
    verifierKey: undefined,
    haltedLogs: () => [],
    usageLimits: undefined,
    interactions: undefined,
    modelChoices: undefined,
    guardrails: undefined,
    requireSoundLog: () => {},
    health: () => server.health({ nowMs: clock.nowMs() }),
    presence: everPresent,
    openFor: async () => {},
    close: async () => {},
  }
}

/** Search by meaning and by words; the model is loaded with the first search. */
function openSearch({ config, clock, logger }: CoreDeps, views: CoreParts['views']) {
  const embedder = openEmbedder(config)
  const toolSearch = createToolSearch({ views, mode: config.mode, embedder: embedder.get, clock, logger })
  return { embedder, toolSearch }
}

async function openCore(deps: CoreDeps, parts: CoreParts): Promise<Core> {
  const { catalog, views, skills } = parts
  const { config, clock, logger } = deps
  // A wrong setting is reported at the start, not at the first execution.
  const models = openModels(deps, () => usage)
  for (const { problem } of unsetVariables(config)) logger.warn(problem)
  const store = await openDatabase({ config, clock, logger, random: deps.random })
  const { logIdentity, logService, trail, guard, checkpointer, database } = await openRecord(deps, store)
  const time = await openClockKeeper({ clock, database: store.database, store: sqlClockFloor, logger })
  const owners = createOwnerDirectory(clock)
  const ownerWatch = openOwnerWatch(deps, database, owners)
  const identity = openIdentity(deps, database, ownerWatch, time)
  const people = await openPeople(deps, {
    ...{ database, ownerWatch, logIdentity, identity },
    host: () => parts.transports().host,
    providerTokens: () => serviceGroups.providerTokens(),
  })
  const { directory } = store
  // With a remote store, a full local disk does not prevent writing.
  const disk = database.kind === 'sqlite' ? createDiskReserve({ ...deps, directory }) : undefined
  const policies = openPolicies(deps)
  const usage = openModelUsage(deps, { database, ownerWatch, secrets: () => serviceGroups.secrets() })
  const guardrails = await openToolPolicies(deps, database, models)
  const notes = { noteExpired: time.noteExpired, noteRevoked: ownerWatch.sessionRevoked }
  const seal = await openSeal(deps, { ...store, database }, { identity, contexts: policies.contexts, ...notes })
  const server = describeServer(deps, catalog, skills, { database, guard, time, usage })
  const search = openSearch(deps, views)
  const services: Partial<Services> = {
    tasks: createTaskService({ store: sqlTaskStore, trail, strictProjects: config.ledger.strict_projects }),
    trail,
    roles: openRoles(people, identity),
    log: logService,
    clock: time,
    identity,
    seal,
    skills,
    server,
    people: people.service,
    searchTools: search.toolSearch.search,
  }
  const invoker = createToolInvoker(views, config.mode, (principal) => owners.present(database.read, principal))
  const { accounting, recorder } = usage
  const inStore = { database, guard, disk, accounting, guardrails }
  const pipeline = createPipeline(deps, catalog, views, policies, services, inStore)
  invoker.connect(pipeline.callTool)
  const opened = { database, directory, identity, ownerWatch, owners }
  const serviceGroups = await openServiceGroups(
    deps,
    { ...parts, ...search, people, ...opened, ...usage, disk, invoker, models, policies, server, guardrails },
    (added) => Object.assign(services, added),
  )
  // A problem with a log is reported at the start.
  void checkpointer.run()
  return {
    ...pipeline,
    ...serviceGroups,
    ...clientMemory(database),
    database,
    identity,
    seal: createSealGate(seal),
    people: people.gate,
    verifierKey: logIdentity.signer.verifierKey,
    haltedLogs: guard.problems,
    ...{ usageLimits: accounting, interactions: recorder, modelChoices: usage.choices, guardrails },
    requireSoundLog: guard.requireSound,
    health: () => server.health({ nowMs: clock.nowMs() }),
    presence: { watch: ownerWatch.watch, onRevoked: ownerWatch.onSignedOut },
    async close() {
      ownerWatch.close()
      await guardrails.close()
      await serviceGroups.close()
      await usage.close()
      await search.embedder.close()
      await time.close()
      await database.flush()
      await checkpointer.close()
      await database.close()
      await store.cleanUp()
    },
  }
}

const openRoles = (
  { holdersOf }: Pick<OpenedPeople, 'holdersOf'>,
  { noteKeysEnded }: Pick<IdentityService, 'noteKeysEnded'>,
): RoleService => createRoleService({ store: sqlRoleStore, keys: sqlApiKeyStore, holdersOf, noteKeysEnded })

const openIdentity = (
  { random }: AppDeps,
  database: Database,
  { keyRevoked }: OwnerWatch,
  { noteExpired }: ClockKeeper,
): IdentityService =>
  createIdentityService({
    store: sqlApiKeyStore,
    roles: sqlRoleStore,
    random,
    read: database.read,
    noteRevoked: keyRevoked,
    noteExpired,
    noteUse: (tenant, keyId, atMs) =>
      void database.writeSoon(tenant, (tx) => sqlApiKeyStore.touchKey(tx, tenant, keyId, atMs)),
  })

type StoreParts = Readonly<{
  database: Database
  guard: LogGuard
  disk: DiskWatch | undefined
  accounting: UsageLimits
  guardrails: Guardrails
}>

function createPipeline(
  deps: AppDeps,
  catalog: Catalog,
  views: ToolViews,
  policies: OpenedPolicies,
  services: Partial<Services>,
  store?: StoreParts,
): Readonly<{ callTool: CallTool }> {
  const { config, clock, logger } = deps
  const bootId = deps.random.bytes(9).toString('base64url')
  let callCount = 0
  const callTool = createCallTool({
    spelling: catalog.spelling,
    stages: chooseStages(deps, views, policies, store),
    database: store?.database,
    requireSoundLog: store?.guard.requireSound,
    log: sqlLogStore,
    services,
    clock,
    logger,
    newCallId: () => `c_${bootId}_${(callCount++).toString(36)}`,
    readRecords: config.audit.read_records,
  })
  return { callTool }
}

/** What is stored for MCP clients. A process that works alone stores only their sessions. */
const clientMemory = (database: Database): Pick<ReadyApp, 'mcpSessions' | 'forwardedAnswers' | 'taskDirectory'> => ({
  mcpSessions: sqlMcpSessions(database),
  forwardedAnswers: database.kind === 'postgres' ? sqlForwardedAnswers(database) : undefined,
  taskDirectory: database.kind === 'postgres' ? sqlTaskDirectory(database) : undefined,
})
