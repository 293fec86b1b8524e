import type { Duplex } from 'node:stream'

const LINGER_MS = 10_000

/**
 * Joins two connections: each gets what the other sends, with back-pressure, and the end of each direction is forwarded. When one
 * side has closed, the other still gets the data on its way, unless the first was reset. A client that has received everything
 * and does not close is closed after `lingerMs`.
 */
export function joinStreams(client: Duplex, upstream: Duplex, lingerMs = LINGER_MS): void {
  for (const [one, other] of [
    [client, upstream],
    [upstream, client],
  ] as const) {
    one.pipe(other)
    one.on('error', () => one.destroy())
    one.once('close', () => {
      if (one.readableEnded && !other.writableFinished) other.end(() => other.destroy())
      else other.destroy()
    })
  }
  client.once('finish', () => {
    const timer = setTimeout(() => client.destroy(), lingerMs)
    client.once('close', () => clearTimeout(timer))
  })
}
