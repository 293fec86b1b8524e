import type { TenantId } from './principal.ts'
import type { ReadTx, WriteTx } from './tx.ts'

/**
 * The state, as the pipeline sees it.
 *
 * Transactions are taken in the order they were handed in. Those that arrive together share one commit: each runs alone,
 * one that throws is undone without touching its neighbours, and a promise resolves only after the commit is on disk.
 * A commit that fails rejects every promise in it with ERR_STORE_UNAVAILABLE, and nothing of it remains.
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
   * A write nobody waits for: kept in order with the others and committed with the next transaction, after
   * `delayMs`, or when enough have gathered, whichever comes first. A crash before that loses it.
   * When the store fails it is tried once more, perhaps after a commit of which nobody knows whether it happened: it
   * must not mind being run again.
   * Resolves at once, or, when too many wait, once there is room. `onTaken` is called before the first try, whatever
   * becomes of it: until then the caller may give `work` more to do.
   */
  writeSoon(tenant: TenantId, work: (tx: WriteTx) => Promise<void>, onTaken?: () => void): void | Promise<void>
  /** Resolves when everything handed in so far is committed. */
  flush(): Promise<void>
  schemaVersion: number
  /**
   * Grows with every commit that changed anything but the log, before anybody is told of the commit. Undefined where other
   * processes commit too: then nothing that was read may be kept.
   */
  dataVersion(): number | undefined
  /** What is wrong with the store at present, if anything. */
  problem(): string | undefined
  close(): Promise<void>
}>
