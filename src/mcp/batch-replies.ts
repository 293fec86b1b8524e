import type { RequestId } from './wire.ts'

/**
 * Replies to JSON-RPC batches, which only revision 2025-03-26 has: the replies to the requests of one batch leave together,
 * as one array, once the last of them is there.
 */
export type Batches = Readonly<{
  open(ids: readonly RequestId[]): void
  /** Takes the reply if its request came in a batch; false when it must be sent by itself. */
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
