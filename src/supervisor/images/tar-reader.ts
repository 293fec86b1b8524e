import { AppError } from '../../contract/app-error.ts'

/**
 * Names are bytes, not text. They are Latin-1 strings, one character for each byte, so that names reach the file system
 * unchanged.
 */
export type TarEntry = Readonly<{
  name: string
  kind: 'file' | 'directory' | 'symlink' | 'hardlink' | 'fifo' | 'device'
  /** The target of a symbolic or hard link; otherwise empty. */
  linkName: string
  mode: number
  uid: number
  gid: number
  sizeBytes: number
  modifiedSecs: number
}>

type TarItem = Readonly<{
  entry: TarEntry
  /** The offset of the content in the archive. */
  offset: number
  /** The content. It can be read once, before the next item is requested, and is skipped otherwise. */
  content(): AsyncGenerator<Uint8Array>
}>

const BLOCK = 512
/** Headers that describe the next entry. A larger one is an attack. */
const EXTENSION_BYTES_MAX = 1024 * 1024

const kinds: Readonly<Record<string, TarEntry['kind']>> = {
  '0': 'file',
  '\0': 'file',
  '7': 'file',
  '1': 'hardlink',
  '2': 'symlink',
  '3': 'device',
  '4': 'device',
  '5': 'directory',
  '6': 'fifo',
}

/** Reads ustar, PAX and GNU archives without seeking. Throws on anything that is not known for certain. */
export async function* readTar(source: AsyncIterable<Uint8Array>): AsyncGenerator<TarItem> {
  const bytes = createByteReader(source)
  let extension: Extension = {}
  for (;;) {
    const header = await bytes.exactly(BLOCK, true)
    if (header === undefined || isZero(header)) break
    const raw = parseHeader(header)
    if (raw.type === 'x' || raw.type === 'L' || raw.type === 'K' || raw.type === 'g') {
      if (raw.sizeBytes > EXTENSION_BYTES_MAX) throw broken('has a header that is too long')
      const body = await bytes.exactly(raw.sizeBytes)
      await bytes.skip(paddingOf(raw.sizeBytes))
      // A global header sets defaults. Builders only write comments into it.
      if (raw.type !== 'g') extension = { ...extension, ...parseExtension(raw.type, body!) }
      continue
    }
    const entry = toEntry(raw, extension)
    extension = {}
    const storedBytes = entry.kind === 'file' ? entry.sizeBytes : 0
    const end = bytes.position() + storedBytes + paddingOf(storedBytes)
    const offset = bytes.position()
    yield { entry, offset, content: () => bytes.stream(offset + storedBytes - bytes.position()) }
    await bytes.skip(end - bytes.position())
  }
  // The data after the end must be read too: digests cover the whole archive.
  await bytes.drain()
}

type Extension = Readonly<{
  path?: string
  linkpath?: string
  size?: number
  uid?: number
  gid?: number
  mtime?: number
}>

type RawHeader = Readonly<{
  name: string
  linkName: string
  type: string
  mode: number
  uid: number
  gid: number
  sizeBytes: number
  modifiedSecs: number
}>

function parseHeader(header: Buffer): RawHeader {
  let sum = 0
  for (let index = 0; index < BLOCK; index += 1) sum += index >= 148 && index < 156 ? 32 : header[index]!
  if (sum !== numberAt(header, 148, 8)) throw broken('has a header with a wrong checksum')
  const name = textAt(header, 0, 100)
  // GNU archives store times where ustar has the prefix.
  const isUstar = header.toString('latin1', 257, 263) === 'ustar\0'
  const prefix = isUstar ? textAt(header, 345, 155) : ''
  return {
    name: prefix === '' ? name : `${prefix}/${name}`,
    linkName: textAt(header, 157, 100),
    type: String.fromCharCode(header[156]!),
    mode: numberAt(header, 100, 8) & 0o7777,
    uid: numberAt(header, 108, 8),
    gid: numberAt(header, 116, 8),
    sizeBytes: numberAt(header, 124, 12),
    modifiedSecs: numberAt(header, 136, 12),
  }
}

