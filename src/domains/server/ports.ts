import type { ReadUnit, WriteUnit } from '../../contract/unit.ts'

/** How late it has been, as far as anybody noted it. */
export type ClockFloorStore = Readonly<{
  find(unit: ReadUnit): Promise<number | undefined>
  /** Never lowers it. */
  raise(unit: WriteUnit, atMs: number): Promise<void>
  reset(unit: WriteUnit, atMs: number): Promise<void>
}>
