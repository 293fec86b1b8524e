import { AppError } from '../contract/app-error.ts'
import type { CallingClient } from '../contract/calling-client.ts'
import { limits } from '../contract/limits.ts'
import type { UpstreamAddress } from '../domains/mcp-servers/runtime.ts'
import { type ClientLink, createClientLink } from './client-link.ts'
import type { Connection } from './handshake.ts'
import type { Instance } from './instance.ts'

type OwnConnectionDeps = Readonly<{
  /** `onStopped` is called when the connection is closed because nobody needs it. */
  open(key: string, at: UpstreamAddress, clientLink: ClientLink, onStopped: () => void): Instance
  forget(key: string): void
}>

type Slot = {
  readonly key: string
  readonly owner: string
  readonly instance: Instance
  readonly clientLink: ClientLink
  readonly pool: Pool
  inUse: number
}
type Pool = { readonly key: string; readonly slots: Set<Slot>; readonly waiting: (() => void)[]; made: number }

/**
 * Connections that a client does not share, because the server may ask the client questions.
 * 1. A session has one connection to each server. Without a session, a connection serves one call at a time, and a client has a
 *    few.
 * 2. Connections end with their session, and when they are idle.
 * 3. A caller has a bounded number of connections. At the bound, its own idle ones are closed.
 */
export function createOwnConnections(deps: OwnConnectionDeps) {
  const pools = new Map<string, Pool>()
  const byOwner = new Map<string, Set<Slot>>()

  function forget(slot: Slot): void {
    const { pool, owner, key } = slot
    if (!pool.slots.delete(slot)) return
    if (pool.slots.size === 0 && pool.waiting.length === 0) pools.delete(pool.key)
    const own = byOwner.get(owner)
    own?.delete(slot)
    if (own?.size === 0) byOwner.delete(owner)
    deps.forget(key)
  }

  function makeSpace(owner: string): void {
    const own = byOwner.get(owner)
    if (own === undefined || own.size < limits.mcpConnectionsPerCallerMax) return
    const idle = [...own].filter(({ inUse }) => inUse === 0)
    const first = idle.find(({ instance }) => !instance.isOpen()) ?? idle[0]
    if (first === undefined) {
      const message = `You have reached the limit of ${own.size} connections to MCP servers that can ask your clients for input. Close a client, then call again.`
      throw new AppError('ERR_BUSY', message, { retry_after_ms: 1_000 })
    }
    forget(first)
    void first.instance.stop()
  }

  function addSlot(pool: Pool, at: UpstreamAddress, client: CallingClient): Slot {
    makeSpace(client.owner)
    const key = `${pool.key}#${pool.made++}`
    const clientLink = createClientLink(client.capabilities)
    const onStopped = (): void => {
      if (slot.inUse === 0) forget(slot)
    }
    const slot: Slot = {
      key,
      owner: client.owner,
      clientLink,
      pool,
      inUse: 0,
      instance: deps.open(key, at, clientLink, onStopped),
    }
    pool.slots.add(slot)
    const own = byOwner.get(client.owner)
    if (own === undefined) byOwner.set(client.owner, new Set([slot]))
    else own.add(slot)
    client.ended?.addEventListener('abort', () => {
      forget(slot)
      void slot.instance.stop()
    })
    return slot
  }

  async function take(at: UpstreamAddress, client: CallingClient, signal: AbortSignal): Promise<Slot> {
    const key = [at.deploymentId, at.caller ?? '', client.id].join('#')
    let pool = pools.get(key)
    if (pool === undefined) {
      pool = { key, slots: new Set(), waiting: [], made: 0 }
      pools.set(key, pool)
    }
    for (;;) {
      if (signal.aborted || client.ended?.aborted) throw new AppError('ERR_CANCELLED', 'The call was cancelled.')
      const free = [...pool.slots].find(({ inUse }) => client.isSession || inUse === 0)
      const max = client.isSession ? 1 : limits.mcpConnectionsPerClientMax
      if (free !== undefined || pool.slots.size < max) {
        const slot = free ?? addSlot(pool, at, client)
        slot.inUse++
        return slot
      }
      await turnIn(pool, signal)
    }
  }

  return {
    async use<T>(
      at: UpstreamAddress,
      client: CallingClient,
      signal: AbortSignal,
      work: (connection: Connection, clientLink: ClientLink) => Promise<T>,
    ): Promise<T> {
      const slot = await take(at, client, signal)
      const leave = slot.clientLink.enter(client)
      try {
        return await slot.instance.use(at, (connection) => work(connection, slot.clientLink))
      } finally {
        leave()
        slot.inUse--
        slot.pool.waiting.shift()?.()
      }
    },
  }
}

/** Resolves when a connection of the pool is free, or the signal is aborted. */
function turnIn(pool: Pool, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      signal.removeEventListener('abort', done)
      const index = pool.waiting.indexOf(done)
      if (index !== -1) pool.waiting.splice(index, 1)
      resolve()
    }
    pool.waiting.push(done)
    signal.addEventListener('abort', done, { once: true })
  })
}
