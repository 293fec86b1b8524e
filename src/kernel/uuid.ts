/** The first 16 bytes as a version 4 UUID (RFC 9562). */
export function uuidOf(bytes: Uint8Array): string {
  const id = Buffer.from(bytes.subarray(0, 16))
  id[6] = (id[6]! & 0x0f) | 0x40
  id[8] = (id[8]! & 0x3f) | 0x80
  const hex = id.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
