import { createLineScanner, type LineScanner } from './line-scanner.ts'
import { fail } from './verify-problem.ts'

export type DocumentReader = Readonly<{
  scanner: LineScanner
  /** Reads one more chunk into the scanner; false at the end of the file. */
  fill(): Promise<boolean>
  bytesRead(): number
}>

/** A record is made of at most one message and some digests; this leaves room for the escapes of JSON. */
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

/** The object on the first line; when that line is no JSON by itself (an indented document), the whole file. */
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

/** Nothing but white space may follow. */
export async function expectEnd(reader: DocumentReader): Promise<void> {
  for (let line = await readLine(reader); line !== undefined; line = await readLine(reader)) {
    if (line.trim() !== '') fail('format', 'The document is followed by something else.')
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
