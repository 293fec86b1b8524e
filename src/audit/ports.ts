import type { TenantId } from '../contract/principal.ts'
import type { ReadTx, WriteTx } from '../contract/tx.ts'

export type LogHead = Readonly<{ size: number; peaks: Buffer }>

export type LogEntry = Readonly<{
  seq: number
  record: string
  nodes: Uint8Array
  taskNumber: number | null
  recordHash: string | null
}>

/** An entry whose record is the hashed bytes: what a verifier reads. */
export type RawLogEntry = Readonly<Omit<LogEntry, 'record'> & { record: Uint8Array }>

export type NewLogEntry = Readonly<{
  atMs: number
  record: string
  /** Set for an entry that is a trail record of a task. */
  taskNumber: number | null
  recordHash: string | null
}>

/** One append-only log per tenant. Entries are never changed or removed. */
export type LogStore = Readonly<{
  /** The position of the next entry in this transaction. */
  nextSeq(tx: WriteTx, tenant: TenantId): number
  /** Appends within the transaction; positions have no gaps because a failed transaction returns its own. */
  appendEntry(tx: WriteTx, tenant: TenantId, entry: NewLogEntry): Promise<void>
  head(tx: ReadTx, tenant: TenantId): Promise<LogHead>
  /** Entries from `fromSeq` in order, at most `limit`. */
  entries(tx: ReadTx, tenant: TenantId, fromSeq: number, limit: number): Promise<LogEntry[]>
  rawEntries(tx: ReadTx, tenant: TenantId, fromSeq: number, limit: number): Promise<RawLogEntry[]>
  /** The node columns of these positions; a missing position is missing in the map. */
  nodes(tx: ReadTx, tenant: TenantId, seqs: readonly number[]): Promise<Map<number, Uint8Array>>
  /** Hashes of the trail records of one task in `[fromSeq, toSeq)`, with their positions. */
  trailRecords(
    tx: ReadTx,
    tenant: TenantId,
    taskNumber: number,
    range: { fromSeq: number; toSeq: number },
  ): Promise<{ seq: number; hash: string; atMs: number }[]>
  /** Tenants that have a log. The only method across tenants: background checkpoints and the checker need it. */
  tenants(tx: ReadTx): Promise<TenantId[]>
}>

/** Signed checkpoints stored outside the store, so that a truncated log is noticed. */
export type CheckpointStore = Readonly<{
  read(tenant: TenantId): Promise<string | undefined>
  /** Replaces the note atomically and durably. */
  write(tenant: TenantId, note: string): Promise<void>
  /** Stores a note that is about to be abandoned under a separate name; returns the path. The note itself stays. */
  setAside(tenant: TenantId, note: string, name: string): Promise<string>
  /** Tenants that have a note, even if the store no longer knows them. */
  tenants(): Promise<TenantId[]>
}>

/**
 * The store's own record of the checkpoints beside it: that there was one, at this node. A store that several machines share has
 * rows of each, because each has its own checkpoints.
 */
export type AnchorStore = Readonly<{
  /** The size of the log when the first checkpoint was stored; undefined if there never was one. */
  find(tenant: TenantId): Promise<number | undefined>
  note(tenant: TenantId, size: number): Promise<void>
}>
