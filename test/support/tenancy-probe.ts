import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import type { Principal } from '../../src/contract/principal.ts'
import { sha256Bytes } from '../../src/kernel/hash.ts'
import type { Random } from '../../src/kernel/random.ts'
import type { CatalogTool } from '../../src/tools/runtime/catalog.ts'
import type { ToolAnswer, ToolCaller, ToolHost } from '../../src/tools/runtime/tool-host.ts'
import { validateArguments } from '../../src/tools/runtime/validate-arguments.ts'
import { callerOf, movableClock, openTestApp, type TestApp } from './app.ts'
import { propertiesOf, type Schema, validArguments } from './arguments.ts'
import type { Canaries } from './canaries.ts'
import { statementIn } from './stored-state.ts'

/**
 * Whether a tool keeps tenants apart, found out by trying. Two copies of one installation are called in step, with the
 * same arguments, by a principal of tenant B: one in which tenant A holds canaries, and one in which A has nothing, so
 * that nothing of A's exists there. Time and chance are the same in both. The answers must be the same, no canary may be
 * in them, and A's rows must be as they were.
 */
export type MakeHost = (app: TestApp) => Promise<ToolHost>

const seededRandom = (): Random => {
  let count = 0
  return {
    bytes(length) {
      const blocks: Buffer[] = []
      for (let size = 0; size < length; size += 32) blocks.push(sha256Bytes(`block ${count++}`))
      return Buffer.concat(blocks).subarray(0, length)
    },
  } as Random
}

/** Two copies of one installation: one in which tenant A holds canaries, and one in which A has nothing. */
export type Copies = AsyncDisposable &
  Readonly<{
    present: TestApp
    absent: TestApp
    hosts: readonly [ToolHost, ToolHost]
    /** All that A has in the first copy, before anybody is called. */
    rowsOfA: string
  }>

export type Probed = Readonly<{
  canaries: Canaries
  principal: Principal
  /** Each thing in each parameter, or in which parameter the first thing is: the second is in the next, and so on. */
  alone: 'in each' | number
}>

export async function openCopies(the: {
  template: string
  canaries: Canaries
  makeHost: MakeHost
  searchUrl: string
}): Promise<Copies> {
  const { tenant } = the.canaries
  const [present, absent] = [await openCopy(the), await openCopy(the, tenant)]
  const hosts = [await the.makeHost(present), await the.makeHost(absent)] as const
  const rowsOfA = present.behindItsBack((db) => {
    noteWritesTo(db, tenant)
    return rowsOfTenant(db, tenant)
  })
  return {
    present,
    absent,
    hosts,
    rowsOfA,
    async [Symbol.asyncDispose]() {
      await Promise.all([present[Symbol.asyncDispose](), absent[Symbol.asyncDispose]()])
    },
  }
}

/** `without`: a tenant that the copy never had, neither rows nor a checkpoint. */
async function openCopy(
  { template, searchUrl }: { template: string; searchUrl: string },
  without?: string,
): Promise<TestApp> {
  const dataDir = mkdtempSync(join(tmpdir(), 'castellan-tenancy-'))
  cpSync(template, dataDir, { recursive: true })
  // Both copies live at one fixed moment, which is before the one in which the template was made.
  const database = new DatabaseSync(join(dataDir, 'castellan.db'))
  database.exec('DELETE FROM clock_floor')
  if (without !== undefined) {
    removeTenant(database, without)
    rmSync(join(dataDir, 'checkpoints', `${encodeURIComponent(without)}.checkpoint`), { force: true })
  }
  database.close()
  const config = {
    'audit.checkpoint_interval_ms': 3_600_000,
    'rate_limits.enabled': false,
    'workspaces.quota.workspaces': 2,
    'workspaces.store_gb': 0,
    // What is tried here stays on this machine.
    'web.search_url': searchUrl,
  }
  const app = await openTestApp({ dataDir, config, clock: movableClock(), random: seededRandom() })
  // What is opened with the first call draws from the same source of chance, so both copies open everything first.
  await app.app.catalog.find('aegis.agent.list')!.load()
  return app
}

const NOTED = 'probe_writes'

