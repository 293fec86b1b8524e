import type { Duplex } from 'node:stream'

const LINGER_MS = 10_000

/**
 * Two connections become one: each gets what the other sends, at the pace it takes it, and the end of one direction
 * is passed on. When one side is gone the other gets what is still on its way, unless the first broke off. A client that
 * has all it will ever get, and does not hang up, is hung up on.
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
