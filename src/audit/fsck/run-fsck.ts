import { compareTable, createOrderedComparison } from './compare-rows.ts'
import { canonicalText, type EntityName, isMembers, type Members } from './entities.ts'
import { createFindingList, type FsckFinding, type ReportFinding } from './findings.ts'
import { createFold, type Fold } from './fold.ts'
import { createRunCheck, type RunCheck } from './run-check.ts'
import { createSeenIds, type SeenIds } from './seen-ids.ts'
import type { FsckIdentity, FsckLogRow, FsckSource } from './source.ts'
import { type LogKey, readLogKey, readStoredNote, type StoredNote } from './stored-note.ts'
import { createTreeCheck, type TreeCheck } from './tree-check.ts'

/**
 * The independent checker: reads everything a store holds and shows that the log is whole and that the state is what
 * the log says. It shares no code with what writes the log.
 */
type FsckOptions = Readonly<{
  /** The name and the key of the log, from beside the store, and whether a store has had it. */
  identity?: RecordedIdentity
  /** Findings beyond this number are counted, not kept. */
  findingsMax?: number
  /** Called every few hundred rows: lets a checker in the background give way. */
  pause?: () => Promise<void> | void
  onProgress?: (progress: Readonly<{ tenant: string; entries: number }>) => void
  signal?: AbortSignal
}>

type RecordedIdentity = FsckIdentity & Readonly<{ isClaimed: boolean }>

type FsckTenantCounts = Readonly<
  { tenant: string; entries: number; otherEffects: number; checkpointSize: number | null } & Record<EntityName, number>
>

export type FsckReport = Readonly<{
  ok: boolean
  findings: readonly FsckFinding[]
  findingCount: number
  tenants: readonly FsckTenantCounts[]
}>

const ROWS_BETWEEN_PAUSES = 256

export async function runFsck(source: FsckSource, options: FsckOptions = {}): Promise<FsckReport> {
  const findings = createFindingList(options.findingsMax ?? 1_000)
  const identity = checkIdentity(await source.identity(), options.identity, findings.forTenant(''))
  const key = identity === undefined ? undefined : readLogKey(identity.verifierKey)
  const tenants: FsckTenantCounts[] = []
  for await (const tenant of source.tenants()) {
    const report = findings.forTenant(tenant)
    tenants.push(await checkTenant({ source, tenant, key, logId: identity?.logId, options, report }))
  }
  return { ok: findings.count() === 0, findings: findings.retained(), findingCount: findings.count(), tenants }
}

/** What stands beside the store is right: access to the store is not access to the signing key. */
function checkIdentity(
  recorded: FsckIdentity | undefined,
  retained: RecordedIdentity | undefined,
  report: ReportFinding,
): FsckIdentity | undefined {
  const location = { table: 'log_identity', row: retained?.logId ?? recorded?.logId ?? '' } as const
  if (retained === undefined) {
    if (recorded !== undefined) report({ ...location, rule: 'identity.key', detail: 'There is none.' })
    return recorded
  }
  if (recorded === undefined) {
    if (retained.isClaimed) report({ ...location, rule: 'identity.missing' })
    return retained
  }
  const [expected, actual] = [retained, recorded]
  if (actual.logId !== expected.logId) {
    report({ ...location, rule: 'identity.log-id', field: 'log_id', expected: expected.logId, actual: actual.logId })
  }
  if (actual.verifierKey !== expected.verifierKey) {
    const keys = { expected: expected.verifierKey, actual: actual.verifierKey }
    report({ ...location, rule: 'identity.key', field: 'verifier_key', ...keys })
  }
  return retained
}

type TenantCheck = Readonly<{
  source: FsckSource
  tenant: string
  key: LogKey | undefined
  logId: string | undefined
  options: FsckOptions
  report: ReportFinding
}>

async function checkTenant(check: TenantCheck): Promise<FsckTenantCounts> {
  const { source, tenant, report } = check
  const checkpoint = await readCheckpoint(check)
  const tree = createTreeCheck(report)
  const fold = createFold(report)
  const runs = createRunCheck(report)
  const entries = await checkLog(check, { tree, fold, runs, checkpoint })
  await checkHead(check, tree, fold)
  for (const table of ['projects', 'tasks', 'sessions'] as const) {
    await compareTable(table, source[table](tenant), fold.rows[table], report)
  }
  await runs.compare(source.runs(tenant), source.runEvents(tenant))
  return {
    tenant,
    entries,
    otherEffects: fold.otherEffects(),
    checkpointSize: checkpoint?.size ?? null,
    ...fold.counts(),
  }
}

