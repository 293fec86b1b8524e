import type { RawLogEntry } from '../../audit/ports.ts'
import { thoughtHash } from '../../audit/thought-chain.ts'
import { HASH_BYTES } from '../../audit/tree.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { canonicalJson, type Json } from '../../kernel/canonical-json.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { formatTaskId, parseNumberedId } from '../tasks/rules.ts'
import { createChainOrder } from './chain-order.ts'
import { inScope, MISSING, type RecordScope, type Tally, type TracedRecord, UNKNOWN } from './chain-report.ts'
import { firstEffectAt, latin1Of, onlyTaskEffect, subjectOf, taskOf, trailEffect } from './log-text.ts'
import type { Thought, TrailStore } from './ports.ts'
import type { TaskRows } from './task-rows.ts'
import { thoughtBody, thoughtTexts } from './thought-hash.ts'
import type { ThoughtRows } from './thought-rows.ts'

type Body = Readonly<Record<string, Json>>
type JudgedRecord = Readonly<{ kind: string; task: number; hash: string; chainPosition: number | null }>
type Mismatch = readonly [expected: string, actual: string]

/** Identifying a lost entry scans the thoughts table. After this many scans, lost entries stay unknown. */
const LOOKUPS_MAX = 100
const LOST_IN_DETAIL_MAX = 2_000

type RecordCheckDeps = Readonly<{
  scope: RecordScope
  tally: Tally
  rows: ThoughtRows
  trail: Pick<TrailStore, 'listThoughts'>
  tx: ReadTx
  tenant: TenantId
  /** The head does not acknowledge entries from here on. */
  headSize: number
  /** A position in the scope that is known to hold no record. */
  noRecordAt: number | undefined
  traceMax: number
  onHash(hash: string): void
  /** Receives every record of the scope's tasks, in and beyond its range; undefined if task rows are not compared. */
  taskRows: Pick<TaskRows, 'apply'> | undefined
}>

