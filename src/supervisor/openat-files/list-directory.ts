import type { BigIntStats } from 'node:fs'
import { lstat } from 'node:fs/promises'
import type { FileInfo, FileKind } from '../../domains/workspaces/backend.ts'
import { unless } from './file-errors.ts'
import { allEnded, entriesOf, entryPath, type InodeHandle } from './inode-handles.ts'
import { type ByteString, textOfBytes } from './requested-path.ts'

const LOOKED_AT_TOGETHER = 32

type Listing = Readonly<{ entries: readonly FileInfo[]; truncated: boolean }>

/** The first `limit` entries by name. Memory is bounded by `limit`, whatever the size of the directory. */
export async function listDirectory(directory: InodeHandle, limit: number): Promise<Listing> {
  const { names, truncated } = await firstNames(directory, limit)
  const entries: FileInfo[] = []
  for (let start = 0; start < names.length; start += LOOKED_AT_TOGETHER) {
    const looked = names.slice(start, start + LOOKED_AT_TOGETHER).map((name) => describeEntry(directory, name))
    for (const info of await allEnded(looked)) if (info !== undefined) entries.push(info)
  }
  return { entries, truncated }
}

async function firstNames(directory: InodeHandle, limit: number) {
  let names: ByteString[] = []
  let total = 0
  const keepFirst = (): void => {
    names = names.sort(byBytes).slice(0, limit)
  }
  for await (const { name } of entriesOf(directory)) {
    total += 1
    names.push(name)
    if (names.length >= 2 * limit + 1_024) keepFirst()
  }
  keepFirst()
  return { names, truncated: total > limit }
}

/** Comparing byte strings compares bytes, which in UTF-8 is the order of code points. */
const byBytes = (one: ByteString, other: ByteString): number => (one < other ? -1 : one > other ? 1 : 0)

/** Undefined if the entry was removed meanwhile. */
async function describeEntry(directory: InodeHandle, name: ByteString): Promise<FileInfo | undefined> {
  const info = await unless(['ENOENT'], lstat(entryPath(directory, name), { bigint: true }))
  return info === undefined ? undefined : describe(textOfBytes(name), info)
}

export const describe = (name: string, info: BigIntStats): FileInfo => ({
  name,
  kind: kindOf(info),
  size: Number(info.size),
  mode: Number(info.mode) & 0o7777,
  modifiedMs: Number(info.mtimeMs),
})

function kindOf(info: BigIntStats): FileKind {
  if (info.isFile()) return 'file'
  if (info.isDirectory()) return 'dir'
  return info.isSymbolicLink() ? 'symlink' : 'other'
}
