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

/** An entry with its record as the bytes that are hashed: what a verifier reads. */
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
  /** The position that the next entry of this transaction's tenant will take. */
  nextSeq(tx: WriteTx, tenant: TenantId): number
  /** Appends within the transaction; positions are gapless because a failed transaction gives its own back. */
  appendEntry(tx: WriteTx, tenant: TenantId, entry: NewLogEntry): Promise<void>
  head(tx: ReadTx, tenant: TenantId): Promise<LogHead>
  /** Entries from `fromSeq` in order, at most `limit`. */
  entries(tx: ReadTx, tenant: TenantId, fromSeq: number, limit: number): Promise<LogEntry[]>
  rawEntries(tx: ReadTx, tenant: TenantId, fromSeq: number, limit: number): Promise<RawLogEntry[]>
  /** The node columns of the given positions; a missing position is missing in the map. */
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

/** Signed checkpoints kept outside the store, so that a log cut short is noticed. */
export type CheckpointStore = Readonly<{
  read(tenant: TenantId): Promise<string | undefined>
  /** Replaces the note atomically and for good. */
  write(tenant: TenantId, note: string): Promise<void>
  /** Keeps a note that is about to be given up, under a name of its own; answers where. The note itself stays. */
  setAside(tenant: TenantId, note: string, name: string): Promise<string>
  /** Tenants that have a note, whether or not the store still knows them. */
  tenants(): Promise<TenantId[]>
}>

/**
 * What the store itself knows of the checkpoints that were kept beside it: that there was one, at this node. A store that
 * several machines share has rows of each, because each has checkpoints of its own.
 */
export type AnchorStore = Readonly<{
  /** The size that the log had when the first checkpoint was kept; undefined when none ever was. */
  find(tenant: TenantId): Promise<number | undefined>
  note(tenant: TenantId, size: number): Promise<void>
}>
