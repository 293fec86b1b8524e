import { openCheckpoint } from '../../audit/checkpoint.ts'
import type { CheckpointStore, LogEntry, LogStore } from '../../audit/ports.ts'
import { appendLeaf, emptyHead, HASH_BYTES, leafHash, rootOf, type TreeHead } from '../../audit/tree.ts'
import { AppError } from '../../contract/app-error.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadUnit } from '../../contract/unit.ts'
import { canonicalJson, type Json } from '../../kernel/canonical-json.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { formatTaskId, parseNumberedId } from '../tasks/rules.ts'
import type { Thought, TrailStore } from './ports.ts'
import { thoughtBody, thoughtHash } from './thought-hash.ts'
import type { ChainReport, ChainVerifier, RecordScope } from './trail-service.ts'

/**
 * Verifies the records of a scope. The log is the authority and is itself checked from its first entry:
 *
 * 1. Every entry's bytes must give the leaf hash stored beside it, and all stored node hashes must follow from them.
 * 2. Positions must have no gap, the head must name the tree that results, and the checkpoint kept outside the store
 *    must be a prefix of it: otherwise the tail was cut off or history was rewritten.
 * 3. A record of the scope is verified when its entry is, its own hash can be recomputed, a thought links to the one
 *    before it in its task, and the row in the thoughts table says exactly the same.
 * 4. A thought row without an entry, and a position of the scope without an entry, each count as one broken record.
 *
 * Positions are 1-based and count the records of the scope in log order.
 */
const BATCH = 2_000
const MISSING = 'missing'

type Effect = Readonly<{ kind: string; subject?: string; hash?: string; body: Readonly<Record<string, Json>> }>
type BrokenLink = ChainReport['broken'][number]
type Trace = ChainReport['trace'][number]

export function createChainVerifier(deps: {
  log: Pick<LogStore, 'head' | 'entries'>
  trail: Pick<TrailStore, 'listThoughts'>
  checkpoints: Pick<CheckpointStore, 'read'>
  verifierKey: string
}): ChainVerifier {
  return async (unit, tenant, scope, options) => {
    const stored = await deps.log.head(unit, tenant)
    const note = await deps.checkpoints.read(tenant)
    const checkpoint = openOrUndefined(note, deps.verifierKey)
    const walk = createWalk(scope)
    const thoughts = createThoughtReader(deps.trail, unit, tenant, scope)
    let tree: TreeHead = emptyHead
    let checkpointRoot: string | undefined
    let firstBadSeq: number | null = null
    const bad = (seq: number) => {
      firstBadSeq ??= seq
    }
    for (let fromSeq = 0; ; ) {
      options.signal.throwIfAborted()
      const entries = await deps.log.entries(unit, tenant, fromSeq, BATCH)
      if (entries.length === 0) break
      for (const entry of entries) {
        for (; fromSeq < entry.seq; fromSeq++) {
          bad(fromSeq)
          walk.missingEntry(fromSeq)
          tree = appendLeaf(tree, Buffer.alloc(HASH_BYTES)).head
        }
        fromSeq = entry.seq + 1
        if (checkpoint !== undefined && checkpoint.size === tree.size)
          checkpointRoot = rootOf(tree.size, tree.peaks).toString('hex')
        const leaf = leafHash(entry.record)
        const storedLeaf = Buffer.from(
          entry.nodes.buffer,
          entry.nodes.byteOffset,
          Math.min(HASH_BYTES, entry.nodes.length),
        )
        const leafIntact = leaf.equals(storedLeaf)
        if (!leafIntact) bad(entry.seq)
        // After a bad leaf the tree goes on with the stored one, so that one damaged entry is reported once.
        const appended = appendLeaf(tree, leafIntact || storedLeaf.length < HASH_BYTES ? leaf : storedLeaf)
        if (leafIntact && Buffer.compare(appended.nodes, entry.nodes) !== 0) bad(entry.seq)
        tree = appended.head
        if (mayConcern(entry, scope, leafIntact)) await walk.entry(entry, leafIntact, leaf.toString('hex'), thoughts)
      }
      options.progress(fromSeq, stored.size)
      await new Promise((resolve) => setImmediate(resolve))
    }
    await walk.leftOver(thoughts)
    if (checkpoint !== undefined && checkpoint.size === tree.size)
      checkpointRoot = rootOf(tree.size, tree.peaks).toString('hex')
    const headIntact = stored.size === tree.size && stored.peaks.equals(tree.peaks)
    if (!headIntact) bad(Math.min(stored.size, tree.size))
    const checkpointState = judgeCheckpoint(note, checkpoint, checkpointRoot)
    if (checkpointState === 'mismatch' && firstBadSeq === null) bad(Math.min(checkpoint?.size ?? 0, tree.size))
    return walk.report({
      log: { size: tree.size, valid: firstBadSeq === null, first_bad_seq: firstBadSeq, checkpoint: checkpointState },
      tail:
        headIntact && checkpointState !== 'mismatch'
          ? undefined
          : {
              expectedHash: checkpoint?.root.toString('hex') ?? rootText(stored),
              actualHash: rootText(tree),
              lost: Math.max(checkpoint?.size ?? 0, stored.size) - tree.size,
            },
    })
  }
}

