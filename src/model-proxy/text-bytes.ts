const QUOTE = 34
const BACKSLASH = 92
const COLON = 58
const SPACE = 32

/** Members of events that are no text of a model. A long value is text, whatever the member is called. */
const plainMembers: ReadonlySet<string> = new Set(
  [
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
  ]),
)
const PLAIN_BYTES_MAX = 128
const MEMBER_BYTES_MAX = 24

/**
 * How many bytes of the JSON in some events are text that a model wrote: all strings but names of members and what is known to be
 * something else. Nothing is parsed, since every event of every stream is read by this.
 */
export function textBytesOf(events: Buffer): number {
  let bytes = 0
  let member = ''
  for (let start = events.indexOf(QUOTE); start !== -1; ) {
    const end = endOfString(events, start + 1)
    const length = end - start - 1
    let next = end + 1
    while (events[next] === SPACE) next++
    if (events[next] === COLON) member = length > MEMBER_BYTES_MAX ? '' : events.toString('latin1', start + 1, end)
    else if (length > PLAIN_BYTES_MAX || !plainMembers.has(member)) bytes += length
    start = events.indexOf(QUOTE, end + 1)
  }
  return bytes
}

/** Where its closing quote is, or the end of the bytes. */
function endOfString(bytes: Buffer, from: number): number {
  for (let at = bytes.indexOf(QUOTE, from); at !== -1; at = bytes.indexOf(QUOTE, at + 1)) {
    let escapes = 0
    while (at - 1 - escapes >= from && bytes[at - 1 - escapes] === BACKSLASH) escapes++
    if (escapes % 2 === 0) return at
  }
  return bytes.length
}
