import { Pool } from 'undici'
import { createPlainPool } from './plain-pool.ts'
import type { UpstreamBounds, UpstreamPool } from './ports.ts'

/** The connections to all upstreams, by scheme, host and port. They are opened when the first request needs them. */
export function createUpstreamPools(bounds: UpstreamBounds): Readonly<{
  of(origin: string): UpstreamPool
  close(): Promise<void>
}> {
  const pools = new Map<string, UpstreamPool>()

  /** TLS is left to undici. */
  const open = (origin: string): UpstreamPool =>
    origin.startsWith('http:') ? createPlainPool(origin, bounds) : undiciPool(origin, bounds)

  return {
    of(origin) {
      const known = pools.get(origin)
      if (known !== undefined) return known
      const pool = open(origin)
      pools.set(origin, pool)
      return pool
    },
    async close() {
      await Promise.all([...pools.values()].map((pool) => pool.destroy()))
    },
  }
}

function undiciPool(origin: string, bounds: UpstreamBounds): UpstreamPool {
  const pool = new Pool(origin, {
    connections: bounds.connections,
    pipelining: 1,
    connect: { timeout: bounds.connectTimeoutMs },
    headersTimeout: bounds.answerTimeoutMs,
    bodyTimeout: bounds.idleTimeoutMs,
    keepAliveTimeout: bounds.keepAliveMs,
  })
  return {
    dispatch: ({ method, path, headers, body }, handler) =>
      void pool.dispatch({ method, path, headers: headers as string[], ...(body !== undefined && { body }) }, handler),
    destroy: () => pool.destroy(),
  }
}
