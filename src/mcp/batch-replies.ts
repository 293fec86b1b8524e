import type { RequestId } from './json-rpc.ts'

/**
 * Replies to JSON-RPC batches, which exist only in revision 2025-03-26: the replies to one batch are sent together, as one array,
 * when the last is ready.
 */
export type Batches = Readonly<{
  open(ids: readonly RequestId[]): void
  /** Takes the reply if its request came in a batch; false if it must be sent alone. */
  take(id: RequestId, reply: string): boolean
  /** A cancelled request gets no reply; its batch must not wait for one. */
  forget(id: RequestId): void
}>

type Batch = { waiting: number; replies: string[] }

export function createBatches(send: (line: string) => void): Batches {
  const byId = new Map<RequestId, Batch>()

  function settle(id: RequestId, reply: string | undefined): boolean {
    const batch = byId.get(id)
    if (batch === undefined) return false
    byId.delete(id)
    batch.waiting--
    if (reply !== undefined) batch.replies.push(reply)
    if (batch.waiting === 0 && batch.replies.length > 0) send(`[${batch.replies.join(',')}]`)
    return true
  }

  return {
    open(ids) {
      const batch = { waiting: ids.length, replies: [] }
      for (const id of ids) byId.set(id, batch)
    },
    take: settle,
    forget: (id) => {
      settle(id, undefined)
    },
  }
}
