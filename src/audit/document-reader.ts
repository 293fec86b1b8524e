import { fail } from './verify-problem.ts'

export type DocumentReader = Readonly<{
  scanner: LineScanner
  /** Reads one more chunk into the scanner; false at the end of the file. */
  fill(): Promise<boolean>
  bytesRead(): number
}>

/** A record contains at most one message and some digests; this leaves space for JSON escapes. */
const LINE_BYTES_MAX = 64 * 1024 * 1024

export function createDocumentReader(chunks: AsyncIterator<Uint8Array>): DocumentReader {
  const scanner = createLineScanner()
  let bytes = 0
  return {
    scanner,
    async fill() {
      if (scanner.pendingBytes() > LINE_BYTES_MAX) {
        fail('line-too-long', `A line of the file is longer than ${LINE_BYTES_MAX} bytes.`)
      }
      const { done, value } = await chunks.next()
      if (done === true) return false
      bytes += value.length
      scanner.push(value)
      return true
    },
    bytesRead: () => bytes,
  }
}

/** The object on the first line; if that line is not JSON by itself (an indented document), the whole file. */
export async function readFirstObject(reader: DocumentReader): Promise<Readonly<Record<string, unknown>>> {
  let text = await readLine(reader)
  let value = text === undefined ? undefined : parseObject(text)
  if (value === undefined && text?.trim() === '{') {
    for (let line = await readLine(reader); line !== undefined; line = await readLine(reader)) {
      text += line
      if (text.length > LINE_BYTES_MAX) fail('line-too-long', `The document is longer than ${LINE_BYTES_MAX} bytes.`)
    }
    value = parseObject(text)
  }
  return value ?? fail('format', 'The file does not begin with a JSON object.', { line: 1 })
}

/** Only white space may follow. */
export async function expectEnd(reader: DocumentReader): Promise<void> {
  for (let line = await readLine(reader); line !== undefined; line = await readLine(reader)) {
    if (line.trim() !== '') fail('format', 'The file has more content after the document. Remove it.')
  }
}

async function readLine({ scanner, fill }: DocumentReader): Promise<string | undefined> {
  let line = scanner.next()
  while (line === undefined && (await fill())) line = scanner.next()
  return (line ?? scanner.rest())?.toString('utf8', 1)
}

function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
    return value as Readonly<Record<string, unknown>>
  } catch {
    return undefined
  }
}

/**
 * Splits a stream of chunks into lines, holding at most one line and one chunk. A line is returned without its line feed and with
 * a zero byte in front, which makes it the input of a leaf hash. It is a view that the next `push` overwrites.
 */
type LineScanner = Readonly<{
  push(chunk: Uint8Array): void
  next(): Buffer | undefined
  /** What follows the last line feed; undefined if there is nothing. Ends the scan. */
  rest(): Buffer | undefined
  /** Buffered bytes that were not returned yet. */
  pendingBytes(): number
}>

const LINE_FEED = 0x0a

function createLineScanner(): LineScanner {
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
