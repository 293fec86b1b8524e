/** Whether the disk that the state is on has room for more. */
export type DiskWatch = Readonly<{
  /** Undefined when there is room; otherwise what is free, and how much must be before more is taken. */
  shortage(): Promise<Readonly<{ free: number; needed: number }> | undefined>
}>
