import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type App, buildApp } from '../../src/app/build-app.ts'
import { type Config, loadConfig } from '../../src/app/config.ts'
import { recordedCalls } from '../../src/audit/recorded-calls.ts'
import type { Permission } from '../../src/contract/permissions.ts'
import { LOCAL_TENANT, localOwner, type Principal, type Role, type Tier } from '../../src/contract/principal.ts'
import type { PasswordCost } from '../../src/domains/people/ports.ts'
import { type Clock, systemClock } from '../../src/kernel/clock.ts'
import type { Logger } from '../../src/kernel/logger.ts'
import { type Random, systemRandom } from '../../src/kernel/random.ts'
import type { CallOptions, ToolAnswer, ToolCaller, ToolFailure } from '../../src/tools/runtime/tool-host.ts'
import { CHEAP_PASSWORDS } from './cheap-passwords.ts'
import { writeEmptyStore } from './empty-store.ts'
import { endSupervisor } from './end-supervisor.ts'

/**
 * The whole core on a directory of its own: real configuration, real store, real pipeline. The caller is a principal
 * that the program itself made: the local owner, or a key that `api_key_create` gave out and that was authenticated.
 */
export type TestApp = AsyncDisposable &
  Readonly<{
    app: App
    config: Config
    dataDir: string
    clock: Clock
    /** What the program logged as errors: an unexpected failure is one. */
    errors: readonly LoggedError[]
    warnings: readonly LoggedError[]
    /** The answer, whatever it is. */
    call(name: string, args?: unknown, caller?: ToolCaller, options?: CallOptions): Promise<ToolAnswer>
    /** The answer of a call that must succeed. */
    ask<T = Answer>(name: string, args?: unknown, caller?: ToolCaller): Promise<T>
    /** The failure of a call that must fail. */
    refusal(name: string, args?: unknown, caller?: ToolCaller): Promise<ToolFailure>
    /** A caller that comes with a key of its own. */
    keyCaller(key?: KeyRequest): Promise<ToolCaller>
    /** The calls in the log of a tenant as it is on disk, parsed, after everything handed in is committed. */
    log(tenant?: string): Promise<LogRecord[]>
    /** The last of them. */
    lastCall(tenant?: string): Promise<LogRecord | undefined>
    /** A second connection to a store of SQLite. Opened once: to read the schema anew takes longer than most calls. */
    reader(): DatabaseSync
    /** A connection of an untrusted party to the same file; `work` may read and write what it likes. */
    behindItsBack<T>(work: (db: DatabaseSync) => T): T
    /** Closes the program and opens it again on the same directory. */
    restart(): Promise<TestApp>
    /** Closes the program but keeps the directory. */
    stop(): Promise<void>
  }>

export type Answer = Record<string, unknown>
type LoggedError = Readonly<{ message: string; fields: Record<string, unknown> }>
type KeyRequest = Readonly<{
  name?: string
  tenant?: string
  role?: Role
  tier?: Tier
  scopes?: readonly Permission[]
}>

export type LogRecord = Readonly<{
  call_id: string
  at: string
  tenant: string
  principal: Readonly<{ actor: string; kind: string; role: Role; tier: Tier; key_id?: string }>
  door: string
  tool: string
  via?: string
  input: string
  output?: string
  outcome: string
  code?: string
  duration_ms: number
  effects?: readonly Readonly<{ kind: string; subject?: string; hash?: string; body: Answer }>[]
}>

export type TestAppOptions = Readonly<{
  /** By field path, as flags are: `{ 'ledger.strict_projects': true }`. */
  config?: Readonly<Record<string, string | number | boolean | readonly string[]>>
  clock?: Clock
  random?: Random
  passwordCost?: PasswordCost
  /** An existing directory, to go on where another program ended. */
  dataDir?: string
}>

export const callerOf = (principal: Principal, rest: Partial<ToolCaller> = {}): ToolCaller => ({
  principal,
  transport: 'stdio',
  exposure: 'full',
  safeNames: false,
  ...rest,
})

export const ownerCaller: ToolCaller = callerOf(localOwner)

/** A clock that a test moves. Each look at the monotonic time takes a little, so that nothing waits for ever. */
export function movableClock(startMs = Date.UTC(2026, 3, 8, 22, 15, 30)): Clock & { advance(ms: number): void } {
  let nowMs = startMs
  let spanMs = 0
  return {
    nowMs: () => nowMs,
    monotonicMs: () => {
      spanMs += 0.01
      return spanMs
    },
    advance(ms) {
      nowMs += ms
      spanMs += ms
    },
  }
}

async function newDataDir(): Promise<string> {
  const dataDir = mkdtempSync(join(tmpdir(), 'castellan-app-'))
  await writeEmptyStore(join(dataDir, 'castellan.db'))
  return dataDir
}