/** Verifies the records of a scope, entry by entry, each against its own hash, its chain, its index and its row. */
export function createRecordCheck(deps: RecordCheckDeps) {
  const { scope, tally, rows } = deps
  const order = createChainOrder(scope.fromSeq === 0)
  const trace: TracedRecord[] = []
  let lookups = 0
  let logDamage = 0

  function judge(entry: RawLogEntry, record: JudgedRecord, problem: Mismatch | undefined): void {
    const { kind, task, hash, chainPosition } = record
    deps.onHash(hash)
    const wrong = problem ?? entryProblem(entry, task, hash)
    if (wrong === undefined) tally.good(entry.seq, chainPosition !== null)
    else {
      const what = chainPosition === null ? 'task' : 'thought'
      tally.bad({ expectedHash: wrong[0], actualHash: wrong[1], what, chainPosition }, entry.seq)
    }
    if (trace.length < deps.traceMax) {
      trace.push({ position: tally.total(), kind, task_id: formatTaskId(task), hash, log_seq: entry.seq })
    }
  }

  /** What is wrong with the entry around a record that is itself valid. */
  function entryProblem(entry: RawLogEntry, task: number, hash: string): Mismatch | undefined {
    if (entry.recordHash !== hash) return [hash, entry.recordHash ?? MISSING]
    if (entry.taskNumber !== task) return [hash, MISSING]
    if (entry.seq < deps.headSize) return undefined
    logDamage++
    return [MISSING, hash]
  }

  /** The common case of a thought, without parsing: the row produces exactly the text of the entry. */
  function checkUsualThought(entry: RawLogEntry, text: string): boolean {
    const row = rows.next()
    if (row?.logSeq !== entry.seq) return false
    const texts = textsOf(row)
    if (texts === undefined || !isEffectAt(text, firstEffectAt(text), texts)) return false
    if (sha256Hex(texts.hashed) !== row.hash) return false
    rows.takeNext()
    const { taskNumber: task, hash, chainPosition } = row
    judge(entry, { kind: 'thought_recorded', task, hash, chainPosition }, order.link(row))
    return true
  }

  /** The common case of a task record: the text of its body hashes to the hash beside it. */
  function checkUsualTask(entry: RawLogEntry, text: string, task: number): boolean {
    const found = onlyTaskEffect(text)
    if (found === undefined || sha256Hex(found.body) !== found.hash) return false
    judge(entry, { kind: found.kind, task, hash: found.hash, chainPosition: null }, undefined)
    deps.taskRows?.apply(found.kind, task, JSON.parse(found.body.toString('utf8')))
    return true
  }

  function check(entry: RawLogEntry): Promise<void> | undefined {
    const text = latin1Of(entry.record)
    if (checkUsualThought(entry, text)) return undefined
    const task = subjectOf(text)
    if (task !== undefined && inScope(scope, task))
      return checkUsualTask(entry, text, task) ? undefined : checkParsed(entry, task)
    if (entry.taskNumber !== null && inScope(scope, entry.taskNumber)) misplaced(entry)
    return undefined
  }

  async function checkParsed(entry: RawLogEntry, task: number): Promise<void> {
    const effect = trailEffect(entry)
    if (effect === undefined) return
    const hash = String(effect.hash)
    if (effect.kind !== 'thought_recorded') {
      const actual = sha256Hex(canonicalJson(effect.body))
      const problem: Mismatch | undefined = actual === hash ? undefined : [hash, actual]
      if (problem !== undefined) logDamage++
      judge(entry, { kind: effect.kind, task, hash, chainPosition: null }, problem)
      deps.taskRows?.apply(effect.kind, task, effect.body)
      return
    }
    const chainPosition = Number(effect.body['chain_position'])
    const problem = await thoughtProblem(entry, effect.body, task)
    judge(entry, { kind: effect.kind, task, hash, chainPosition }, problem)
  }

  async function thoughtProblem(entry: RawLogEntry, body: Body, task: number): Promise<Mismatch | undefined> {
    const row = await rows.take(parseNumberedId('Θ', String(body['thought_id'])) ?? -1)
    const hash = String(body['hash'])
    const chainPosition = Number(body['chain_position'])
    const previousHash = body['previous_hash'] as string | null
    const broken = order.link({ taskNumber: task, chainPosition, hash, previousHash })
    const recomputed = hashOfBody(body)
    if (recomputed !== hash) {
      logDamage++
      return [hash, recomputed]
    }
    return rowProblem(entry, body, row) ?? broken
  }

  /** Records of a task before and after the range also determine its row. */
  function passOutside(entry: RawLogEntry): void {
    const task = subjectOf(latin1Of(entry.record))
    if (task === undefined || !inScope(scope, task)) return
    const effect = trailEffect(entry)
    if (effect !== undefined) deps.taskRows?.apply(effect.kind, task, effect.body)
  }

  /** The index assigns the entry to a task of the scope, but its record does not. */
  function misplaced(entry: RawLogEntry): void {
    const actualHash = entry.recordHash ?? UNKNOWN
    tally.bad({ expectedHash: MISSING, actualHash, what: 'unknown', chainPosition: null }, entry.seq)
  }

  /** An entry whose record is not the one that was hashed. Its index, text or row tells which task it belonged to. */
  async function checkDamaged(entry: RawLogEntry, leaf: string): Promise<void> {
    const effect = trailEffect(entry)
    const claims = [entry.taskNumber, effect === undefined ? null : taskOf(effect)].filter((task) => task !== null)
    const isOurs = claims.some((task) => inScope(scope, task))
    if (!isOurs && entry.taskNumber !== null) return
    const [row] = await rowsAt(entry.seq, entry.seq + 1)
    if (!isOurs && row !== undefined && !inScope(scope, row.taskNumber)) return
    if (!isOurs && row === undefined && entry.seq === deps.noRecordAt) return
    const number = row?.number ?? parseNumberedId('Θ', String(effect?.body['thought_id']))
    if (number !== undefined) await rows.take(number)
    const position = row?.chainPosition ?? Number(effect?.body['chain_position'])
    const isThought = row !== undefined || effect?.kind === 'thought_recorded'
    const task = row?.taskNumber ?? claims.find((claim) => inScope(scope, claim))
    if (isThought && task !== undefined) order.pass(task, position, row?.hash ?? String(effect?.hash))
    else order.passUnknown(1)
    logDamage++
    const link = {
      expectedHash: Buffer.from(entry.nodes.subarray(0, HASH_BYTES)).toString('hex') || MISSING,
      actualHash: leaf,
      what: isThought ? 'thought' : isOurs ? 'task' : 'unknown',
      chainPosition: isThought && Number.isSafeInteger(position) ? position : null,
    } as const
    tally.bad(link, entry.seq)
  }

  /** Missing entries. Thoughts of other tasks among them do not count here. */
  async function lost(from: number, to: number, expectedHash: string): Promise<void> {
    const begin = Math.max(from, scope.fromSeq)
    const end = Math.min(to, scope.toSeq)
    if (begin >= end) return
    const known = new Map((await rowsAt(begin, end)).map((row) => [row.logSeq, row]))
    const detailEnd = known.size === 0 ? begin : Math.min(end, begin + LOST_IN_DETAIL_MAX)
    for (let seq = begin; seq < detailEnd; seq++) {
      const row = known.get(seq)
      if (row === undefined) lostUnknown(seq, seq + 1, expectedHash)
      else if (inScope(scope, row.taskNumber)) await lostThought(row)
    }
    lostUnknown(detailEnd, end, expectedHash)
  }

  function lostUnknown(from: number, to: number, expectedHash: string): void {
    const { noRecordAt } = deps
    const count = to - from - (noRecordAt !== undefined && noRecordAt >= from && noRecordAt < to ? 1 : 0)
    if (count <= 0) return
    order.passUnknown(count)
    logDamage += count
    tally.badRun({ expectedHash, actualHash: MISSING, what: 'unknown', chainPosition: null }, count)
  }

  async function lostThought(row: Thought): Promise<void> {
    await rows.take(row.number)
    order.pass(row.taskNumber, row.chainPosition, row.hash)
    logDamage++
    const { hash: expectedHash, chainPosition } = row
    tally.bad({ expectedHash, actualHash: MISSING, what: 'thought', chainPosition })
  }

  async function rowsAt(fromSeq: number, toSeq: number): Promise<readonly Thought[]> {
    if (lookups++ >= LOOKUPS_MAX) return []
    const filter = { fromSeq, toSeq }
    return await deps.trail.listThoughts(deps.tx, deps.tenant, filter, { limit: LOST_IN_DETAIL_MAX, offset: 0 })
  }

  return {
    /** Undefined if the entry is done: only the uncommon ones are awaited. */
    entry(entry: RawLogEntry, leafIntact: boolean, leaf: () => string): Promise<void> | undefined {
      if (entry.seq < scope.fromSeq || entry.seq >= scope.toSeq) {
        if (deps.taskRows !== undefined) passOutside(entry)
        return undefined
      }
      if (!leafIntact) return checkDamaged(entry, leaf())
      return rows.isDry() ? rows.fill().then(() => check(entry)) : check(entry)
    },
    lost,
    /** Rows without an entry. */
    async rowsWithoutEntry(): Promise<void> {
      for (const { hash: actualHash, chainPosition } of await rows.rest()) {
        tally.bad({ expectedHash: MISSING, actualHash, what: 'thought', chainPosition })
      }
    },
    /** How many records are broken because of the log, and not because of a row beside it. */
    logDamage: () => logDamage,
    trace,
  }
}

