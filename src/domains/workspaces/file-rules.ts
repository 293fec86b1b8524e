/** The permission bits as `ls` shows them, without the type: `rwxr-xr-x`, `rwxrwxrwt`. */
export function permissionText(mode: number): string {
  const three = (shift: number, isSpecial: boolean, letter: string): string => {
    const bits = mode >> shift
    const last = bits & 1 ? (isSpecial ? letter : 'x') : isSpecial ? letter.toUpperCase() : '-'
    return `${bits & 4 ? 'r' : '-'}${bits & 2 ? 'w' : '-'}${last}`
  }
  return (
    three(6, (mode & 0o4000) !== 0, 's') + three(3, (mode & 0o2000) !== 0, 's') + three(0, (mode & 0o1000) !== 0, 't')
  )
}

/** Whether a part of a file may begin or end inside a character. */
export type PartEdges = Readonly<{ startsInside: boolean; endsInside: boolean }>

const whole: PartEdges = { startsInside: false, endsInside: false }
/** The maximum number of continuation bytes of a UTF-8 character. */
const CONTINUATION_BYTES_MAX = 3

/**
 * Checks whether chunked bytes are UTF-8, wherever the chunks are cut. `push` returns false as soon as they are not; `end`
 * returns the verdict. A character that is cut at an edge which may lie inside a character is no error.
 */
export function createUtf8Check(edges: PartEdges = whole) {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  let isUtf8 = true
  let skippable = edges.startsInside ? CONTINUATION_BYTES_MAX : 0

  const decodes = (...input: Parameters<typeof decoder.decode>): boolean => {
    try {
      decoder.decode(...input)
      return true
    } catch {
      return false
    }
  }

  return {
    push(bytes: Uint8Array): boolean {
      const cut = leadingContinuation(bytes, skippable)
      skippable = cut < bytes.length ? 0 : skippable - cut
      isUtf8 = isUtf8 && decodes(bytes.subarray(cut), { stream: true })
      return isUtf8
    },
    end(): boolean {
      isUtf8 = isUtf8 && (edges.endsInside || decodes())
      return isUtf8
    },
  }
}

/** The bytes without the characters that the edges cut. The result shares memory with the input. */
export function wholeCharacters(bytes: Uint8Array, edges: PartEdges): Uint8Array {
  const start = edges.startsInside ? leadingContinuation(bytes, CONTINUATION_BYTES_MAX) : 0
  return bytes.subarray(start, edges.endsInside ? Math.max(start, endOfCharacters(bytes)) : bytes.length)
}

const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80

function leadingContinuation(bytes: Uint8Array, max: number): number {
  let count = 0
  while (count < max && isContinuation(bytes[count])) count += 1
  return count
}

/** The offset of an incomplete last character, or the end. */
function endOfCharacters(bytes: Uint8Array): number {
  for (let back = 1; back <= CONTINUATION_BYTES_MAX && back <= bytes.length; back += 1) {
    const byte = bytes[bytes.length - back]!
    if (isContinuation(byte)) continue
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
    return length > back ? bytes.length - back : bytes.length
  }
  return bytes.length
}
