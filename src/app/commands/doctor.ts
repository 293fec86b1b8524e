import { accessSync, closeSync, constants, existsSync, mkdirSync, openSync, rmdirSync, statSync } from 'node:fs'
import { createConnection, createServer, isIPv6 } from 'node:net'
import { dirname, join } from 'node:path'
import { clientFlags, refuseFlags } from '../../cli/command.ts'
import { exitCodes } from '../../cli/terminal.ts'
import { inWords } from '../../contract/system-fault.ts'
import { counted } from '../../kernel/counted.ts'
import { silentLogger } from '../../kernel/logger.ts'
import type { Config } from '../config.ts'
import { differingSections } from '../config-view.ts'
import { readOwnerRecord } from '../ownership/owner-files.ts'
import type { RemoteChoice } from '../remote/remote-server.ts'
import { redactUrl } from '../secret.ts'
import { stateDirectory, workspacesDirectory } from '../state-directory.ts'
import { inThisTerminal, unsetVariables } from '../unset-variables.ts'
import { shortageOf } from '../wiring/disk-shortage.ts'
import { createBackend, endIdleSupervisor, neededPrograms, optionalPrograms } from '../wiring/open-backend.ts'
import { requireModels } from '../wiring/open-models.ts'
import { type Command, type CommandContext, loadCommandConfig } from './context.ts'
import { mountFindings } from './doctor-mounts.ts'
import { bad, type Finding, note, ok, partOf, printFindings } from './findings.ts'
import { remoteChoice } from './remote-choice.ts'

const spec = {
  name: 'doctor',
  summary: 'Check this machine and the data directory.',
  description:
    'Check this machine and the data directory. With --url: check whether a server elsewhere can be reached, is healthy, and accepts your credentials.',
  flags: {
    host: { type: 'string', value: 'HOST', description: 'As for serve.' },
    port: { type: 'string', value: 'PORT', description: 'As for serve.' },
    ...clientFlags,
  },
} as const

export const command: Command = { spec, run }

async function run(context: CommandContext): Promise<number> {
  const remote = remoteChoice(context)
  const findings = remote === undefined ? await checkHere(context) : await checkThere(context, remote)
  return printFindings(context, findings) ? 0 : exitCodes.unavailable
}

async function checkThere(context: CommandContext, remote: RemoteChoice): Promise<Finding[]> {
  refuseFlags(spec, context.parsed, ['host', 'port'], 'with --url')
  const { checkRemote } = await import('./doctor-remote.ts')
  return await checkRemote(context, remote)
}

async function checkHere(context: CommandContext): Promise<Finding[]> {
  const loaded = await loadCommandConfig(context)
  const { config } = loaded
  const { outdated, problems } = await askOwner(context, config)
  // Only the running server knows its own variables.
  const unset = unsetVariables(config, context.env).filter(({ problem }) => problems?.includes(problem) ?? true)
  const state = await store(context, config)
  const directory = dataDirectory(config)
  const workspaces = await checkWorkspaces(context, config)
  return [
    ok('node', process.version),
    ok('configuration', loaded.file ?? 'defaults, no file'),
    ...loaded.warnings.map((warning) => note('configuration', warning)),
    ...(outdated.length === 0 ? [] : [note('configuration', `${OTHER_SETTINGS}: ${outdated.join(', ')}. Restart it`)]),
    directory,
    owner(config, workspaces.supervisorPid),
    await port(config),
    state,
    outdated.includes('models') ? note('models', `${OTHER_SETTINGS}; restart it`) : models(config, unset),
    ...unpricedModels(config),
    governance(config),
    ...unset.map((variable) =>
      note(variable.field.split('.')[0]!, problems === undefined ? inThisTerminal(variable) : variable.problem),
    ),
    ...mountFindings(config.workspaces.mounts),
    ...workspaces.findings,
  ]
}

const OTHER_SETTINGS = 'the running server was started with other settings'

type OwnerView = Readonly<{ outdated: string[]; problems?: readonly string[] }>

