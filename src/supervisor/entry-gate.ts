/**
 * Keeps commands out of a workspace while it is frozen: a process that enters then is frozen too, and with it the launcher, which
 * all other workspaces need.
 */
export type EntryGate = Readonly<{
  /** Waits while the gate is closed; `work` resolves when the command is inside. */
  enter<T>(work: () => Promise<T>): Promise<T>
  /** Waits for those who are on their way in, and keeps the others out until `work` is done. One at a time. */
  whileClosed<T>(work: () => Promise<T>): Promise<T>
}>

export function createEntryGate(): EntryGate {
  const entering = new Set<Promise<unknown>>()
  let closed: Promise<void> | undefined
  return {
    async enter(work) {
      while (closed !== undefined) await closed
      const entry = work()
      const settled = entry.then(
        () => {},
        () => {},
      )
      entering.add(settled)
      void settled.then(() => entering.delete(settled))
      return await entry
    },
    async whileClosed(work) {
      let reopen = (): void => {}
      closed = new Promise((resolve) => {
        reopen = resolve
      })
      try {
        await Promise.all(entering)
        return await work()
      } finally {
        closed = undefined
        reopen()
      }
    },
  }
}
