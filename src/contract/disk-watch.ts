/** What is free, and how much must be before more is taken. */
export type DiskShortage = Readonly<{ free: number; needed: number }>

/** Whether the disk of the state has space for more. */
export type DiskWatch = Readonly<{
  /** Undefined when there is room. */
  shortage(): DiskShortage | undefined | Promise<DiskShortage | undefined>
}>