export async function openTestApp(options: TestAppOptions = {}): Promise<TestApp> {
  const dataDir = options.dataDir ?? (await newDataDir())
  const clock = options.clock ?? systemClock
  const errors: LoggedError[] = []
  const warnings: LoggedError[] = []
  const { config } = await loadConfig({
    env: { HOME: dataDir },
    flags: { data_dir: dataDir, ...options.config },
    workingDirectory: dataDir,
  })
  const app = buildApp({
    config,
    version: '0.0.0-test',
    clock,
    random: options.random ?? systemRandom,
    logger: collectingLogger(errors, warnings),
    ownerPid: () => process.pid,
    passwordCost: options.passwordCost ?? CHEAP_PASSWORDS,
  })
  await app.ready
  return makeTestApp({ app, config, dataDir, clock, errors, warnings }, options)
}

type Parts = Pick<TestApp, 'app' | 'config' | 'dataDir' | 'clock' | 'errors' | 'warnings'>

function makeTestApp(parts: Parts, options: TestAppOptions): TestApp {
  const { app, dataDir } = parts
  let keyCount = 0
  const call: TestApp['call'] = (name, args = {}, caller = ownerCaller, callOptions = {}) =>
    app.host.call(caller, name, args, callOptions)
  const ask = async <T>(name: string, args?: unknown, caller?: ToolCaller): Promise<T> => {
    const answer = await call(name, args, caller)
    if (answer.isError) throw new Error(`${name} failed: ${answer.json}`)
    return JSON.parse(answer.json) as T
  }
  const behindItsBack = <T>(work: (db: DatabaseSync) => T): T => {
    const db = new DatabaseSync(join(dataDir, 'castellan.db'))
    try {
      return work(db)
    } finally {
      db.close()
    }
  }
  let opened: DatabaseSync | undefined
  const reader = (): DatabaseSync => {
    opened ??= new DatabaseSync(join(dataDir, 'castellan.db'), { readOnly: true, timeout: 5_000 })
    return opened
  }
  const reading = async <T>(work: (db: DatabaseSync) => T): Promise<T> => {
    await (await app.ready).database!.flush()
    return work(reader())
  }
  const close = async (): Promise<void> => {
    opened?.close()
    opened = undefined
    await app.close()
  }
  return {
    ...parts,
    call,
    ask,
    behindItsBack,
    reader,
    async refusal(name, args, caller) {
      const answer = await call(name, args, caller)
      if (!answer.isError) throw new Error(`${name} succeeded: ${answer.json.slice(0, 500)}`)
      return (JSON.parse(answer.json) as { error: ToolFailure }).error
    },
    async keyCaller(request = {}) {
      const name = request.name ?? `agent-${++keyCount}`
      // At a terminal, so that it does not matter what the owner has read.
      const atTerminal: ToolCaller = { ...ownerCaller, transport: 'cli' }
      const { secret } = await ask<{ secret: string }>('api_key_create', { ...request, name }, atTerminal)
      const { identity } = await app.ready
      return callerOf(await identity!.authenticate(secret, parts.clock.nowMs()), { transport: 'http' })
    },
    log: (tenant = LOCAL_TENANT) => reading((db) => readLog(db, tenant)),
    lastCall: (tenant = LOCAL_TENANT) => reading((db) => readLastCall(db, tenant)),
    async restart() {
      await close()
      return await openTestApp({ ...options, dataDir })
    },
    stop: close,
    async [Symbol.asyncDispose]() {
      await close()
      await endSupervisor(dataDir)
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

const readLog = (db: DatabaseSync, tenant: string): LogRecord[] =>
  db
    .prepare('SELECT record FROM log_entries WHERE tenant = ? ORDER BY row_id')
    .all(tenant)
    .flatMap((row) => callsIn(String(row['record'])))

function readLastCall(db: DatabaseSync, tenant: string): LogRecord | undefined {
  const newestFirst = db.prepare('SELECT record FROM log_entries WHERE tenant = ? ORDER BY row_id DESC')
  for (const row of newestFirst.iterate(tenant)) {
    const last = callsIn(String(row['record'])).at(-1)
    if (last !== undefined) return last
  }
  return undefined
}

/** The calls that one entry of the log is about. */
export const callsIn = (text: string): LogRecord[] => recordedCalls(text) as unknown as LogRecord[]

const collectingLogger = (errors: LoggedError[], warnings: LoggedError[]): Logger => ({
  debug() {},
  info() {},
  warn: (message, fields = {}) => warnings.push({ message, fields }),
  error: (message, fields = {}) => errors.push({ message, fields }),
})
