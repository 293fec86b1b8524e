/**
 * Cuts a stream of chunks into lines without holding more than one line and one chunk.
 * A line is handed out with a zero byte in front, which makes it the input of a leaf hash as it is, and without its line
 * feed. It is a view that the next `push` overwrites.
 */
export type LineScanner = Readonly<{
  push(chunk: Uint8Array): void
  next(): Buffer | undefined
  /** What follows the last line feed; undefined when nothing does. Ends the scan. */
  rest(): Buffer | undefined
  /** Bytes that are buffered and not handed out. */
  pendingBytes(): number
}>

const LINE_FEED = 0x0a

export function createLineScanner(): LineScanner {
  let buffer = Buffer.alloc(128 * 1024)
  // The byte before `start` is never part of a line, so it can hold the zero.
  let start = 1
  let end = 1
  let searched = 1

  const view = (lineEnd: number): Buffer => {
    buffer[start - 1] = 0
    return buffer.subarray(start - 1, lineEnd)
  }

  return {
    push(chunk) {
      const pending = end - start
      const needed = 1 + pending + chunk.length
      if (needed > buffer.length) {
        const larger = Buffer.alloc(Math.max(needed, buffer.length * 2))
        buffer.copy(larger, 1, start, end)
        buffer = larger
      } else if (start > 1) {
        buffer.copyWithin(1, start, end)
      }
      searched -= start - 1
      start = 1
      buffer.set(chunk, 1 + pending)
      end = 1 + pending + chunk.length
    },
    next() {
      const at = buffer.indexOf(LINE_FEED, searched)
      if (at < 0 || at >= end) {
        searched = end
        return undefined
      }
      const line = view(at)
      start = at + 1
      searched = start
      return line
    },
    rest() {
      if (start === end) return undefined
      const line = view(end)
      start = end
      return line
    },
    pendingBytes: () => end - start,
  }
}