/** From now on every write to a row of the tenant is noted, from any connection: to read all rows after each tool takes long. */
function noteWritesTo(db: DatabaseSync, tenant: string): void {
  const isOf = (row: string): string => `${row}.tenant = '${tenant}'`
  const triggers = tenantTables(db).flatMap((name) =>
    [
      ['INSERT', isOf('NEW')],
      ['UPDATE', `${isOf('OLD')} OR ${isOf('NEW')}`],
      ['DELETE', isOf('OLD')],
    ].map(
      ([event, when]) =>
        `CREATE TRIGGER "${NOTED}_${event}_${name}" AFTER ${event} ON "${name}" WHEN ${when}
         BEGIN INSERT INTO ${NOTED} VALUES ('${name}'); END;`,
    ),
  )
  db.exec(`BEGIN; CREATE TABLE ${NOTED} (name TEXT); ${triggers.join('\n')} COMMIT`)
}

/** Whether the rows of A are as they were. What was written as it was before is no change. */
export function isUnaltered({ present, rowsOfA }: Copies, tenant: string, which: 'if written' | 'always'): boolean {
  const noted = statementIn(present.reader(), `SELECT 1 FROM ${NOTED} LIMIT 1`)
  if (which === 'if written' && noted.get() === undefined) return true
  return present.behindItsBack((db) => {
    db.exec(`DELETE FROM ${NOTED}`)
    return rowsOfTenant(db, tenant) === rowsOfA
  })
}

let namesOfTables: readonly string[] | undefined

/** The tables whose rows belong to tenants; every copy has the same. */
export function tenantTables(db: DatabaseSync): readonly string[] {
  namesOfTables ??= findTenantTables(db)
  return namesOfTables
}

const findTenantTables = (db: DatabaseSync): string[] =>
  db
    .prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    .all()
    .map(({ name }) => String(name))
    .filter((name) =>
      db
        .prepare(`PRAGMA table_info("${name}")`)
        .all()
        .some((column) => column['name'] === 'tenant'),
    )

function removeTenant(db: DatabaseSync, tenant: string): void {
  for (const name of tenantTables(db)) db.prepare(`DELETE FROM "${name}" WHERE tenant = ?`).run(tenant)
  db.exec("INSERT INTO tasks_search (tasks_search) VALUES ('rebuild')")
}

/** Everything that a tenant has, to the byte, or what it has in the tables named so. */
export function rowsOfTenant(db: DatabaseSync, tenant: string, named = /./): string {
  const tables = tenantTables(db).filter((name) => named.test(name))
  const dump = tables.flatMap((name) => {
    const rows = statementIn(db, `SELECT * FROM "${name}" WHERE tenant = ?`).all(tenant)
    return [
      `${name}\n${rows
        .map((row) => JSON.stringify(Object.values(row).map(textOf)))
        .sort()
        .join('\n')}`,
    ]
  })
  return dump.join('\n\n')
}
const textOf = (value: unknown): unknown => (value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value)

/** All that is wrong with one tool, in words; nothing when it keeps tenants apart. After a fault the copies have parted. */
export async function probeTool(tool: CatalogTool, copies: Copies, the: Probed): Promise<string[]> {
  const { present: first, absent: second, hosts } = copies
  const { tenant } = the.canaries
  const caller = callerOf(the.principal, { transport: 'http' })
  const faults = new Set<string>()
  for (const args of await probesOf(tool, the)) {
    const [present, absent] = await callAll(hosts, caller, tool.name, args)
    // Reads share an entry as time allows; the logs of both have to grow alike.
    for (const copy of [first, second]) await (await copy.app.ready).database!.flush()
    const what = `${tool.name} ${JSON.stringify(args)}`
    const answers = [comparable(present!, first), comparable(absent!, second)]
    const seen = the.canaries.secrets.filter((secret) => answers[0]!.includes(secret))
    if (seen.length > 0) faults.add(`${what} shows ${seen.join()}: ${answers[0]!.slice(0, 300)}`)
    if (answers[0] !== answers[1]) {
      faults.add(`${what} answers differently:\n  ${answers[0]}\n  ${answers[1]}`)
      // The copies may have parted here; from now on a difference would say nothing.
      break
    }
    if (present!.failure?.code === 'ERR_INTERNAL') faults.add(`${what} fails inside`)
  }
  if (!isUnaltered(copies, tenant, 'if written')) faults.add(`${tool.name} alters rows of another tenant`)
  return [...faults]
}

