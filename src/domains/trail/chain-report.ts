import type { DistrustedRange } from '../../audit/stored-tree.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { AuditSession } from './ports.ts'

/** The records of these tasks in `[fromSeq, toSeq)` of the log. */
export type RecordScope = Readonly<{ tasks: ReadonlySet<number> | 'all'; fromSeq: number; toSeq: number }>

export const inScope = (scope: RecordScope, taskNumber: number): boolean =>
  scope.tasks === 'all' || scope.tasks.has(taskNumber)

/**
 * A record or anchor that does not verify. `expectedHash` comes from the record, the log or the checkpoint; `actualHash` is the
 * hash found. Each is `missing` or `unknown` if there is no hash.
 */
type BrokenLink = Readonly<{
  position: number
  expectedHash: string
  actualHash: string
  /** `thought`: with its position in its task's chain. `anchor`: the head, the checkpoint or the session, not a single record. */
  what: 'thought' | 'task' | 'unknown' | 'anchor'
  chainPosition: number | null
}>

export const MISSING = 'missing'
export const UNKNOWN = 'unknown'

export type TracedRecord = Readonly<{ position: number; kind: string; task_id: string; hash: string; log_seq: number }>

export type ChainReport = Readonly<{
  valid: boolean
  totalRecords: number
  /** 100 × verified ÷ total, not rounded: it is 100 only if nothing is broken. */
  integrityScore: number
  /** By position. If there are very many, only the first. */
  broken: readonly BrokenLink[]
  brokenCount: number
  trace: readonly TracedRecord[]
  log: Readonly<{
    size: number
    valid: boolean
    first_bad_seq: number | null
    checkpoint: 'matched' | 'mismatch' | 'none'
  }>
}>

export type VerifyOptions = Readonly<{
  /** Also compares the session's row with the log; `whole` if the scope is all that the session covers. */
  session?: Readonly<{ row: AuditSession; whole: boolean }>
  /** Also compares the rows of the scope's tasks with the log. */
  withTaskRows?: true
  /** How many records to list with their hashes. */
  traceMax: number
  signal: AbortSignal
  progress(done: number, total: number): void
}>

/**
 * Reads the checkpoint, then returns the verifier. The order matters: a checkpoint that is signed after the snapshot began is
 * ahead of it, and would look like a truncated log.
 */
export type ChainVerifier = (
  tenant: TenantId,
) => Promise<(tx: ReadTx, scope: RecordScope, options: VerifyOptions) => Promise<ChainReport>>

/** Further ones are counted, not listed, because an answer is bounded. */
export const BROKEN_LINKS_MAX = 5_000

/** Collects the verdict on each record. Positions are 1-based and count the records of the scope in log order. */
export function createTally() {
  const broken: BrokenLink[] = []
  const good: GoodRecord[] = []
  const brokenSeqs: number[] = []
  let total = 0
  let brokenCount = 0

  function fail(link: Omit<BrokenLink, 'position'>, position: number): void {
    brokenCount++
    if (broken.length < BROKEN_LINKS_MAX) broken.push({ position, ...link })
  }

  return {
    /** `hasRow`: a row outside the log confirms the record. */
    good(seq: number, hasRow: boolean): void {
      good.push({ seq, position: ++total, hasRow })
    },
    bad(link: Omit<BrokenLink, 'position'>, seq?: number): void {
      total++
      if (seq !== undefined) brokenSeqs.push(seq)
      fail(link, total)
    },
    /** Counts all of them, but creates only as many entries as are listed. */
    badRun(link: Omit<BrokenLink, 'position'>, count: number): void {
      const listed = Math.min(count, Math.max(0, BROKEN_LINKS_MAX - broken.length))
      for (let index = 1; index <= listed; index++) broken.push({ position: total + index, ...link })
      brokenCount += count
      total += count
    },
    /**
     * Revokes the verdict on the good records of a range in which the tree does not verify, unless a known broken record explains
     * it. Records that only the log confirms are revoked first. Returns whether the range concerns the scope at all.
     */
    distrust({ from, to, expectedHash = MISSING, actualHash }: DistrustedRange): boolean {
      const isInside = (seq: number) => seq >= from && seq < to
      if (brokenSeqs.some(isInside)) return true
      const inside = good.filter(({ seq }) => isInside(seq))
      const alone = inside.filter(({ hasRow }) => !hasRow)
      for (const { seq, position } of alone.length > 0 ? alone : inside) {
        fail({ expectedHash, actualHash, what: 'unknown', chainPosition: null }, position)
        brokenSeqs.push(seq)
      }
      return inside.length > 0
    },
    total: () => total,
    brokenCount: () => brokenCount,
    summary: () => ({
      valid: brokenCount === 0,
      totalRecords: total,
      integrityScore: total === 0 ? 100 : (100 * (total - brokenCount)) / total,
      broken: broken.sort((left, right) => left.position - right.position),
      brokenCount,
    }),
  }
}

type GoodRecord = Readonly<{ seq: number; position: number; hasRow: boolean }>
export type Tally = ReturnType<typeof createTally>