/**
 * How the settings of the process that owns the state, if there is one, differ from these, and the problems that it reports.
 */
async function askOwner(context: CommandContext, config: Config): Promise<OwnerView> {
  if (config.database_url !== undefined || readOwnerRecord(config.data_dir) === undefined) return { outdated: [] }
  const { connectToOwnerOf } = await import('./client.ts')
  const client = await connectToOwnerOf(context, { dataDir: config.data_dir })
  try {
    const text = (await client?.callTool('aegis.system.config', {}))?.answer['content_yaml']
    const problems = (await client?.callTool('server_health', {}))?.answer['problems']
    return {
      outdated: typeof text === 'string' ? differingSections(text, config) : [],
      ...(Array.isArray(problems) ? { problems: problems.map(String) } : {}),
    }
  } catch {
    return { outdated: [] }
  } finally {
    client?.close()
  }
}

function dataDirectory(config: Config): Finding {
  const directory = config.data_dir
  if (!existsSync(directory)) {
    const problem = whyNotCreated(directory)
    return problem === undefined
      ? ok('data directory', `${directory} (created on first use)`)
      : bad('data directory', `${directory} cannot be created: ${problem}`)
  }
  if (!statSync(directory).isDirectory()) return bad('data directory', `${directory} is not a directory`)
  if (!isWritable(directory)) return bad('data directory', `${directory} is not writable`)
  const shortage = shortageOf(directory)
  if (shortage !== undefined) {
    const freeMb = Math.floor(shortage.free / 1024 ** 2)
    return bad('data directory', `the disk of ${directory} is nearly full: ${freeMb} MiB are free. Free some space`)
  }
  const open = (statSync(directory).mode & 0o077) !== 0
  return open
    ? note('data directory', `${directory} is open to other users; run chmod 700 on it`)
    : ok('data directory', directory)
}

/** Tried, because rights alone do not tell: file systems of the kernel take no directories. */
function whyNotCreated(directory: string): string | undefined {
  let missing = directory
  while (!existsSync(dirname(missing))) missing = dirname(missing)
  const parent = dirname(missing)
  if (!statSync(parent).isDirectory()) return `${parent} is not a directory`
  if (!isWritable(parent)) return `${parent} is not writable`
  try {
    mkdirSync(missing, { mode: 0o700 })
    rmdirSync(missing)
    return undefined
  } catch (error) {
    return `${parent} accepts no directory (${(error as NodeJS.ErrnoException).code})`
  }
}

function governance(config: Config): Finding {
  return config.governance === 'restrictive'
    ? ok('governance', 'restrictive: in a context that has read untrusted data, tools without a policy are refused')
    : ok('governance', 'permissive: policies apply, tools without one are allowed')
}

function models(config: Config, variables: ReturnType<typeof unsetVariables>): Finding {
  const unset = new Set(variables.map(({ field, name }) => `${field} ${name}`))
  const usable = config.models.providers.filter(
    ({ name, enabled }) => enabled && !unset.has(`models.providers ${name}`),
  )
  if (usable.length === 0) {
    return note('models', 'none: executions, judges and intents need a provider in models.providers')
  }
  try {
    requireModels(config.models)
  } catch (error) {
    return bad('models', (error as Error).message)
  }
  const displayed = usable.map(
    (provider) => `${provider.name} (${provider.models.map(({ alias }) => alias).join(', ')})`,
  )
  return ok('models', displayed.join('; '))
}

/** The prices of public providers are known. */
function unpricedModels({ models: { providers } }: Config): Finding[] {
  const unpriced = providers
    .filter(({ enabled, type }) => enabled && (type === 'openai-compatible' || type === 'ollama'))
    .flatMap((provider) => provider.models)
    .filter((model) => priceFields.every((field) => model[field] === undefined))
    .map(({ model }) => model)
  if (unpriced.length === 0) return []
  const [first, second] = priceFields
  const next = `set ${first} and ${second} in models.providers, 0 if it is free`
  const text = `no price of ${unpriced.join(', ')} is known, so callers with a limit on cost are refused there: ${next}`
  return [note('models', text)]
}
const priceFields = ['input_cost_per_million', 'output_cost_per_million', 'cost_per_1k_tokens'] as const

