import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { WriteUnit } from '../../contract/unit.ts'
import type { Clock } from '../../kernel/clock.ts'
import { fault } from '../../kernel/fault.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { Session } from './statements.ts'
import { lockTenantHead, storeTenantHead, type TenantHead } from './tenant-head.ts'
import { writeUnit } from './units.ts'

/**
 * One writer, many transactions per commit.
 *
 * 1. Transactions run one after another, in the order they were handed in, each inside a savepoint: one that throws is
 *    undone alone.
 * 2. A promise resolves only after the commit that holds its transaction is on disk.
 * 3. When a commit fails, every transaction in it is rejected and nothing of it remains.
 * 4. The heads of all tenants of a batch are locked first and in one order, so that processes sharing a PostgreSQL
 *    database cannot wait for each other in a circle.
 * 5. A transaction must only touch the store: it holds up all the others.
 */
export type WriteConnection = Session &
  Readonly<{
    begin(): void | Promise<void>
    commit(): void | Promise<void>
    rollback(): void | Promise<void>
    savepoint(): void | Promise<void>
    release(): void | Promise<void>
    rollbackToSavepoint(): void | Promise<void>
  }>

export type GroupCommit = Readonly<{
  write<T>(tenant: string, work: (unit: WriteUnit) => Promise<T>): Promise<T>
  writeSoon(tenant: string, work: (unit: WriteUnit) => Promise<void>): void | Promise<void>
  flush(): Promise<void>
  problem(): string | undefined
}>

type Job = {
  readonly tenant: string
  readonly work: (unit: WriteUnit) => Promise<unknown>
  readonly settle: ((error: unknown, value: unknown) => void) | undefined
}

type Outcome = { readonly job: Job; error: unknown; value: unknown }

/** While a burst is under way, waiting this long for its rest makes fewer and larger commits. */
const GATHER_MS_MAX = 0.3
const GATHER_QUIET_MS = 0.08

