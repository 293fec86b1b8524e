/**
 * Keeps commands out of a workspace while it is frozen. A process that entered then would freeze as well, and with it the
 * launcher, which every other workspace needs.
 */
export type EntryGate = Readonly<{
  /** Waits until the gate is open. `work` must resolve once the command is inside. */
  enter<T>(work: () => Promise<T>): Promise<T>
  /** Waits for commands that are entering, and keeps the gate closed until `work` is done. Only one caller at a time. */
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
