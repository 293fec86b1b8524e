import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { posix } from 'node:path'
import { AppError } from '../../contract/app-error.ts'
import { readTar } from './tar-reader.ts'

/** A tar file whose members can be read in any order. */
export type ArchiveFile = Readonly<{
  has(name: string): boolean
  /** Reads a small member whole. */
  bytes(name: string): Promise<Buffer>
  stream(name: string): AsyncIterable<Uint8Array>
}>

const MEMBERS_MAX = 100_000
const SMALL_BYTES_MAX = 16 * 1024 * 1024
const READ_BYTES = 256 * 1024

export async function openArchiveFile(path: string): Promise<ArchiveFile> {
  await requirePlainTar(path)
  const members = new Map<string, { offset: number; sizeBytes: number }>()
  const links = new Map<string, string>()
  let count = 0
  for await (const { entry, offset } of readTar(createReadStream(path, { highWaterMark: READ_BYTES }))) {
    count += 1
    if (count > MEMBERS_MAX) throw unfit(`has more than ${MEMBERS_MAX} members`)
    const name = posix.normalize(entry.name)
    if (entry.kind === 'file') members.set(name, { offset, sizeBytes: entry.sizeBytes })
    // Docker writes a layer that two images share once, and links to it.
    if (entry.kind === 'symlink') links.set(name, posix.join(posix.dirname(name), entry.linkName))
    if (entry.kind === 'hardlink') links.set(name, posix.normalize(entry.linkName))
  }
  const find = (name: string) => members.get(name) ?? members.get(links.get(name) ?? '')
  const require = (name: string): { offset: number; sizeBytes: number } => {
    const member = find(name)
    if (member === undefined) throw unfit('lacks a blob that its index names')
    return member
  }
  const stream = (name: string): AsyncIterable<Uint8Array> => {
    const { offset, sizeBytes } = require(name)
    if (sizeBytes === 0) return (async function* () {})()
    return createReadStream(path, { start: offset, end: offset + sizeBytes - 1, highWaterMark: READ_BYTES })
  }
  return {
    has: (name) => find(name) !== undefined,
    stream,
    async bytes(name) {
      if (require(name).sizeBytes > SMALL_BYTES_MAX) throw unfit('has a manifest or configuration that is too large')
      const parts: Uint8Array[] = []
      for await (const part of stream(name)) parts.push(part)
      return Buffer.concat(parts)
    },
  }
}

async function requirePlainTar(path: string): Promise<void> {
  let file: Awaited<ReturnType<typeof open>>
  try {
    file = await open(path, 'r')
  } catch (cause) {
    throw new AppError(
      'ERR_NOT_FOUND',
      'The archive cannot be opened. Give the path of a file you may read.',
      { path },
      { cause },
    )
  }
  try {
    if (!(await file.stat()).isFile()) throw unfit('is not a regular file')
    const { buffer, bytesRead } = await file.read(Buffer.alloc(262), 0, 262, 0)
    const isTar = bytesRead === 262 && buffer.toString('latin1', 257, 262) === 'ustar'
    if (!isTar) throw unfit('is not a tar archive; if it is compressed, unpack it first')
  } finally {
    await file.close()
  }
}

export const unfit = (what: string): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    `The archive ${what}. Make it with "skopeo copy docker://IMAGE oci-archive:FILE" or "docker save".`,
    { field: 'source' },
  )
