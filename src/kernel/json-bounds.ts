/** Below this size any text is parsed quickly. */
const SMALL_CHARS = 16 * 1024
const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a]
const opening = new Set([0x5b, 0x7b])
const closing = new Set([0x5d, 0x7d])

/**
 * The bound that a JSON text exceeds, if any; checked before parsing, because parsing millions of brackets, or many names in one
 * object, would block every other request. Invalid JSON is left to the parser.
 */
export function exceededBound(
  text: string,
  { depthMax, valuesMax, membersMax }: Readonly<{ depthMax: number; valuesMax: number; membersMax: number }>,
): 'depth' | 'values' | 'members' | undefined {
  if (text.length < SMALL_CHARS) return undefined
  let depth = 0
  let values = 0
  let members = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      at = endOfJsonString(text, at)
      if (at === -1) return undefined
    } else if (code === COMMA) values++
    else if (code === COLON) members++
    else if (closing.has(code)) depth--
    else if (opening.has(code)) {
      values++
      depth++
      if (depth > depthMax) return 'depth'
    }
    if (values > valuesMax) return 'values'
    if (members > membersMax) return 'members'
  }
  return undefined
}

/** The index of the closing quotation mark of a string, which follows an even number of backslashes; -1 if there is none. */
export function endOfJsonString(text: string, start: number): number {
  for (let quote = text.indexOf('"', start + 1); quote !== -1; quote = text.indexOf('"', quote + 1)) {
    let backslashes = 0
    while (text.charCodeAt(quote - 1 - backslashes) === BACKSLASH) backslashes++
    if (backslashes % 2 === 0) return quote
  }
  return -1
}
