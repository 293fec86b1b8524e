import { compareTable, createOrderedComparison } from './compare-rows.ts'
import { canonicalText, type EntityName, isMembers, type Members } from './entities.ts'
import { createFindingList, type FsckFinding, type ReportFinding } from './findings.ts'
import { createFold, type Fold } from './fold.ts'
import { createRuleCheck, type RuleCheck, ruleTables } from './rule-check.ts'
import { createRunCheck, type RunCheck } from './run-check.ts'
import { createSeenIds, type SeenIds } from './seen-ids.ts'
import type { FsckHead, FsckIdentity, FsckLogRow, FsckSource } from './source.ts'
import { type LogKey, readLogKey, readStoredNote, type StoredNote } from './stored-note.ts'
import { createTreeCheck, type TreeCheck } from './tree-check.ts'

/**
 * The independent checker: reads everything in a store and shows that the log is intact and that the state is what the log says.
 * It shares no code with the code that writes the log.
 */
type FsckOptions = Readonly<{
  /** The name and key of the log, from beside the store, and whether a store has used it. */
  identity?: RecordedIdentity
  /** Findings beyond this number are counted, not stored. */
  findingsMax?: number
  /** Called every few hundred rows, so that a background checker can yield. */
  pause?: () => Promise<void> | void
  onProgress?: (progress: Readonly<{ tenant: string; entries: number }>) => void
  signal?: AbortSignal
}>

type RecordedIdentity = FsckIdentity & Readonly<{ isClaimed: boolean }>

type FsckTenantCounts = Readonly<
  { tenant: string; entries: number; otherEffects: number; checkpointSize: number | null } & Record<EntityName, number>
>

/**
 * A log with entries that could have been truncated unnoticed: no checkpoint is beside the store, or the store has no mark that
 * there was one. Damage or not, it is not sound: a program that was killed in its first second leaves the same.
 */
type UnprotectedLog = Readonly<{ tenant: string; missing: 'checkpoint' | 'anchor' }>

export type FsckReport = Readonly<{
  /** Nothing was found, and every log with entries is protected. */
  ok: boolean
  unprotected: readonly UnprotectedLog[]
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
  const unprotected = await unprotectedLogs(source, tenants)
  const findingCount = findings.count()
  const ok = findingCount === 0 && unprotected.length === 0
  return { ok, unprotected, findings: findings.retained(), findingCount, tenants }
}

async function unprotectedLogs(source: FsckSource, tenants: readonly FsckTenantCounts[]): Promise<UnprotectedLog[]> {
  const found: UnprotectedLog[] = []
  for (const { tenant, entries, checkpointSize } of tenants) {
    if (entries === 0) continue
    const isAnchored =
      (await source.isAnchored(tenant)) && (checkpointSize !== null || (await isReported(source, tenant)))
    if (!isAnchored) found.push({ tenant, missing: checkpointSize === null ? 'checkpoint' : 'anchor' })
  }
  return found
}

/** The file beside the store is right: access to the store is not access to the signing key. */
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

/** A checkpoint that cannot be read, or is missing beside its mark, is a finding already. */
const isReported = async (source: FsckSource, tenant: string): Promise<boolean> =>
  (await source.checkpoint(tenant)) !== undefined || (await source.anchor(tenant)) !== undefined