type OpenedCheckpoint = ReturnType<typeof openCheckpoint>

function judgeCheckpoint(note: string | undefined, opened: OpenedCheckpoint | undefined, rootThen: string | undefined) {
  if (note === undefined) return 'none'
  return opened !== undefined && opened.root.toString('hex') === rootThen ? 'matched' : 'mismatch'
}

function openOrUndefined(note: string | undefined, verifierKey: string): OpenedCheckpoint | undefined {
  if (note === undefined) return undefined
  try {
    return openCheckpoint(note, verifierKey)
  } catch (error) {
    if (error instanceof AppError) return undefined
    throw error
  }
}

const rootText = (head: { size: number; peaks: Buffer }): string => {
  try {
    return rootOf(head.size, head.peaks).toString('hex')
  } catch {
    return MISSING
  }
}

/**
 * A cheap test that never misses: the subject stands in the record's text, or the index says so, or the entry was altered
 * and nobody can tell any more.
 */
function mayConcern(entry: LogEntry, scope: RecordScope, leafIntact: boolean): boolean {
  if (entry.seq < scope.fromSeq || entry.seq >= scope.toSeq) return false
  return !leafIntact || entry.taskNumber !== null || entry.record.includes('"subject":"task:')
}

/** Hands out thought rows by their log position; what nobody asked for is left over. */
function createThoughtReader(
  trail: Pick<TrailStore, 'listThoughts'>,
  unit: ReadUnit,
  tenant: TenantId,
  scope: RecordScope,
) {
  const waiting = new Map<number, Thought[]>()
  const filter = {
    ...(scope.taskNumbers.size === 0 ? {} : { taskNumbers: [...scope.taskNumbers] }),
    fromSeq: scope.fromSeq,
    toSeq: scope.toSeq,
  }
  let offset = 0
  let finished = false
  let highestSeq = -1
  async function readMore(): Promise<void> {
    const page = await trail.listThoughts(unit, tenant, filter, { limit: BATCH, offset })
    offset += page.length
    finished = page.length < BATCH
    for (const thought of page) {
      highestSeq = Math.max(highestSeq, thought.logSeq)
      const others = waiting.get(thought.logSeq)
      if (others === undefined) waiting.set(thought.logSeq, [thought])
      else others.push(thought)
    }
  }
  return {
    async at(seq: number): Promise<Thought | undefined> {
      while (!finished && highestSeq < seq) await readMore()
      const found = waiting.get(seq)
      const first = found?.shift()
      if (found?.length === 0) waiting.delete(seq)
      return first
    },
    async rest(): Promise<Thought[]> {
      while (!finished) await readMore()
      return [...waiting.values()].flat().sort((a, b) => a.number - b.number)
    },
  }
}

type ThoughtReader = ReturnType<typeof createThoughtReader>

