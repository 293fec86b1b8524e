/** Callers that ask for the same key while its work is in progress share the work and its outcome. */
type SingleFlight<T> = Readonly<{
  run(key: string, work: () => Promise<T>): Promise<T>
  /** The work in progress for the key, if there is any. */
  pending(key: string): Promise<T> | undefined
  /** Resolves once all work that is in progress now has ended, whether it succeeded or failed. */
  settled(): Promise<void>
  /** The next caller of each key starts anew; those who wait already get what they wait for. */
  forgetAll(): void
}>

export function createSingleFlight<T>(): SingleFlight<T> {
  const flights = new Map<string, Promise<T>>()
  return {
    run(key, work) {
      const pending = flights.get(key)
      if (pending !== undefined) return pending
      const flight = work().finally(() => {
        if (flights.get(key) === flight) flights.delete(key)
      })
      flights.set(key, flight)
      return flight
    },
    pending: (key) => flights.get(key),
    async settled() {
      await Promise.allSettled(flights.values())
    },
    forgetAll() {
      flights.clear()
    },
  }
}
