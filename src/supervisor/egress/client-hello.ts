/**
 * Parses a TLS ClientHello as far as its server name. The bytes come from a workload, so every length is checked against the
 * bytes present, and anything that a server might parse differently is `malformed`.
 */
export type FirstBytes =
  | Readonly<{ kind: 'more' }>
  | Readonly<{ kind: 'plain' }>
  | Readonly<{ kind: 'malformed' }>
  | Readonly<{ kind: 'hello'; serverName: string | undefined; hidesName: boolean }>

const RECORD_HANDSHAKE = 22
const HANDSHAKE_CLIENT_HELLO = 1
const EXTENSION_SERVER_NAME = 0
const EXTENSION_ENCRYPTED_CLIENT_HELLO = 0xfe0d
const RECORD_BYTES_MAX = 16_384
const RANDOM_BYTES = 32
/** Larger than any client sends, post-quantum key shares included. */
export const HELLO_BYTES_MAX = 16_384

const malformed: FirstBytes = { kind: 'malformed' }

export function readFirstBytes(bytes: Buffer): FirstBytes {
  if (bytes.length === 0) return { kind: 'more' }
  if (bytes[0] !== RECORD_HANDSHAKE) return { kind: 'plain' }
  const handshake = joinRecords(bytes)
  if (handshake === undefined) return malformed
  if (handshake.length > 0 && handshake[0] !== HANDSHAKE_CLIENT_HELLO) return malformed
  const end = handshake.length < 4 ? undefined : 4 + handshake.readUIntBE(1, 3)
  if (end !== undefined && end > HELLO_BYTES_MAX) return malformed
  if (end !== undefined && handshake.length >= end) return readHello(handshake.subarray(4, end))
  return bytes.length > HELLO_BYTES_MAX ? malformed : { kind: 'more' }
}

/** Joins the handshake bytes received so far; a message may be spread over several records. */
function joinRecords(bytes: Buffer): Buffer | undefined {
  const parts: Buffer[] = []
  let at = 0
  while (bytes.length - at >= 5) {
    const length = bytes.readUInt16BE(at + 3)
    if (bytes[at + 1] !== 3 || length === 0 || length > RECORD_BYTES_MAX) return undefined
    if (bytes[at] !== RECORD_HANDSHAKE) break
    parts.push(bytes.subarray(at + 5, at + 5 + length))
    at += 5 + length
  }
  return Buffer.concat(parts)
}

/** Reads from the front of the buffer. A read beyond its end sets `broken`, which stays set. */
function createReader(bytes: Buffer) {
  let at = 0
  let broken = false
  const take = (length: number): Buffer => {
    if (broken || length > bytes.length - at) {
      broken = true
      return Buffer.alloc(0)
    }
    at += length
    return bytes.subarray(at - length, at)
  }
  const number = (width: number): number => {
    const piece = take(width)
    return piece.length === 0 ? 0 : piece.readUIntBE(0, width)
  }
  return {
    take,
    number,
    /** A vector that is preceded by its length. */
    vector: (width: number): Buffer => take(number(width)),
    isAtEnd: () => at === bytes.length,
    isBroken: () => broken,
  }
}

function readHello(body: Buffer): FirstBytes {
  const reader = createReader(body)
  reader.take(2 + RANDOM_BYTES)
  reader.vector(1)
  reader.vector(2)
  reader.vector(1)
  if (reader.isBroken()) return malformed
  const extensions = reader.isAtEnd() ? Buffer.alloc(0) : reader.vector(2)
  if (reader.isBroken() || !reader.isAtEnd()) return malformed
  return readExtensions(extensions)
}

function readExtensions(bytes: Buffer): FirstBytes {
  const reader = createReader(bytes)
  const seen = new Set<number>()
  let serverName: string | undefined
  while (!reader.isAtEnd()) {
    const type = reader.number(2)
    const content = reader.vector(2)
    if (reader.isBroken() || seen.has(type)) return malformed
    seen.add(type)
    if (type !== EXTENSION_SERVER_NAME) continue
    serverName = readServerName(content)
    if (serverName === undefined) return malformed
  }
  return { kind: 'hello', serverName, hidesName: seen.has(EXTENSION_ENCRYPTED_CLIENT_HELLO) }
}

/** Accepts exactly one entry of type host_name, the only type that was ever defined. */
function readServerName(content: Buffer): string | undefined {
  const outer = createReader(content)
  const list = createReader(outer.vector(2))
  const type = list.number(1)
  const name = list.vector(2)
  const isWhole = !outer.isBroken() && outer.isAtEnd() && !list.isBroken() && list.isAtEnd()
  return isWhole && type === 0 && name.length > 0 ? name.toString('latin1') : undefined
}
