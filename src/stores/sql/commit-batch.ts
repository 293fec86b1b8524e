import { AppError } from '../../contract/app-error.ts'
import type { WriteTx } from '../../contract/tx.ts'
import { fault } from '../../kernel/fault.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { Session } from './statements.ts'
import { copyOfState, lockTenantHead, storeTenantHead, type TenantHead } from './tenant-head.ts'
import { writeTx } from './tx.ts'

/**
 * Several transactions in one commit.
 *
 * 1. A transaction that throws is rolled back alone, and its numbers are returned. Savepoints would slow every transaction for
 *    the sake of a rare one, so they come second: transactions run one after the other without them, and if one throws after it
 *    has touched the store, the whole batch is rolled back and run again, each inside a savepoint. Work may run twice.
 * 2. If the commit fails, every transaction in it is rejected and nothing of it remains. Only a store that fails during the
 *    commit can leave the outcome unknown, and then the error says so.
 * 3. The heads of all tenants of a batch are locked first and in one order, so that processes on a shared PostgreSQL database
 *    cannot deadlock.
 * 4. A transaction must touch only the store: it blocks all the others.
 */
export type WriteConnection = Session &
  Readonly<{
    /** `isAwaited`: a caller waits for the outcome, so the commit must be on disk when it returns. */
    begin(isAwaited: boolean): void | Promise<void>
    /** Throws unless the transaction is on disk, or committed and soon on disk if nobody waits for it. */
    commit(): void | Promise<void>
    rollback(): void | Promise<void>
    savepoint(): void | Promise<void>
    release(): void | Promise<void>
    rollbackToSavepoint(): void | Promise<void>
    traces: StoreTraces
  }>

/**
 * What a transaction has done to the store so far; reset before each. `hasChangedData` is of the whole batch: whether anything
 * but the log was written.
 */
export type StoreTraces = { hasWritten: boolean; hasFailed: boolean; hasChangedData: boolean }

export type Job = Readonly<{
  tenant: string
  work: (tx: WriteTx) => Promise<unknown>
  /** Absent if no caller waits for the outcome. */
  settle: ((error: unknown, value: unknown) => void) | undefined
  /** Called once, before the first attempt. */
  onTaken: (() => void) | undefined
  /** Set on the second attempt of a transaction that nobody waits for. */
  isRepeat?: true
}>

export type Outcome = Readonly<{ job: Job; error: unknown; value: unknown }>

type BatchResult = Readonly<{
  outcomes: readonly Outcome[]
  /** Undefined if there was nothing to commit, because the only transaction failed. */
  committed: boolean | undefined
}>

type BatchDeps = Readonly<{
  connect(): WriteConnection | Promise<WriteConnection>
  discard(connection: WriteConnection): void
  logger: Logger
}>

export async function commitBatch(deps: BatchDeps, batch: readonly Job[]): Promise<BatchResult> {
  const result = await tryBatch(deps, batch, false)
  return result ?? (await tryBatch(deps, batch, true))!
}

/**
 * Undefined if a transaction failed and could not be rolled back alone; then nothing of the batch remains. A step returns a
 * value or a promise, and only a promise is awaited: this keeps SQLite's path synchronous.
 */
async function tryBatch(deps: BatchDeps, batch: readonly Job[], guarded: boolean): Promise<BatchResult | undefined> {
  const outcomes: Outcome[] = []
  let connection: WriteConnection | undefined
  let committed = false
  try {
    const connecting = deps.connect()
    connection = connecting instanceof Promise ? await connecting : connecting
    fault('store.begin')
    const opened = connection.begin(batch.some(({ settle }) => settle !== undefined))
    if (opened !== undefined) await opened
    const heads = await lockHeads(connection, batch)
    for (const job of batch) {
      const outcome = await runJob(connection, heads.get(job.tenant)!, job, guarded)
      outcomes.push(outcome)
      const { hasWritten, hasFailed } = connection.traces
      if (guarded || !(hasFailed || (hasWritten && outcome.error !== undefined))) continue
      await connection.rollback()
      if (batch.length > 1) return undefined
      const error = outcome.error ?? new Error('a transaction continued after the store had failed')
      return { outcomes: [{ job, error, value: undefined }], committed: undefined }
    }
    for (const head of heads.values()) await storeTenantHead(connection, head)
    fault('store.commit.before')
    const committing = connection.commit()
    if (committing !== undefined) await committing
    committed = true
    fault('store.commit.after')
    return { outcomes, committed }
  } catch (cause) {
    deps.logger.error('commit failed', { transactions: batch.length, cause: String(cause) })
    if (connection !== undefined && !committed) await abandon(deps, connection)
    const failure = committed ? outcomeUnknown(cause) : commitFailed(cause)
    return {
      outcomes: batch.map((job, index) => ({ job, error: outcomes[index]?.error ?? failure, value: undefined })),
      committed: false,
    }
  }
}

/** For a commit with an unknown outcome. */
export const outcomeUnknown = (cause: unknown): AppError =>
  new AppError(
    'ERR_STORE_UNAVAILABLE',
    'The store failed during the commit. Check whether the change was made before you try again.',
    { outcome: 'unknown' },
    { cause },
  )

const commitFailed = (cause: unknown): AppError =>
  cause instanceof AppError
    ? cause
    : new AppError('ERR_STORE_UNAVAILABLE', 'The store could not commit; nothing was changed.', {}, { cause })

async function abandon(deps: BatchDeps, connection: WriteConnection): Promise<void> {
  try {
    await connection.rollback()
  } catch {
    // The connection may be lost, or SQLite may have rolled back by itself; both leave nothing behind.
  }
  deps.discard(connection)
}

async function lockHeads(connection: WriteConnection, batch: readonly Job[]): Promise<Map<string, TenantHead>> {
  const heads = new Map<string, TenantHead>()
  const tenants = new Set<string>()
  for (const job of batch) tenants.add(job.tenant)
  for (const tenant of tenants.size === 1 ? tenants : [...tenants].sort()) {
    heads.set(tenant, await lockTenantHead(connection, tenant))
  }
  return heads
}

/** Runs one transaction. An error of the work, or one that it swallowed, is its own; others end the batch. */
async function runJob(connection: WriteConnection, head: TenantHead, job: Job, guarded: boolean): Promise<Outcome> {
  const before = copyOfState(head.state)
  const changedBefore = head.changed
  connection.traces.hasWritten = false
  connection.traces.hasFailed = false
  if (guarded) {
    const saved = connection.savepoint()
    if (saved !== undefined) await saved
  }
  try {
    const value = await job.work(writeTx(connection, head))
    if (guarded) {
      const released = connection.release()
      if (released !== undefined) await released
    }
    return { job, error: undefined, value }
  } catch (error) {
    head.state = before
    head.changed = changedBefore
    if (guarded) {
      await connection.rollbackToSavepoint()
      await connection.release()
    }
    return { job, error: error ?? new Error('a transaction failed without a reason'), value: undefined }
  }
}
