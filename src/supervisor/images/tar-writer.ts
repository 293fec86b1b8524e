import type { TarEntry } from './tar-reader.ts'

const BLOCK = 512
/** The size of the name field. A longer name gets a header of its own, in GNU tar's format. */
const NAME_BYTES_MAX = 100

const typeFlags: Readonly<Record<Exclude<TarEntry['kind'], 'device'>, string>> = {
  file: '0',
  hardlink: '1',
  symlink: '2',
  directory: '5',
  fifo: '6',
}

export type WritableEntry = TarEntry & Readonly<{ kind: Exclude<TarEntry['kind'], 'device'> }>

/** The header of an entry, for GNU tar. The content follows, and then `tarPadding`. */
export function tarHeader(entry: WritableEntry): Buffer {
  const parts: Buffer[] = []
  if (entry.linkName.length > NAME_BYTES_MAX) parts.push(longName('K', entry.linkName))
  if (entry.name.length > NAME_BYTES_MAX) parts.push(longName('L', entry.name))
  parts.push(block(entry, typeFlags[entry.kind]))
  return Buffer.concat(parts)
}

export const tarPadding = (sizeBytes: number): Buffer => Buffer.alloc((BLOCK - (sizeBytes % BLOCK)) % BLOCK)
export const tarEnd = (): Buffer => Buffer.alloc(2 * BLOCK)

function longName(type: 'K' | 'L', name: string): Buffer {
  const body = Buffer.from(`${name}\0`, 'latin1')
  const header = block({ ...blank, name: '././@LongLink', sizeBytes: body.length }, type)
  return Buffer.concat([header, body, tarPadding(body.length)])
}

const blank = { linkName: '', mode: 0, uid: 0, gid: 0, modifiedSecs: 0 } as const

function block(entry: Omit<TarEntry, 'kind'>, type: string): Buffer {
  const header = Buffer.alloc(BLOCK)
  header.write(entry.name.slice(0, NAME_BYTES_MAX), 0, 'latin1')
  writeNumber(header, 100, 8, entry.mode)
  writeNumber(header, 108, 8, entry.uid)
  writeNumber(header, 116, 8, entry.gid)
  writeNumber(header, 124, 12, entry.sizeBytes)
  writeNumber(header, 136, 12, entry.modifiedSecs)
  header.write(type, 156, 'latin1')
  header.write(entry.linkName.slice(0, NAME_BYTES_MAX), 157, 'latin1')
  header.write('ustar  \0', 257, 'latin1')
  header.fill(' ', 148, 156)
  let sum = 0
  for (const byte of header) sum += byte
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return header
}

/** Octal where it fits, otherwise binary with the first bit set. */
function writeNumber(header: Buffer, at: number, length: number, value: number): void {
  const digits = value.toString(8)
  if (digits.length < length) {
    header.write(digits.padStart(length - 1, '0'), at, 'latin1')
    return
  }
  let rest = value
  for (let index = at + length - 1; index > at; index -= 1) {
    header[index] = rest % 256
    rest = Math.floor(rest / 256)
  }
  header[at] = 0x80
}