async function readCheckpoint({ source, tenant, key, logId, report }: TenantCheck): Promise<StoredNote | undefined> {
  const text = await source.checkpoint(tenant)
  const location = { table: 'checkpoints', row: tenant } as const
  if (text === undefined) {
    const size = await source.anchor(tenant)
    if (size !== undefined) report({ ...location, rule: 'checkpoint.missing', expected: size, actual: null })
    return undefined
  }
  const note = readStoredNote(text)
  if (note === undefined) {
    report({ ...location, rule: 'checkpoint.note' })
    return undefined
  }
  if (key !== undefined && !note.isSignedBy(key)) report({ ...location, rule: 'checkpoint.signature' })
  const [, name, ...rest] = note.origin.split('/')
  const expected = `castellan/${logId ?? name}/${tenant}`
  if (note.origin !== expected || rest.join('/') !== tenant) {
    report({ ...location, rule: 'checkpoint.origin', field: 'origin', expected, actual: note.origin })
  }
  return note
}

type LogCheck = Readonly<{ tree: TreeCheck; fold: Fold; runs: RunCheck; checkpoint: StoredNote | undefined }>

async function checkLog(check: TenantCheck, { tree, fold, runs, checkpoint }: LogCheck): Promise<number> {
  const { source, tenant, options, report } = check
  const thoughts = createOrderedComparison('thoughts', source.thoughts(tenant), report)
  const callIds = createSeenIds()
  let entries = 0
  try {
    checkCheckpointRoot(checkpoint, tree, tenant, report)
    for await (const row of source.logRows(tenant)) {
      if (entries++ % ROWS_BETWEEN_PAUSES === 0) {
        options.signal?.throwIfAborted()
        options.onProgress?.({ tenant, entries })
        await options.pause?.()
      }
      if (row.seq !== tree.size()) {
        report({ table: 'log_entries', row: String(row.seq), rule: 'log.seq', expected: tree.size(), actual: row.seq })
        if (!(row.seq > tree.size())) continue
      }
      tree.add(row)
      checkCheckpointRoot(checkpoint, tree, tenant, report)
      const record = readRecord(row, tenant, callIds, report)
      if (record?.['kind'] === 'run') runs.apply(record, row.seq)
      for (const [position, effect] of effectsOf(record).entries()) {
        if (isMembers(effect) && effect['kind'] === 'run_removed' && isMembers(effect['body'])) {
          runs.remove(effect['body'])
        }
        const thought = fold.apply(effect, row.seq, position)
        if (thought !== undefined) await thoughts.expect(thought)
      }
    }
    await thoughts.finish()
  } finally {
    await thoughts.close()
  }
  if (checkpoint !== undefined && checkpoint.size > tree.size()) {
    const sizes = { field: 'size', expected: tree.size(), actual: checkpoint.size }
    report({ table: 'checkpoints', row: tenant, rule: 'checkpoint.ahead', ...sizes })
  }
  return entries
}

function checkCheckpointRoot(
  checkpoint: StoredNote | undefined,
  tree: TreeCheck,
  tenant: string,
  report: ReportFinding,
): void {
  if (checkpoint?.size !== tree.size()) return
  const root = tree.root()
  if (root === undefined || root.equals(checkpoint.root)) return
  report({
    table: 'checkpoints',
    row: tenant,
    rule: 'checkpoint.root',
    field: 'root',
    expected: checkpoint.root.toString('hex'),
    actual: root.toString('hex'),
  })
}

async function checkHead({ source, tenant, report }: TenantCheck, tree: TreeCheck, fold: Fold): Promise<void> {
  const head = await source.head(tenant)
  if (head === undefined) {
    if (tree.size() > 0) report({ table: 'log_heads', row: tenant, rule: 'head.missing' })
    return
  }
  tree.checkHead(head, tenant)
  const counts = fold.counts()
  for (const [name, actual] of Object.entries(head.counters ?? {})) {
    const expected = counts[name as EntityName]
    if (actual !== expected) {
      report({ table: 'log_heads', row: tenant, rule: 'head.counter', field: name, expected, actual })
    }
  }
}

