import type { RetainedOutput } from '../domains/workspaces/backend.ts'

/** Retains the head and the tail of a stream, half of `bytesMax` each, and counts all bytes. */
export function createRetainedOutput(bytesMax: number): { add(chunk: Buffer): void; result(): RetainedOutput } {
  const headMax = Math.ceil(bytesMax / 2)
  const tailMax = bytesMax - headMax
  const head: Buffer[] = []
  let headBytes = 0
  let tail: Buffer[] = []
  let tailBytes = 0
  let totalBytes = 0
  return {
    add(chunk) {
      totalBytes += chunk.length
      const forHead = Math.min(headMax - headBytes, chunk.length)
      if (forHead > 0) {
        head.push(chunk.subarray(0, forHead))
        headBytes += forHead
      }
      const rest = chunk.subarray(Math.max(forHead, 0))
      if (rest.length === 0) return
      tail.push(rest)
      tailBytes += rest.length
      // Joined rarely, so that many small chunks cost time in proportion to their bytes.
      if (tailBytes > 2 * tailMax + 65_536) {
        const joined = Buffer.concat(tail).subarray(tailBytes - tailMax)
        tail = [Buffer.from(joined)]
        tailBytes = joined.length
      }
    },
    result() {
      const joined = Buffer.concat(tail)
      const retained = joined.subarray(Math.max(joined.length - tailMax, 0))
      return {
        head: Buffer.concat(head),
        tail: retained,
        totalBytes,
        omittedBytes: totalBytes - headBytes - retained.length,
      }
    },
  }
}
