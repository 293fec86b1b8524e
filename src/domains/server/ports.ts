import type { ReadTx, WriteTx } from '../../contract/tx.ts'

/** How late it has been, as far as anybody noted it. */
export type ClockFloorStore = Readonly<{
  find(tx: ReadTx): Promise<number | undefined>
  /** Never lowers it. */
  raise(tx: WriteTx, atMs: number): Promise<void>
  reset(tx: WriteTx, atMs: number): Promise<void>
}>