export function createGroupCommit(deps: {
  /** The connection for the next batch; throws when the store cannot be reached. */
  connect(): WriteConnection | Promise<WriteConnection>
  /** Told when a batch failed on a connection, so that a broken one is not used again. */
  discard(connection: WriteConnection): void
  clock: Clock
  logger: Logger
}): GroupCommit {
  const { clock, logger } = deps
  let queue: Job[] = []
  let urgentCount = 0
  let running = false
  let immediate = false
  let timer: NodeJS.Timeout | undefined
  let lastBatchSize = 0
  let firstArrivalMs = 0
  let lastArrivalMs = 0
  let problem: string | undefined
  let idleWaiters: (() => void)[] = []
  let roomWaiters: (() => void)[] = []

  function enqueue(job: Job): void {
    const now = clock.monotonicMs()
    if (queue.length === 0) firstArrivalMs = now
    lastArrivalMs = now
    queue.push(job)
    if (job.settle !== undefined) urgentCount++
    schedule()
  }

  function schedule(): void {
    if (running || immediate || queue.length === 0) return
    if (urgentCount > 0 || queue.length >= limits.readRecordsBatchMax || idleWaiters.length > 0) {
      immediate = true
      setImmediate(tick)
    } else if (timer === undefined) {
      timer = setTimeout(() => {
        timer = undefined
        if (!running && !immediate && queue.length > 0) void runBatches()
      }, limits.readRecordDelayMs)
    }
  }

  function tick(): void {
    const now = clock.monotonicMs()
    const burst = lastBatchSize > 1 && queue.length < lastBatchSize
    if (burst && now - firstArrivalMs < GATHER_MS_MAX && now - lastArrivalMs < GATHER_QUIET_MS) {
      setImmediate(tick)
      return
    }
    immediate = false
    void runBatches()
  }

  async function runBatches(): Promise<void> {
    running = true
    if (timer !== undefined) {
      clearTimeout(timer)
      timer = undefined
    }
    const batch = takeBatch()
    const outcomes = await runBatch(batch)
    for (const { job, error, value } of outcomes) job.settle?.(error, value)
    running = false
    firstArrivalMs = clock.monotonicMs()
    if (queue.length === 0) {
      for (const resolve of idleWaiters) resolve()
      idleWaiters = []
    }
    if (queue.length < limits.readRecordsPendingMax && roomWaiters.length > 0) {
      for (const resolve of roomWaiters) resolve()
      roomWaiters = []
    }
    schedule()
  }

  function takeBatch(): Job[] {
    let count = 0
    let soonCount = 0
    while (count < queue.length && count < limits.commitBatchMax && soonCount < limits.readRecordsBatchMax) {
      if (queue[count]!.settle === undefined) soonCount++
      else urgentCount--
      count++
    }
    const batch = queue.slice(0, count)
    queue = queue.slice(count)
    lastBatchSize = count - soonCount
    return batch
  }

  async function runBatch(batch: readonly Job[]): Promise<Outcome[]> {
    const outcomes: Outcome[] = []
    let connection: WriteConnection | undefined
    try {
      connection = await deps.connect()
      fault('store.begin')
      await connection.begin()
      const heads = await lockHeads(connection, batch)
      for (const job of batch) {
        outcomes.push(await runJob(connection, heads.get(job.tenant)!, job, batch.length > 1))
        if (batch.length === 1 && outcomes[0]!.error !== undefined) {
          await connection.rollback()
          return outcomes
        }
      }
      for (const head of heads.values()) await storeTenantHead(connection, head)
      fault('store.commit.before')
      await connection.commit()
      fault('store.commit.after')
      problem = undefined
      return outcomes
    } catch (cause) {
      return await failBatch(batch, outcomes, connection, cause)
    }
  }

  async function failBatch(
    batch: readonly Job[],
    outcomes: readonly Outcome[],
    connection: WriteConnection | undefined,
    cause: unknown,
  ): Promise<Outcome[]> {
    problem = 'The last commit failed; see the server log.'
    logger.error('a commit failed and was undone', { transactions: batch.length, cause: String(cause) })
    try {
      await connection?.rollback()
    } catch {
      // The connection may be gone, or SQLite may have rolled back by itself; both leave nothing behind.
    }
    if (connection !== undefined) deps.discard(connection)
    return batch.map((job, index) => {
      const earlier = outcomes[index]?.error
      const error = new AppError(
        'ERR_STORE_UNAVAILABLE',
        'The store could not commit; nothing was changed.',
        {},
        { cause },
      )
      return { job, error: earlier ?? error, value: undefined }
    })
  }

  return {
    write<T>(tenant: string, work: (unit: WriteUnit) => Promise<T>): Promise<T> {
      if (urgentCount >= limits.writeQueueMax) {
        return Promise.reject(new AppError('ERR_BUSY', 'Too many writes wait for the disk.', { retry_after_ms: 100 }))
      }
      return new Promise<T>((resolve, reject) => {
        enqueue({
          tenant,
          work,
          settle: (error, value) => (error === undefined ? resolve(value as T) : reject(error)),
        })
      })
    },
    writeSoon(tenant, work) {
      enqueue({ tenant, work, settle: undefined })
      if (queue.length < limits.readRecordsPendingMax) return undefined
      return new Promise((resolve) => roomWaiters.push(resolve))
    },
    flush() {
      if (queue.length === 0 && !running) return Promise.resolve()
      return new Promise((resolve) => {
        idleWaiters.push(resolve)
        schedule()
      })
    },
    problem: () => problem,
  }
}

async function lockHeads(connection: WriteConnection, batch: readonly Job[]): Promise<Map<string, TenantHead>> {
  const heads = new Map<string, TenantHead>()
  for (const tenant of [...new Set(batch.map((job) => job.tenant))].sort()) {
    heads.set(tenant, await lockTenantHead(connection, tenant))
  }
  return heads
}

/** Runs one transaction. Errors of the savepoint statements themselves end the batch; errors of the work do not. */
async function runJob(connection: WriteConnection, head: TenantHead, job: Job, guarded: boolean): Promise<Outcome> {
  const before = { ...head.state }
  const changedBefore = head.changed
  if (guarded) await connection.savepoint()
  let outcome: Outcome
  try {
    const value = await job.work(writeUnit(connection, head))
    outcome = { job, error: undefined, value }
  } catch (error) {
    head.state = before
    head.changed = changedBefore
    if (guarded) await connection.rollbackToSavepoint()
    outcome = { job, error: error ?? new Error('a transaction failed without a reason'), value: undefined }
  }
  if (guarded) await connection.release()
  return outcome
}
