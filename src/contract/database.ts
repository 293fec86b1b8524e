import type { TenantId } from './principal.ts'
import type { ReadTx, WriteTx } from './tx.ts'

/**
 * The state, as the pipeline sees it. Transactions run in the order of their submission. Those that arrive together share one
 * commit: each runs alone, one that throws is rolled back without affecting the others, and a promise resolves only after the
 * commit is on disk. A failed commit rejects every promise in it with ERR_STORE_UNAVAILABLE, and nothing of it remains.
 */
export type Database = Readonly<{
  kind: 'sqlite' | 'postgres'
  /** For people: a path or an address, without credentials. */
  location: string
  /** Committed state; each statement sees the newest. */
  read: ReadTx
  /** Many reads of one instant, off the write path. */
  snapshot<T>(work: (tx: ReadTx) => Promise<T>): Promise<T>
  write<T>(tenant: TenantId, work: (tx: WriteTx) => Promise<T>): Promise<T>
  /**
   * A write that nobody waits for. It keeps its order among the others and is committed with the next transaction, after
   * a delay, or when enough writes have gathered, whichever comes first. A crash before that loses it. If the store fails, the
   * write is retried once, perhaps after a commit with an unknown outcome, so it must be idempotent. Resolves at once, or, if too
   * many writes are pending, when there is capacity. `onTaken` is called before the first attempt, whatever its outcome; until
   * then the caller may add to `work`.
   */
  writeSoon(tenant: TenantId, work: (tx: WriteTx) => Promise<void>, onTaken?: () => void): void | Promise<void>
  /** Resolves when everything submitted so far is committed. */
  flush(): Promise<void>
  /**
   * Resolves when everything committed so far is on disk; rejects if that failed. Only a commit of `writeSoon` alone can be
   * committed and not yet on disk. What leaves the store for good, such as a signature over its content, waits for this.
   */
  synced(): Promise<void>
  schemaVersion: number
  /**
   * Grows with every commit that changed anything but the log, before any caller learns of the commit. Undefined if other
   * processes commit too: then nothing that was read may be cached.
   */
  dataVersion(): number | undefined
  /** The present problem of the store, if any. */
  problem(): string | undefined
  close(): Promise<void>
}>
