import type { RetainedOutput } from './backend.ts'
import { wholeCharacters } from './file-rules.ts'

/** Output as text: bytes that are not UTF-8 become replacement characters, and no character is cut. */
export type OutputText = Readonly<{ text: string; totalBytes: number; truncated: boolean }>

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
const strictDecoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export const decodeText = (bytes: Uint8Array): string => decoder.decode(bytes)

/** Undefined for binary data: bytes that are not UTF-8, or a NUL byte. */
export function decodeStrictly(bytes: Uint8Array): string | undefined {
  if (bytes.includes(0)) return undefined
  try {
    return strictDecoder.decode(bytes)
  } catch {
    return undefined
  }
}

/**
 * At most `bytesMax` bytes of the retained output, head and tail, with a line between them that says how much is omitted.
 * `jsonBytesMax` bounds the text as JSON, where one byte can become six, so that an answer never gets too large.
 */
export function outputText(retained: RetainedOutput, bytesMax: number, jsonBytesMax: number): OutputText {
  let budget = bytesMax
  for (;;) {
    const text = cutText(retained, budget)
    const size = Buffer.byteLength(JSON.stringify(text))
    if (size <= jsonBytesMax || budget < SMALLEST_BUDGET) {
      return {
        text,
        totalBytes: retained.totalBytes,
        truncated: retained.omittedBytes > 0 || budget < retained.totalBytes,
      }
    }
    budget = Math.floor(Math.min(budget, retained.totalBytes) * (jsonBytesMax / size) * 0.9)
  }
}
const SMALLEST_BUDGET = 16

function cutText(retained: RetainedOutput, bytesMax: number): string {
  if (retained.omittedBytes === 0 && retained.totalBytes <= bytesMax) {
    return decodeText(retained.tail.length === 0 ? retained.head : Buffer.concat([retained.head, retained.tail]))
  }
  const whole = retained.omittedBytes === 0 ? Buffer.concat([retained.head, retained.tail]) : undefined
  const front = (whole ?? retained.head).subarray(0, Math.ceil(bytesMax / 2))
  const end = whole ?? retained.tail
  const back = end.subarray(Math.max(end.length - Math.floor(bytesMax / 2), 0))
  const head = wholeCharacters(front, { startsInside: false, endsInside: true })
  const tail = wholeCharacters(back, { startsInside: true, endsInside: false })
  const omitted = retained.totalBytes - head.length - tail.length
  return `${decodeText(head)}\n[... ${omitted} bytes left out ...]\n${decodeText(tail)}`
}