async function checkTenant(check: TenantCheck): Promise<FsckTenantCounts> {
  const { source, tenant, report } = check
  const checkpoint = await readCheckpoint(check)
  const tree = createTreeCheck(report)
  const fold = createFold(report)
  const runs = createRunCheck(report)
  const rules = createRuleCheck(report)
  const head = await source.head(tenant)
  const { entries, trailRecords } = await checkLog(check, {
    ...{ tree, fold, runs, rules, checkpoint },
    trailTo: head?.trail?.to,
  })
  checkHead(check, head, tree, fold)
  checkTrail(check, head, trailRecords)
  for (const table of ['projects', 'tasks', 'sessions'] as const) {
    await compareTable(table, source[table](tenant), fold.rows[table], report)
  }
  for (const table of ruleTables) await rules.compare(table, source.rules(table, tenant))
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

type LogCheck = Readonly<{
  tree: TreeCheck
  fold: Fold
  runs: RunCheck
  rules: RuleCheck
  checkpoint: StoredNote | undefined
  trailTo: number | undefined
}>

type LogCounts = Readonly<{ entries: number /** Trail records before `trailTo`. */; trailRecords: number }>

async function checkLog(
  check: TenantCheck,
  { tree, fold, runs, rules, checkpoint, trailTo = 0 }: LogCheck,
): Promise<LogCounts> {
  const { source, tenant, options, report } = check
  const thoughts = createOrderedComparison('thoughts', source.thoughts(tenant), report)
  const callIds = createSeenIds()
  let entries = 0
  let trailRecords = 0
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
      if (row.subject !== null && row.seq < trailTo) trailRecords++
      checkCheckpointRoot(checkpoint, tree, tenant, report)
      const record = readRecord(row, tenant, callIds, report)
      if (record?.['kind'] === 'run') runs.apply(record, row.seq)
      for (const [position, effect] of effectsOf(record).entries()) {
        if (isMembers(effect) && effect['kind'] === 'run_removed' && isMembers(effect['body'])) {
          runs.remove(effect['body'])
        }
        if (rules.apply(effect, row.seq, position)) continue
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
  return { entries, trailRecords }
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

function checkHead({ tenant, report }: TenantCheck, head: FsckHead | undefined, tree: TreeCheck, fold: Fold): void {
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

function checkTrail({ tenant, report }: TenantCheck, head: FsckHead | undefined, trailRecords: number): void {
  if (head?.trail === undefined) return
  const { to, entries, last } = head.trail
  const location = { table: 'log_heads', row: tenant, rule: 'head.trail', field: 'trail_to' } as const
  if (to < 0 || to > head.size || to <= (last ?? -1)) {
    report({ ...location, expected: { from: (last ?? -1) + 1, to: head.size }, actual: to })
  } else if (entries !== trailRecords) {
    report({ ...location, expected: trailRecords, actual: entries, detail: 'The index has another number of them.' })
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
  if (!isMembers(value) || !isKnownVersion(value) || typeof value['kind'] !== 'string') {
    report({ ...location, rule: 'log.record-shape' })
    return undefined
  }
  if (value['tenant'] !== tenant) {
    report({ ...location, rule: 'log.record-tenant', field: 'tenant', expected: tenant, actual: value['tenant'] })
  }
  if (value['kind'] === 'reads') checkReads(value, callIds, location, report)
  else if (value['calls'] !== undefined) report({ ...location, rule: 'log.record-shape', field: 'calls' })
  else if (value['kind'] !== 'run') checkCallId(value, 'call_id', callIds, location, report)
  if (value['effects'] !== undefined && !Array.isArray(value['effects'])) {
    report({ ...location, rule: 'log.record-shape', field: 'effects' })
  }
  checkColumns(row, value, report)
  return value
}

type LogLocation = Readonly<{ table: 'log_entries'; row: string }>

/** In the second version of a list, calls say only what differs from the one before. */
const isKnownVersion = ({ v, kind }: Members): boolean => v === 1 || (v === 2 && kind === 'reads')

/** An entry for several reads: each is a separate call, and none has effects. */
function checkReads(record: Members, callIds: SeenIds, location: LogLocation, report: ReportFinding): void {
  const { calls, effects } = record as { calls?: unknown; effects?: unknown }
  if (!Array.isArray(calls) || calls.length === 0) {
    report({ ...location, rule: 'log.record-shape', field: 'calls' })
    return
  }
  if (effects !== undefined) report({ ...location, rule: 'log.record-shape', field: 'effects' })
  let said: Members = {}
  for (const [position, call] of calls.entries()) {
    const field = `calls[${position}]`
    if (!isMembers(call)) {
      report({ ...location, rule: 'log.record-shape', field })
      continue
    }
    checkCallId(call, `${field}.call_id`, callIds, location, report)
    said = record['v'] === 2 ? { ...said, ...call } : call
    for (const name of ['at', 'tool', 'input', 'outcome']) {
      if (typeof said[name] !== 'string') report({ ...location, rule: 'log.record-shape', field: `${field}.${name}` })
    }
    for (const name of ['effects', 'kind', 'tenant', 'v']) {
      if (call[name] !== undefined) report({ ...location, rule: 'log.record-shape', field: `${field}.${name}` })
    }
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
