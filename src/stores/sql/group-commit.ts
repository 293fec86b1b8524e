import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { WriteTx } from '../../contract/tx.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import { commitBatch, type Job, type Outcome, type WriteConnection } from './commit-batch.ts'

/**
 * One writer, many transactions per commit: which transactions go into which commit. `commit-batch.ts` makes the commit.
 *
 * 1. Transactions are taken in the order of submission; urgent ones at once, the others with them or after a delay.
 * 2. During a burst, a short wait for the rest makes fewer and larger commits.
 * 3. A promise settles only after the commit of its transaction succeeded or failed.
 * 4. A transaction that nobody waits for is retried once if the store fails; it must be idempotent.
 * 5. Once closing, nothing new is accepted; what was accepted before is committed.
 */
type GroupCommit = Readonly<{
  write<T>(tenant: string, work: (tx: WriteTx) => Promise<T>): Promise<T>
  writeSoon(tenant: string, work: (tx: WriteTx) => Promise<void>, onTaken?: () => void): void | Promise<void>
  /** Resolves when every transaction submitted so far is settled, however many are submitted meanwhile. */
  flush(): Promise<void>
  /** Refuses new transactions, and resolves when the others are settled. */
  close(): Promise<void>
  problem(): string | undefined
}>

/**
 * During a burst, waiting for the rest makes fewer and larger commits. The cost of a commit limits the wait: half of it
 * altogether, and a tenth without a newcomer, within these bounds.
 */
const GATHER_MS = { min: 0.3, max: 2 }
const GATHER_QUIET_MS = { min: 0.08, max: 0.4 }
const within = (value: number, { min, max }: { min: number; max: number }): number =>
  Math.min(max, Math.max(min, value))