type WorkspacesView = Readonly<{ findings: Finding[]; supervisorPid?: number | undefined }>

/** Ends an idle supervisor, also one that was there before: people copy the state once no process is said to use it. */
async function checkWorkspaces(context: CommandContext, config: Config): Promise<WorkspacesView> {
  const { data_dir: directory } = config
  if (existsSync(directory) ? !statSync(directory).isDirectory() : whyNotCreated(directory) !== undefined) {
    return { findings: [note('workspaces', 'not tested: there is no data directory, and none can be created')] }
  }
  const bootId = `doctor-${process.pid}`
  const findings = await workspaces(context, config, bootId)
  return { findings, supervisorPid: await endIdleSupervisor(workspacesDirectory(stateDirectory(config)), bootId) }
}

/** What the workspace back end enforces; a missing limit is a note, not a fault. */
async function workspaces(context: CommandContext, config: Config, bootId: string): Promise<Finding[]> {
  const missing = neededPrograms.filter(({ program }) => !isInstalled(program))
  if (missing.length > 0) {
    const packages = [...new Set(missing.map(({ package: name }) => name))].join(' ')
    return [note('workspaces', `not available: apt-get install -y ${packages}`)]
  }
  const absent = optionalPrograms.filter(({ program }) => !isInstalled(program))
  context.terminal.progress('testing what workspaces can do')
  const backend = createBackend({
    config,
    directory: stateDirectory(config),
    version: context.version,
    bootId,
    logger: silentLogger,
  })
  try {
    const { available, problem, privilege, capabilities } = await backend.capabilities()
    if (!available) return [note('workspaces', `not available: ${problem}`)]
    return [
      ok('workspaces', `${backend.name}, as ${privilege === 'root' ? 'root' : 'an ordinary user'}`),
      ...Object.entries(capabilities).map(([name, { enforced, reason }]) =>
        partOf((enforced ? ok : note)(capabilityText(name), enforced ? reason : `no: ${reason}`)),
      ),
      ...(capabilities.internet.enforced ? [] : tunnelDevice()),
      ...morePackages(absent),
    ]
  } finally {
    context.terminal.progressDone()
    await backend.close()
  }
}

/** The capability `network_policy` is only a part of what the tool of that name sets. */
const capabilityText = (name: string): string =>
  name === 'network_policy' ? 'network between workspaces' : name.replaceAll('_', ' ')

/** One command that installs every package that would enforce more. */
function morePackages(absent: readonly (typeof optionalPrograms)[number][]): Finding[] {
  if (absent.length === 0) return []
  const packages = [...new Set(absent.map(({ package: name }) => name))]
  const added = absent.map(({ program, purpose }) => `${program} for ${purpose}`).join('; ')
  return [partOf(note('more', `apt-get install -y ${packages.join(' ')} would add ${added}`))]
}

/** What an ordinary user can do about the most frequent obstacle between workspaces and the internet. */
function tunnelDevice(): Finding[] {
  const path = '/dev/net/tun'
  const without = 'without it, workspaces can reach only the internet hosts in allowed_domains'
  try {
    closeSync(openSync(path, 'r+'))
    return []
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === 'EACCES' || code === 'EPERM'
      ? [partOf(note(path, `you have no access to it; ${without}. Run once, as root: chmod 666 ${path}`))]
      : [partOf(note(path, `missing; ${without}. Run once, as root: modprobe tun`))]
  }
}

const isInstalled = (program: string): boolean =>
  ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'].some((folder) =>
    existsSync(join(folder, program)),
  )

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK)
    return true
  } catch {
    return false
  }
}