function readRecord(row: FsckLogRow, tenant: string, callIds: SeenIds, report: ReportFinding): Members | undefined {
  const location = { table: 'log_entries', row: String(row.seq) } as const
  const record = parse(row.record)
  if (record === undefined) {
    report({ ...location, rule: 'log.record-json' })
    return undefined
  }
  if (canonicalText(record.value) !== row.record) report({ ...location, rule: 'log.record-canonical' })
  const { value } = record
  if (!isMembers(value) || value['v'] !== 1 || typeof value['kind'] !== 'string') {
    report({ ...location, rule: 'log.record-shape' })
    return undefined
  }
  if (value['tenant'] !== tenant) {
    report({ ...location, rule: 'log.record-tenant', field: 'tenant', expected: tenant, actual: value['tenant'] })
  }
  if (value['kind'] === 'reads') checkReads(value, callIds, location, report)
  else if (value['kind'] !== 'run') checkCallId(value, 'call_id', callIds, location, report)
  if (value['effects'] !== undefined && !Array.isArray(value['effects'])) {
    report({ ...location, rule: 'log.record-shape', field: 'effects' })
  }
  checkColumns(row, value, report)
  return value
}

type LogLocation = Readonly<{ table: 'log_entries'; row: string }>

/** An entry for several calls that only read: each of them is a call of its own, and none has brought about anything. */
function checkReads(record: Members, callIds: SeenIds, location: LogLocation, report: ReportFinding): void {
  const { calls, effects } = record as { calls?: unknown; effects?: unknown }
  if (!Array.isArray(calls) || calls.length === 0) {
    report({ ...location, rule: 'log.record-shape', field: 'calls' })
    return
  }
  if (effects !== undefined) report({ ...location, rule: 'log.record-shape', field: 'effects' })
  for (const [position, call] of calls.entries()) {
    const field = `calls[${position}]`
    if (!isMembers(call)) {
      report({ ...location, rule: 'log.record-shape', field })
      continue
    }
    checkCallId(call, `${field}.call_id`, callIds, location, report)
    for (const name of ['at', 'tool', 'input', 'outcome']) {
      if (typeof call[name] !== 'string') report({ ...location, rule: 'log.record-shape', field: `${field}.${name}` })
    }
    if (call['effects'] !== undefined) report({ ...location, rule: 'log.record-shape', field: `${field}.effects` })
  }
}

function checkCallId(
  call: Members,
  field: string,
  callIds: SeenIds,
  location: LogLocation,
  report: ReportFinding,
): void {
  const actual = call['call_id']
  if (typeof actual !== 'string') report({ ...location, rule: 'log.record-shape', field, actual })
  else if (!callIds.add(actual)) report({ ...location, rule: 'log.call-id', field, actual })
}

function checkColumns(row: FsckLogRow, record: Members, report: ReportFinding): void {
  const location = { table: 'log_entries', row: String(row.seq) } as const
  const trail = effectsOf(record).find((effect) => isMembers(effect) && effect['subject'] !== undefined) as
    | Members
    | undefined
  const at = timeText(row.atMs)
  if (record['at'] !== at) report({ ...location, rule: 'log.at', field: 'at', expected: record['at'], actual: at })
  const subject = trail?.['subject'] ?? null
  const hash = trail?.['hash'] ?? null
  if (row.subject !== subject) {
    report({ ...location, rule: 'log.subject', field: 'subject', expected: subject, actual: row.subject })
  }
  if (row.recordHash !== hash) {
    report({ ...location, rule: 'log.record-hash', field: 'recordHash', expected: hash, actual: row.recordHash })
  }
}

function timeText(ms: number): string {
  const time = new Date(ms)
  return Number.isNaN(time.getTime()) ? String(ms) : time.toISOString()
}

function effectsOf(record: Members | undefined): readonly unknown[] {
  const effects = record?.['effects']
  return Array.isArray(effects) ? effects : []
}

function parse(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return undefined
  }
}