function toEntry(raw: RawHeader, extension: Extension): TarEntry {
  const kind = kinds[raw.type]
  if (kind === undefined) throw broken('has an entry of an unsupported type')
  const name = extension.path ?? raw.name
  const sizeBytes = extension.size ?? raw.sizeBytes
  const uid = extension.uid ?? raw.uid
  const gid = extension.gid ?? raw.gid
  for (const value of [sizeBytes, uid, gid]) {
    if (!Number.isSafeInteger(value) || value < 0) throw broken('has an entry with an invalid number')
  }
  return {
    name,
    // Old archives mark a directory only by a trailing slash.
    kind: kind === 'file' && name.endsWith('/') && sizeBytes === 0 ? 'directory' : kind,
    linkName: extension.linkpath ?? raw.linkName,
    mode: raw.mode,
    uid,
    gid,
    sizeBytes: kind === 'file' ? sizeBytes : 0,
    modifiedSecs: Math.min(Math.max(0, Math.floor(extension.mtime ?? raw.modifiedSecs) || 0), 2 ** 33),
  }
}

function parseExtension(type: string, body: Buffer): Extension {
  if (type === 'L') return { path: textAt(body, 0, body.length) }
  if (type === 'K') return { linkpath: textAt(body, 0, body.length) }
  const found: Record<string, string | number> = {}
  let at = 0
  while (at < body.length) {
    const space = body.indexOf(0x20, at)
    const length = Number(body.toString('latin1', at, space))
    if (space < 0 || !Number.isInteger(length) || length < space - at + 3 || at + length > body.length) {
      throw broken('has an invalid extended header')
    }
    const record = body.toString('latin1', space + 1, at + length - 1)
    const equals = record.indexOf('=')
    const key = record.slice(0, equals)
    const value = record.slice(equals + 1)
    if (key.startsWith('GNU.sparse')) throw broken('has a sparse file, which is not supported')
    if ((key === 'path' || key === 'linkpath') && value !== '') {
      if (value.includes('\0')) throw broken('has a name with a zero byte')
      found[key] = value
    }
    if (key === 'size' || key === 'uid' || key === 'gid' || key === 'mtime') found[key] = Number(value)
    at += length
  }
  return found
}

/** Octal text, or binary if the first bit is set. */
function numberAt(buffer: Buffer, at: number, length: number): number {
  if ((buffer[at]! & 0x80) !== 0) {
    if (buffer[at]! === 0xff) return -1
    let value = buffer[at]! & 0x7f
    for (let index = at + 1; index < at + length; index += 1) value = value * 256 + buffer[index]!
    return value
  }
  const digits = textAt(buffer, at, length).trim()
  if (digits === '') return 0
  if (!/^[0-7]+$/.test(digits)) throw broken('has a header with an invalid number')
  return Number.parseInt(digits, 8)
}

function textAt(buffer: Buffer, at: number, length: number): string {
  const end = buffer.indexOf(0, at)
  return buffer.toString('latin1', at, end < 0 || end > at + length ? at + length : end)
}

const isZero = (block: Buffer): boolean => block.every((byte) => byte === 0)
const paddingOf = (sizeBytes: number): number => (BLOCK - (sizeBytes % BLOCK)) % BLOCK
const broken = (what: string): AppError =>
  new AppError('ERR_INVALID_INPUT', `The archive ${what}. Create the archive again, or use another one.`, {
    field: 'source',
  })

function createByteReader(source: AsyncIterable<Uint8Array>) {
  const iterator = source[Symbol.asyncIterator]()
  let chunk: Buffer = Buffer.alloc(0)
  let position = 0

  /** Returns between one byte and `count` bytes, or undefined at the end. */
  async function some(count: number): Promise<Buffer | undefined> {
    while (chunk.length === 0) {
      const next = await iterator.next()
      if (next.done === true) return undefined
      chunk = Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength)
    }
    const part = chunk.subarray(0, count)
    chunk = chunk.subarray(part.length)
    position += part.length
    return part
  }

  async function* stream(count: number): AsyncGenerator<Uint8Array> {
    let left = count
    while (left > 0) {
      const part = await some(left)
      if (part === undefined) throw broken('ends in the middle of a file')
      left -= part.length
      yield part
    }
  }

  return {
    position: () => position,
    stream,
    async exactly(count: number, mayEnd = false): Promise<Buffer | undefined> {
      const first = count === 0 ? Buffer.alloc(0) : await some(count)
      if (first === undefined && mayEnd) return undefined
      const parts = first === undefined ? [] : [first]
      for await (const part of stream(count - (first?.length ?? 0))) parts.push(part as Buffer)
      return parts.length === 1 ? parts[0] : Buffer.concat(parts)
    },
    async skip(count: number): Promise<void> {
      for await (const _ of stream(count));
    },
    async drain(): Promise<void> {
      while ((await some(Number.MAX_SAFE_INTEGER)) !== undefined);
    },
  }
}
