/**
 * A quick check of bytes that are most likely canonical JSON (RFC 8785), without creating values. It answers yes only if the
 * bytes are certainly canonical; what it does not support (keys outside plain ASCII, deep nesting, and everything wrong) goes to
 * a full check. The bytes must be valid UTF-8.
 */

/** Where the values of the requested members of the outermost object are; −1 for an absent member. */
export type MemberSpans = Readonly<{ names: readonly string[]; starts: Int32Array; ends: Int32Array }>

export function createMemberSpans(names: readonly string[]): MemberSpans {
  return { names, starts: new Int32Array(names.length), ends: new Int32Array(names.length) }
}

const QUOTE = 0x22
const COMMA = 0x2c
const MINUS = 0x2d
const ZERO = 0x30
const NINE = 0x39
const COLON = 0x3a
const OPEN_BRACKET = 0x5b
const BACKSLASH = 0x5c
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d

const DEPTH_MAX = 64
const UNSURE = -1

/** Escapes with their own letter: quote, backslash, b, f, n, r, t. */
const shortEscapes = new Uint8Array(256)
for (const letter of '"\\bfnrt') shortEscapes[letter.charCodeAt(0)] = 1

/** True when the bytes from `start` to the end are one canonical object; the spans are then filled. */
export function scanCanonicalObject(bytes: Buffer, start: number, spans: MemberSpans): boolean {
  spans.starts.fill(UNSURE)
  return scanObject(bytes, start, 0, spans) === bytes.length
}

/** Each of these returns the position after what it read, or UNSURE. Bytes beyond the end are undefined and match nothing. */
function scanValue(bytes: Buffer, at: number, depth: number): number {
  const first = bytes[at]
  switch (first) {
    case QUOTE:
      return scanString(bytes, at)
    case OPEN_BRACE:
      return scanObject(bytes, at, depth + 1, undefined)
    case OPEN_BRACKET:
      return scanArray(bytes, at, depth + 1)
    case 0x74:
      return scanWord(bytes, at, 'true')
    case 0x66:
      return scanWord(bytes, at, 'false')
    case 0x6e:
      return scanWord(bytes, at, 'null')
    default:
      return scanNumber(bytes, at)
  }
}

function scanObject(bytes: Buffer, start: number, depth: number, spans: MemberSpans | undefined): number {
  if (bytes[start] !== OPEN_BRACE || depth > DEPTH_MAX) return UNSURE
  if (bytes[start + 1] === CLOSE_BRACE) return start + 2
  let at = start + 1
  let previousStart = 0
  let previousEnd = 0
  for (;;) {
    const keyStart = at + 1
    const keyEnd = scanPlainKey(bytes, at)
    if (keyEnd === UNSURE || bytes[keyEnd + 1] !== COLON) return UNSURE
    if (previousEnd > 0 && !isBefore(bytes, previousStart, previousEnd, keyStart, keyEnd)) return UNSURE
    const valueStart = keyEnd + 2
    at = scanValue(bytes, valueStart, depth)
    if (at === UNSURE) return UNSURE
    if (spans !== undefined) keepSpan(bytes, keyStart, keyEnd, valueStart, at, spans)
    const next = bytes[at]
    if (next === CLOSE_BRACE) return at + 1
    if (next !== COMMA) return UNSURE
    at++
    previousStart = keyStart
    previousEnd = keyEnd
  }
}

function scanArray(bytes: Buffer, start: number, depth: number): number {
  if (depth > DEPTH_MAX) return UNSURE
  if (bytes[start + 1] === CLOSE_BRACKET) return start + 2
  let at = start + 1
  for (;;) {
    at = scanValue(bytes, at, depth)
    if (at === UNSURE) return UNSURE
    const next = bytes[at]
    if (next === CLOSE_BRACKET) return at + 1
    if (next !== COMMA) return UNSURE
    at++
  }
}

function scanString(bytes: Buffer, start: number): number {
  const end = bytes.length
  for (let at = start + 1; at < end; at++) {
    const byte = bytes[at]!
    if (byte === QUOTE) return at + 1
    if (byte < 0x20) return UNSURE
    if (byte !== BACKSLASH) continue
    if (shortEscapes[bytes[at + 1]!] === 1) at++
    else if (isControlEscape(bytes, at)) at += 5
    else return UNSURE
  }
  return UNSURE
}

/** Returns the position of the closing quote of a plain ASCII key, whose byte order is the order of UTF-16 units. */
function scanPlainKey(bytes: Buffer, start: number): number {
  if (bytes[start] !== QUOTE) return UNSURE
  const end = bytes.length
  for (let at = start + 1; at < end; at++) {
    const byte = bytes[at]!
    if (byte === QUOTE) return at
    if (byte < 0x20 || byte > 0x7e || byte === BACKSLASH) return UNSURE
  }
  return UNSURE
}

/** A control character without its own letter is written `\u00` and two lower-case digits. */
function isControlEscape(bytes: Buffer, at: number): boolean {
  const text = bytes.toString('latin1', at, at + 6)
  return /^\\u00[01][0-9a-f]$/.test(text) && JSON.stringify(JSON.parse(`"${text}"`)) === `"${text}"`
}

function scanNumber(bytes: Buffer, start: number): number {
  let at = start
  while (isNumberByte(bytes[at])) at++
  const length = at - start
  if (length === 0 || length > 32) return UNSURE
  const first = bytes[start]!
  if (length === 1) return first >= ZERO && first <= NINE ? at : UNSURE
  if (length <= 15 && first > ZERO && first <= NINE && isDigits(bytes, start, at)) return at
  const text = bytes.toString('latin1', start, at)
  const value = Number(text)
  return Number.isFinite(value) && JSON.stringify(value) === text ? at : UNSURE
}

const isNumberByte = (byte: number | undefined): boolean =>
  byte !== undefined &&
  ((byte >= ZERO && byte <= NINE) || byte === MINUS || byte === 0x2b || byte === 0x2e || byte === 0x65)

function isDigits(bytes: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if (bytes[at]! < ZERO || bytes[at]! > NINE) return false
  return true
}

function scanWord(bytes: Buffer, start: number, word: string): number {
  for (let at = 0; at < word.length; at++) if (bytes[start + at] !== word.charCodeAt(at)) return UNSURE
  return start + word.length
}

function isBefore(bytes: Buffer, leftStart: number, leftEnd: number, rightStart: number, rightEnd: number): boolean {
  let left = leftStart
  let right = rightStart
  while (left < leftEnd && right < rightEnd) {
    const difference = bytes[left++]! - bytes[right++]!
    if (difference !== 0) return difference < 0
  }
  return leftEnd - leftStart < rightEnd - rightStart
}

function keepSpan(
  bytes: Buffer,
  keyStart: number,
  keyEnd: number,
  valueStart: number,
  valueEnd: number,
  { names, starts, ends }: MemberSpans,
): void {
  for (let index = 0; index < names.length; index++) {
    const name = names[index]!
    if (name.length !== keyEnd - keyStart || scanWord(bytes, keyStart, name) === UNSURE) continue
    starts[index] = valueStart
    ends[index] = valueEnd
    return
  }
}
