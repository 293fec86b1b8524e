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
type PartEdges = Readonly<{ startsInside: boolean; endsInside: boolean }>

/** The maximum number of continuation bytes of a UTF-8 character. */
const CONTINUATION_BYTES_MAX = 3

/** The bytes without the characters that the edges cut. The result shares memory with the input. */
export function wholeCharacters(bytes: Uint8Array, edges: PartEdges): Uint8Array {
  const start = edges.startsInside ? leadingContinuation(bytes) : 0
  return bytes.subarray(start, edges.endsInside ? Math.max(start, endOfCharacters(bytes)) : bytes.length)
}

const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80

function leadingContinuation(bytes: Uint8Array): number {
  let count = 0
  while (count < CONTINUATION_BYTES_MAX && isContinuation(bytes[count])) count += 1
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
