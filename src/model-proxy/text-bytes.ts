const QUOTE = 34
const BACKSLASH = 92
const COLON = 58
const SPACE = 32

/** Members of events that are not text of a model. A long value counts as text, whatever the member is called. */
const plainMembers = [
  'id',
  'object',
  'model',
  'type',
  'role',
  'finish_reason',
  'stop_reason',
  'system_fingerprint',
  'service_tier',
].concat([
  'obfuscation',
  'item_id',
  'response_id',
  'modelVersion',
  'responseId',
  'finishReason',
  'call_id',
  'status',
  'phase',
])
const PLAIN_BYTES_MAX = 128

/** By length and first and last byte, so that no string is created to compare a name. */
const plainByShape: ReadonlyMap<number, readonly Buffer[]> = Map.groupBy(
  plainMembers.map((name) => Buffer.from(name)),
  (name) => shapeOf(name, 0, name.length),
)

function shapeOf(bytes: Buffer, start: number, end: number): number {
  return ((end - start) << 16) | (bytes[start]! << 8) | bytes[end - 1]!
}

function isPlain(bytes: Buffer, start: number, end: number): boolean {
  const alike = start === end ? undefined : plainByShape.get(shapeOf(bytes, start, end))
  return alike?.some((name) => name.every((byte, index) => bytes[start + index] === byte)) ?? false
}

/**
 * The bytes of text that a model wrote in some events: all strings except member names and known other values. Nothing is parsed
 * or allocated, because this reads long streams.
 */
export function textBytesOf(events: Buffer): number {
  const { length } = events
  let textBytes = 0
  let memberStart = 0
  let memberEnd = 0
  for (let at = 0; at < length; at++) {
    if (events[at] !== QUOTE) continue
    const start = at + 1
    const end = endOfString(events, start)
    let next = end + 1
    while (events[next] === SPACE) next++
    if (events[next] === COLON) {
      memberStart = start
      memberEnd = end
    } else if (end - start > PLAIN_BYTES_MAX || !isPlain(events, memberStart, memberEnd)) textBytes += end - start
    at = end
  }
  return textBytes
}

/** The position of its closing quote, or the end of the bytes. */
function endOfString(bytes: Buffer, from: number): number {
  const { length } = bytes
  let at = from
  while (at < length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1
  return Math.min(at, length)
}