const hashOfBody = (body: Body): string =>
  thoughtHash({
    task_id: String(body['task_id']),
    type: String(body['type']),
    content: String(body['content']),
    previous_hash: body['previous_hash'] as string | null,
    recorded_at: String(body['recorded_at']),
    recorded_by: String(body['recorded_by']),
  })

/** How the row of a thought differs from the log: by the document's hash if that shows it. */
function rowProblem(entry: RawLogEntry, body: Body, row: Thought | undefined): Mismatch | undefined {
  const hash = String(body['hash'])
  if (row === undefined) return [hash, MISSING]
  const texts = textsOf(row)
  if (texts === undefined) return [hash, UNKNOWN]
  const recomputed = sha256Hex(texts.hashed)
  if (recomputed !== hash) return [hash, recomputed]
  if (row.hash !== hash) return [hash, String(row.hash)]
  const [expected, actual] = [canonicalJson(body), canonicalJson(thoughtBody(row))]
  if (expected !== actual) return [sha256Hex(expected), sha256Hex(actual)]
  return row.logSeq === entry.seq ? undefined : [hash, MISSING]
}

/** The bytes of Θ, which is the only non-ASCII character unless the caller wrote others. */
const THETA_LATIN1 = '\u00ce\u0098'

function isEffectAt(latin1: string, at: number, { head, tail }: ReturnType<typeof thoughtTexts>): boolean {
  if (latin1.startsWith(head + THETA_LATIN1 + tail, at)) return true
  return latin1.startsWith(Buffer.from(`${head}Θ${tail}`, 'utf8').toString('latin1'), at)
}

/** Undefined for a row that has no canonical text: this program did not write it. */
function textsOf(row: Thought): ReturnType<typeof thoughtTexts> | undefined {
  try {
    return thoughtTexts(row)
  } catch {
    return undefined
  }
}