function createWalk(scope: RecordScope) {
  const broken: BrokenLink[] = []
  const trace: Trace[] = []
  const lastOfTask = new Map<string, { hash: string; position: number }>()
  let total = 0

  const fail = (expectedHash: string, actualHash: string, chainPosition: number | null = null) => {
    broken.push({ position: total, expectedHash, actualHash, chainPosition })
  }

  /** The first rule that a thought breaks, as expected and actual hash. */
  function checkThought(body: Readonly<Record<string, Json>>, row: Thought | undefined): [string, string] | undefined {
    const taskId = String(body['task_id'])
    const hash = String(body['hash'])
    const recomputed = thoughtHash({
      task_id: taskId,
      type: String(body['type']),
      content: String(body['content']),
      previous_hash: body['previous_hash'] as string | null,
      recorded_at: String(body['recorded_at']),
      recorded_by: String(body['recorded_by']),
    })
    const before = lastOfTask.get(taskId)
    lastOfTask.set(taskId, { hash, position: Number(body['chain_position']) })
    if (recomputed !== hash) return [hash, recomputed]
    if (before !== undefined && body['previous_hash'] !== before.hash)
      return [before.hash, String(body['previous_hash'])]
    if (before !== undefined && body['chain_position'] !== before.position + 1) return [hash, MISSING]
    if (row === undefined) return [hash, MISSING]
    const rowText = canonicalJson(thoughtBody(row))
    if (rowText === canonicalJson(body)) return undefined
    return [hash, row.hash === hash ? sha256Hex(rowText) : row.hash]
  }

  return {
    async entry(entry: LogEntry, leafIntact: boolean, leafText: string, thoughts: ThoughtReader): Promise<void> {
      const effect = trailEffect(entry)
      const taskNumber = effect === undefined ? entry.taskNumber : taskOf(effect)
      if (taskNumber === null ? leafIntact : !scope.taskNumbers.has(taskNumber)) return
      total++
      if (effect === undefined) {
        fail(entry.recordHash ?? MISSING, leafText)
        return
      }
      const body = effect.body
      const chainPosition = effect.kind === 'thought_recorded' ? Number(body['chain_position']) : null
      const row = effect.kind === 'thought_recorded' ? await thoughts.at(entry.seq) : undefined
      trace.push({
        position: total,
        kind: effect.kind,
        task_id: formatTaskId(taskOf(effect)),
        hash: effect.hash ?? '',
        log_seq: entry.seq,
      })
      const problem =
        effect.kind === 'thought_recorded'
          ? checkThought(body, row)
          : checkHash(effect.hash, sha256Hex(canonicalJson(body)))
      if (!leafIntact) fail(Buffer.from(entry.nodes.subarray(0, HASH_BYTES)).toString('hex'), leafText, chainPosition)
      else if (problem !== undefined) fail(...problem, chainPosition)
      else if (entry.recordHash !== effect.hash || entry.taskNumber !== taskOf(effect)) {
        fail(effect.hash ?? MISSING, entry.recordHash ?? MISSING, chainPosition)
      }
    },
    missingEntry(seq: number): void {
      if (seq < scope.fromSeq || seq >= scope.toSeq) return
      total++
      fail(`entry ${seq}`, MISSING)
    },
    async leftOver(thoughts: ThoughtReader): Promise<void> {
      for (const thought of await thoughts.rest()) {
        if (!scope.taskNumbers.has(thought.taskNumber)) continue
        total++
        fail(MISSING, thought.hash, thought.chainPosition)
      }
    },
    report({
      log,
      tail,
    }: {
      log: ChainReport['log']
      tail: { expectedHash: string; actualHash: string; lost: number } | undefined
    }): ChainReport {
      if (tail !== undefined) {
        total += Math.max(tail.lost, 1)
        fail(tail.expectedHash, tail.actualHash)
      }
      const lost = tail === undefined ? 0 : Math.max(tail.lost, 1) - 1
      const verified = total - broken.length - lost
      return {
        valid: broken.length === 0,
        totalRecords: total,
        integrityScore: total === 0 ? 100 : Math.round((verified / total) * 10_000) / 100,
        broken,
        trace,
        log,
      }
    },
  }
}

const checkHash = (expected: string | undefined, actual: string): [string, string] | undefined =>
  expected === actual ? undefined : [expected ?? MISSING, actual]

/** The trail record inside an entry; undefined when the text no longer holds one. */
function trailEffect(entry: LogEntry): Effect | undefined {
  try {
    const parsed = JSON.parse(entry.record) as { effects?: Effect[] }
    return parsed.effects?.find((effect) => effect.subject !== undefined)
  } catch {
    return undefined
  }
}

function taskOf(effect: Effect): number {
  const id = effect.body['task_id']
  return typeof id === 'string' ? (parseNumberedId('T', id) ?? -1) : -1
}