export function createGroupCommit(deps: {
  /** The connection for the next batch; throws when the store cannot be reached. */
  connect(): WriteConnection | Promise<WriteConnection>
  /** Called when a batch failed on a connection, so that a broken one is not used again. */
  discard(connection: WriteConnection): void
  clock: Clock
  logger: Logger
}): GroupCommit {
  const { clock } = deps
  let queue: Job[] = []
  let urgentCount = 0
  let takenCount = 0
  let settledCount = 0
  let running = false
  let immediate = false
  let closing = false
  let timer: NodeJS.Timeout | undefined
  let burstSize = 0
  let commitMs = 0
  let firstArrivalMs = 0
  let lastArrivalMs = 0
  let problem: string | undefined
  let flushWaiters: { settled: number; resolve(): void }[] = []
  let spaceWaiters: (() => void)[] = []

  function enqueue(job: Job): void {
    const now = clock.monotonicMs()
    if (queue.length === 0) firstArrivalMs = now
    lastArrivalMs = now
    queue.push(job)
    takenCount++
    if (job.settle !== undefined) urgentCount++
    schedule()
  }

  function schedule(): void {
    if (running || immediate || queue.length === 0) return
    if (urgentCount > 0 || queue.length >= limits.readRecordsBatchMax || flushWaiters.length > 0) {
      immediate = true
      setImmediate(tick)
    } else if (timer === undefined) {
      timer = setTimeout(() => {
        timer = undefined
        if (!running && !immediate && queue.length > 0) void runNextBatch()
      }, limits.readRecordDelayMs)
    }
  }

  function tick(): void {
    const now = clock.monotonicMs()
    const gathers = burstSize > 1 && queue.length < burstSize
    if (
      gathers &&
      now - firstArrivalMs < within(commitMs / 2, GATHER_MS) &&
      now - lastArrivalMs < within(commitMs / 10, GATHER_QUIET_MS)
    ) {
      setImmediate(tick)
      return
    }
    immediate = false
    void runNextBatch()
  }

  async function runNextBatch(): Promise<void> {
    running = true
    if (timer !== undefined) {
      clearTimeout(timer)
      timer = undefined
    }
    const batch = takeBatch()
    const startedMs = clock.monotonicMs()
    const result = await commitBatch(deps, batch)
    commitMs = clock.monotonicMs() - startedMs
    if (result.committed !== undefined) {
      problem = result.committed ? undefined : 'The last commit failed; see the server log.'
    }
    // All waiters are notified in one turn, so that their next work gathers into one batch again.
    for (const { job, error, value } of result.outcomes) job.settle?.(error, value)
    settledCount += batch.length - putBack(result.outcomes)
    running = false
    firstArrivalMs = clock.monotonicMs()
    wakeWaiters()
    schedule()
  }

  /** Transactions that nobody waits for are retried once, at their old position, if the store failed; returns how many. */
  function putBack(outcomes: readonly Outcome[]): number {
    const repeats: Job[] = []
    for (const { job, error } of outcomes) {
      if (error === undefined || job.settle !== undefined) continue
      const { tenant, work, settle, isRepeat } = job
      if (isRepeat === undefined && isStoreFailure(error))
        repeats.push({ tenant, work, settle, onTaken: undefined, isRepeat: true })
      else deps.logger.error('record of an answered call could not be written', { tenant, cause: String(error) })
    }
    if (repeats.length > 0) queue = [...repeats, ...queue]
    return repeats.length
  }

  function wakeWaiters(): void {
    if (flushWaiters.length > 0) {
      for (const waiter of flushWaiters) if (waiter.settled <= settledCount) waiter.resolve()
      flushWaiters = flushWaiters.filter((waiter) => waiter.settled > settledCount)
    }
    if (spaceWaiters.length > 0 && queue.length < limits.readRecordsPendingMax) {
      for (const resolve of spaceWaiters) resolve()
      spaceWaiters = []
    }
  }

  function takeBatch(): Job[] {
    let count = 0
    let soonCount = 0
    while (count < queue.length && count < limits.commitBatchMax && soonCount < limits.readRecordsBatchMax) {
      const { settle, onTaken } = queue[count]!
      if (settle === undefined) soonCount++
      onTaken?.()
      count++
    }
    urgentCount -= count - soonCount
    // One small batch does not end the burst; several do.
    burstSize = Math.max(count - soonCount, Math.floor(burstSize * 0.75))
    if (count === queue.length) {
      const whole = queue
      queue = []
      return whole
    }
    const batch = queue.slice(0, count)
    queue = queue.slice(count)
    return batch
  }

  function flush(): Promise<void> {
    if (settledCount === takenCount) return Promise.resolve()
    return new Promise((resolve) => {
      flushWaiters.push({ settled: takenCount, resolve })
      schedule()
    })
  }

  return {
    write<T>(tenant: string, work: (tx: WriteTx) => Promise<T>): Promise<T> {
      if (closing) return Promise.reject(storeClosed())
      if (urgentCount >= limits.writeQueueMax) {
        return Promise.reject(new AppError('ERR_BUSY', 'Too many writes wait for the disk.', { retry_after_ms: 100 }))
      }
      return new Promise<T>((resolve, reject) => {
        enqueue({
          tenant,
          work,
          onTaken: undefined,
          settle: (error, value) => (error === undefined ? resolve(value as T) : reject(error)),
        })
      })
    },
    writeSoon(tenant, work, onTaken) {
      if (closing) return Promise.reject(storeClosed())
      enqueue({ tenant, work, settle: undefined, onTaken })
      if (queue.length < limits.readRecordsPendingMax) return undefined
      return new Promise((resolve) => spaceWaiters.push(resolve))
    },
    flush,
    close() {
      closing = true
      return flush()
    },
    problem: () => problem,
  }
}

const isStoreFailure = (error: unknown): boolean => error instanceof AppError && error.code === 'ERR_STORE_UNAVAILABLE'
const storeClosed = () => new AppError('ERR_SHUTTING_DOWN', 'The store is closed: the server is shutting down.')
