import type { ReadTx, WriteTx } from '../../contract/tx.ts'

/** The latest recorded time. */
export type ClockFloorStore = Readonly<{
  find(tx: ReadTx): Promise<number | undefined>
  /** Never lowers it. */
  raise(tx: WriteTx, atMs: number): Promise<void>
  reset(tx: WriteTx, atMs: number): Promise<void>
}>