/** A search answers by words where the model takes too long. Then both are asked again: on a busy machine that says nothing. */
async function callAll(
  hosts: readonly ToolHost[],
  caller: ToolCaller,
  name: string,
  args: Record<string, unknown>,
): Promise<ToolAnswer[]> {
  for (;;) {
    const answers = await Promise.all(hosts.map((host) => host.call(caller, name, args)))
    if (!answers.some(({ json }) => json.includes('did not answer, so these are keyword matches'))) return answers
  }
}

/**
 * Each thing of A's in a parameter alone, the others as B would fill them in, and in all parameters at once. Unless it is alone `in each`,
 * it is alone in one parameter only, another one each time.
 *
 * What fits one parameter alone comes several times; the same call again would show nothing new. Nor would what the schema
 * refuses: it is refused before anything is looked up, so one such call is enough for each parameter.
 */
async function probesOf(tool: CatalogTool, the: Probed): Promise<Record<string, unknown>[]> {
  const { input } = await tool.load()
  const isAccepted = (args: object): boolean => {
    try {
      validateArguments(tool, input, args)
      return true
    } catch {
      return false
    }
  }
  const probes = new Map<string, Record<string, unknown>>()
  for (const { tried, args } of everyProbeOf(tool, the)) {
    const key = isAccepted(args) ? JSON.stringify(args) : `refused ${tried}`
    if (!probes.has(key)) probes.set(key, args)
  }
  return [...probes.values()]
}

type Probe = Readonly<{ tried: string; args: Record<string, unknown> }>

function* everyProbeOf(tool: CatalogTool, { canaries, alone }: Probed): Generator<Probe> {
  const schema = tool.listed.inputSchema as Schema
  const [sample] = fc.sample(validArguments(schema), { seed: 1, numRuns: 1 })
  const own: Record<string, unknown> = {}
  for (const key of (schema['required'] ?? []) as string[]) own[key] = canaries.ownValueOf(key) ?? sample![key]
  yield { tried: 'nothing', args: own }
  for (const [turn, probe] of [...canaries.probes, canaries.position].entries()) {
    const fitting = propertiesOf(schema)
      .map(([key, part]) => [key, valueFor(part, probe)] as const)
      .filter(([, value]) => value !== undefined)
    for (const [index, [key, value]] of fitting.entries()) {
      if (alone === 'in each' || index === (turn + alone) % fitting.length)
        yield { tried: key, args: { ...own, [key]: value } }
    }
    yield { tried: 'all', args: { ...own, ...Object.fromEntries(fitting) } }
  }
}

/** The probe as a value of the parameter; undefined where it cannot be one. */
function valueFor(schema: Schema, probe: string | number): unknown {
  if ('enum' in schema) return undefined
  switch (schema['type']) {
    case 'string':
      return String(probe)
    case 'integer':
    case 'number':
      return typeof probe === 'number' ? Math.min(probe, Number(schema['maximum'] ?? probe)) : undefined
    case 'array': {
      const item = valueFor((schema['items'] ?? {}) as Schema, probe)
      return item === undefined ? undefined : [item]
    }
    case 'object':
      return { task_id: probe, session_id: probe, key: probe, project: probe }
    default:
      return undefined
  }
}

/** All of an answer but what no two moments and no two directories share. */
const comparable = ({ json, content }: ToolAnswer, app: TestApp): string =>
  `${json} ${JSON.stringify(content ?? [])}`
    .replaceAll(app.dataDir, '<dir>')
    // Each copy listens for links on a port of its own.
    .replaceAll(/(http:\/\/127\.0\.0\.1:)\d+(\/secrets\/)/g, '$1<port>$2')
    .replaceAll(
      /(\\*"(?:duration_ms|elapsed_ms|boot_time_ms|uptime_ms|rss_bytes|heap_used_bytes)\\*":)[\d.]+/g,
      '$1<n>',
    )