function owner(config: Config, supervisorPid: number | undefined): Finding {
  if (config.database_url !== undefined) return ok('owner', 'none: every process works with PostgreSQL by itself')
  const record = readOwnerRecord(config.data_dir)
  if (record === undefined && supervisorPid !== undefined) {
    const next = 'castellan call workspace_list shows them, and workspace_stop stops one'
    return ok('owner', `no server, but workspaces run in process ${supervisorPid}; ${next}`)
  }
  if (record === undefined) return ok('owner', 'no process uses the state now')
  return isAlive(record.pid)
    ? ok('owner', `process ${record.pid}, castellan ${record.version}`)
    : note('owner', `process ${record.pid} ended without cleaning up; the next start takes over`)
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

async function port(config: Config): Promise<Finding> {
  const where = `${config.host}:${config.port}`
  const problem = await listenProblem(config)
  if (problem === undefined) return ok('port', `${where} is free`)
  if (problem !== 'EADDRINUSE') return note('port', `${where} cannot be listened on (${problem})`)
  const server = await runningServer(config)
  return server === undefined
    ? note('port', `${where} is used by another program; choose another port with serve --port`)
    : ok('port', `${where} is served by castellan ${server.version}, mode ${server.mode}, ${server.status}`)
}

function listenProblem(config: Config): Promise<string | undefined> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    probe.listen(config.port, config.host, () => probe.close(() => resolve(undefined)))
  })
}

type RunningServer = Readonly<{ version: string; mode: string; status: string }>
const ANSWER_MS_MAX = 2_000
const ANSWER_CHARACTERS_MAX = 16_384

/** Whether a Castellan server answers there; an untrusted server is asked only for its health. */
async function runningServer(config: Config): Promise<RunningServer | undefined> {
  const host = { '0.0.0.0': '127.0.0.1', '::': '::1' }[config.host] ?? config.host
  const socket = createConnection({ host, port: config.port, signal: AbortSignal.timeout(ANSWER_MS_MAX) })
  try {
    const name = isIPv6(host) ? `[${host}]` : host
    socket.write(`GET /health/ready HTTP/1.1\r\nhost: ${name}:${config.port}\r\nconnection: close\r\n\r\n`)
    let answer = ''
    for await (const chunk of socket.setEncoding('latin1')) {
      answer += chunk
      if (answer.length > ANSWER_CHARACTERS_MAX) return undefined
    }
    const { version, mode, status } = JSON.parse(/\r\n\r\n.*?(\{.*\})/s.exec(answer)?.[1] ?? '') as Record<
      string,
      unknown
    >
    return typeof version === 'string' && typeof mode === 'string' && typeof status === 'string'
      ? { version: plain(version), mode: plain(mode), status: plain(status) }
      : undefined
  } catch {
    return undefined
  } finally {
    socket.destroy()
  }
}

/** Text of another program, safe for one line of a terminal. */
const plain = (text: string): string => text.slice(0, 40).replace(/[^\w.-]/g, '')

async function store(context: CommandContext, config: Config): Promise<Finding> {
  if (config.database_url === undefined && !existsSync(join(config.data_dir, 'castellan.db'))) {
    return ok('state', 'none yet')
  }
  const where = config.database_url === undefined ? '' : `PostgreSQL at ${redactUrl(config.database_url.reveal())}: `
  try {
    const { checkState } = await import('../check-state.ts')
    const report = await checkState(config, {
      onProgress: ({ tenant, entries }) =>
        context.terminal.progress(`${tenant}: ${counted(entries, 'entry', 'entries')}`),
    })
    context.terminal.progressDone()
    const entries = report.tenants.reduce((sum, tenant) => sum + tenant.entries, 0)
    const { findingCount, unprotected } = report
    if (findingCount > 0) return bad('state', `${where}${counted(findingCount, 'finding')}; run castellan verify`)
    const size = `${where}${counted(entries, 'log entry', 'log entries')}`
    if (report.ok) return ok('state', `${size}, sound`)
    const logs = counted(unprotected.length, 'log')
    return bad(
      'state',
      `${size}; ${logs} without a checkpoint or its mark, so a truncation would not be noticed; run castellan verify`,
    )
  } catch (error) {
    return bad('state', `${where}${(inWords(error) as Error).message}`)
  }
}
