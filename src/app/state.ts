import { limits } from '../contract/limits.ts'
import { localOwner } from '../contract/principal.ts'
import type { HttpTransport } from '../http/create-http-transport.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Logger } from '../kernel/logger.ts'
import type { Random } from '../kernel/random.ts'
import { createMcpTransport, type McpTransport } from '../mcp/create-mcp-transport.ts'
import { exposureOfUrl } from '../mcp/exposure.ts'
import type { McpExtension } from '../mcp/mcp-extension.ts'
import { processNames } from './boot-id.ts'
import { type App, type AppDeps, buildApp } from './build-app.ts'
import { type Config, demandsKeys, exposureOfConfig } from './config.ts'
import type { Environment } from './config-paths.ts'
import { type Attachment, attach } from './ownership/attach.ts'
import { createLinePair } from './ownership/line-pair.ts'
import type { Owner } from './ownership/owner-server.ts'
import { adaptSkills } from './skill-adapter.ts'
import { openModelProxy } from './wiring/open-model-proxy.ts'

export type StateDeps = Readonly<{
  config: Config
  /** The mode was set explicitly: a state that is served in another mode is refused. */
  isModeChosen: boolean
  version: string
  clock: Clock
  random: Random
  logger: Logger
  env: Environment
  /** The configuration file that was read, if any. */
  configPath?: string
  linksAt?: AppDeps['linksAt']
  passwordCost?: NonNullable<AppDeps['passwordCost']>
  /** Called if the state that this process owns cannot be opened; the process is useless then. */
  onOpenFailed(error: unknown): void
}>

/** This process's access to the state: as its owner, or through the owner. */
export type State = Readonly<{
  attachment: Attachment
  /** The core in this process, once it owns the state. */
  local(): LocalCore | undefined
}>

type LocalCore = Readonly<{ app: App; mcp: McpTransport }>

/**
 * Joins the processes on the data directory. With PostgreSQL, in mode TEST and in mode MINIMAL there is nothing to own: the
 * process works alone.
 */
export async function openState(deps: StateDeps): Promise<State> {
  const { config } = deps
  let core: LocalCore | undefined
  const becomeOwner = async (): Promise<Owner> => {
    const built = buildOwner(deps, () => process.pid, await findFixtures(deps.env))
    core = built.core
    return built.owner
  }
  const shared = config.mode !== 'TEST' && config.mode !== 'MINIMAL' && config.database_url === undefined
  const runtimeDir = deps.env['XDG_RUNTIME_DIR']
  const attachment = shared
    ? await attach({
        dataDir: config.data_dir,
        version: deps.version,
        becomeOwner,
        logger: deps.logger,
        clock: deps.clock,
        ...(deps.isModeChosen ? { requiredMode: config.mode } : {}),
        ...(runtimeDir === undefined ? {} : { runtimeDir }),
      })
    : aloneWith(config.data_dir, await becomeOwner())
  return { attachment, local: () => core }
}

async function findFixtures(env: Environment): Promise<McpExtension | undefined> {
  const path = env['CASTELLAN_TEST_FIXTURES']
  if (path === undefined || path === '') return undefined
  const { loadFixtures } = await import('./load-fixtures.ts')
  return await loadFixtures(path)
}

function buildOwner(
  deps: StateDeps,
  ownerPid: () => number,
  fixtures: McpExtension | undefined,
): { core: LocalCore; owner: Owner } {
  const { config, logger, random, version, configPath, linksAt, passwordCost } = deps
  const app = buildApp({
    config,
    version,
    clock: deps.clock,
    random,
    logger,
    ownerPid,
    ...(configPath && { configPath }),
    ...(linksAt && { linksAt }),
    ...(passwordCost && { passwordCost }),
  })
  app.ready.catch(deps.onOpenFailed)
  const { clock } = app
  const mcp = createMcpTransport({
    host: app.host,
    version,
    logger,
    skills: adaptSkills(app.skills, logger),
    content: async () => await (await app.ready).upstreamContent?.(),
    sessionMemory: async () => (await app.ready).mcpSessions,
    gateways: async () => (await app.ready).gateways,
    ...(config.database_url !== undefined && {
      forwardedAnswers: async () => (await app.ready).forwardedAnswers,
      taskDirectory: async () => (await app.ready).taskDirectory,
      processes: processNames(random),
    }),
    clock,
    random,
    presence: app.presence,
    inFlight: app.inFlight,
    ...(fixtures === undefined ? {} : { fixtures }),
  })
  const models = config.mode === 'MINIMAL' ? undefined : openModelProxy({ app, config, random, logger })
  let http: Promise<HttpTransport> | undefined
  // Most stdio processes never see an HTTP connection, and should not pay for one at their start.
  const openHttp = (): Promise<HttpTransport> => {
    http ??= import('../http/create-http-transport.ts').then(({ createHttpTransport }) =>
      createHttpTransport({
        mcp,
        host: app.host,
        inFlight: app.inFlight,
        catalog: app.catalog,
        identity: async () => (await app.ready).identity,
        seal: async () => (await app.ready).seal,
        runs: async () => (await app.ready).runs,
        secretLinks: async () => (await app.ready).secretLinks,
        authorizations: async () => (await app.ready).authorizations,
        gateways: async () => (await app.ready).gateways,
        models,
        people: async () => (await app.ready).people,
        health: async () => (await app.ready).health(),
        exposureOfUrl,
        exposureDefault: exposureOfConfig(config),
        allowedHosts: config.allowed_hosts,
        allowedOrigins: config.allowed_origins,
        trustedProxies: config.trusted_proxies,
        publicUrl: config.public_url,
        requireKeys: demandsKeys(config),
        bodyBytesMax: limits.messageBytesMax,
        random,
        version,
        logger,
        clock,
      }),
    )
    return http
  }
  let problems = (): readonly string[] => []
  void app.ready.then(
    ({ haltedLogs }) => {
      problems = haltedLogs
    },
    () => {},
  )
  const owner: Owner = {
    mode: config.mode,
    problems: () => problems(),
    serveLines(lines, hello) {
      const transport = hello.transport === 'cli' ? 'cli' : 'stdio'
      const { safeNames, distinctNames, session } = hello
      mcp.serveLines(lines, {
        principal: localOwner,
        exposure: hello.tools ?? exposureOfConfig(config),
        transport,
        ...(safeNames !== undefined && { safeNames }),
        ...(distinctNames !== undefined && { distinctNames }),
        ...(session !== undefined && { session }),
      })
    },
    serveHttp(socket, hello) {
      const peer = {
        remoteAddress: hello.remote?.address ?? '',
        requireKeys: hello.requireKeys ?? true,
        isSecure: hello.isSecure === true,
        exposure: hello.tools ?? exposureOfConfig(config),
      }
      void openHttp().then((transport) => transport.accept(socket, peer))
    },
    async close() {
      const httpTransport = await http
      await Promise.all([mcp.close(limits.shutdownGraceMs), httpTransport?.close(limits.shutdownGraceMs)])
      await models?.close()
      await app.close()
    },
  }
  return { core: { app, mcp }, owner }
}

function aloneWith(dataDir: string, owner: Owner): Attachment {
  return {
    dataDir,
    ownerPid: () => process.pid,
    isOwner: () => true,
    onOwnerChanged: () => () => {},
    async openLines(hello) {
      const [near, far] = createLinePair()
      owner.serveLines(far, hello)
      return { transport: near, isLocal: true, ownerPid: process.pid }
    },
    openHttp: async () => ({ kind: 'local', owner }),
    close: () => owner.close(),
  }
}
