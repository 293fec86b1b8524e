import type { BigIntStats } from 'node:fs'
import { open, rmdir, unlink } from 'node:fs/promises'
import { changedMeanwhile, errnoOf, fileError, unless } from './file-errors.ts'
import {
  allEnded,
  DIRECTORY_ONLY,
  entriesOf,
  entryPath,
  type InodeHandle,
  inodeHandleOf,
  isSameInode,
  openAbove,
} from './inode-handles.ts'
import type { ByteString, RequestedPath } from './requested-path.ts'

const NAMES_READ_TOGETHER = 1_024
const UNLINKED_TOGETHER = 16
/** Bounds the work if another process keeps filling the tree. */
const ENTRIES_MAX = 1_000_000
const CONTESTED_MAX = 100

type Level = {
  identity: Pick<BigIntStats, 'dev' | 'ino'>
  /** The name in the parent directory. */
  name: ByteString
  directories: ByteString[]
  /** All names were read once. Entries found later were created meanwhile. */
  isListed: boolean
}

/**
 * Removes the directory `name` and its content, depth first. Links are removed, never followed, and mount points inside stay.
 * Only one directory is held open at a time: the way back up is `..`, which is trusted only if it leads to the directory that we
 * came from. Every path is a single name below an open directory.
 */
export async function removeTree(parent: InodeHandle, name: ByteString, requested: RequestedPath): Promise<void> {
  const remover = createRemover(parent, requested)
  try {
    await remover.run(name)
  } finally {
    await remover.close()
  }
}

function createRemover(parent: InodeHandle, requested: RequestedPath) {
  const levels: Level[] = []
  let here: InodeHandle = parent
  let entryCount = 0
  let contestedCount = 0

  function countEntries(count: number): void {
    entryCount += count
    if (entryCount <= ENTRIES_MAX) return
    throw fileError('ERR_BUSY', requested, `is not empty yet after ${ENTRIES_MAX} entries were removed; call again`)
  }

  function countContested(): void {
    contestedCount += 1
    if (contestedCount > CONTESTED_MAX) {
      throw fileError(
        'ERR_BUSY',
        requested,
        'was not removed: something in the workspace keeps filling it; stop that first',
      )
    }
  }

  async function goTo(next: InodeHandle): Promise<void> {
    const left = here
    here = next
    if (left !== parent) await left.handle.close()
  }

  /** Returns false if the entry is no directory. */
  async function descend(name: ByteString): Promise<boolean> {
    const handle = await unless(['ENOENT', 'ENOTDIR'], open(entryPath(here, name), DIRECTORY_ONLY))
    if (handle === undefined) return false
    const next = await inodeHandleOf(handle)
    await goTo(next)
    if (levels.length > 0 && next.info.dev !== levels[0]!.identity.dev) {
      throw fileError(
        'ERR_FILE_REFUSED',
        requested,
        'contains a mount point, which is not emptied; remove the other entries',
      )
    }
    levels.push({ identity: next.info, name, directories: [], isListed: false })
    return true
  }

  async function ascend(): Promise<Level> {
    const left = levels.pop()!
    const expected = levels.at(-1)?.identity
    await goTo(expected === undefined ? parent : await openAbove(here))
    if (expected !== undefined && !isSameInode(here.info, expected)) throw changedMeanwhile(requested)
    return left
  }

  /** Removes one name. If its type has changed since it was read, it is queued again. */
  async function drop(name: ByteString, remove: typeof unlink, retry: (name: ByteString) => void): Promise<void> {
    try {
      await remove(entryPath(here, name))
    } catch (error) {
      const code = errnoOf(error) ?? ''
      if (code === 'ENOENT') return
      if (!['ENOTEMPTY', 'EEXIST', 'ENOTDIR', 'EISDIR'].includes(code)) throw error
      countContested()
      retry(name)
    }
  }

  /** Removes what can be removed at once and queues directories. Returns false if the directory was empty. */
  async function removeSome(level: Level): Promise<boolean> {
    const files: ByteString[] = []
    let count = 0
    for await (const { name, isDirectory } of entriesOf(here)) {
      ;(isDirectory ? level.directories : files).push(name)
      count += 1
      if (count >= NAMES_READ_TOGETHER) break
    }
    countEntries(count)
    if (level.isListed && count > 0) countContested()
    level.isListed = count < NAMES_READ_TOGETHER
    for (let start = 0; start < files.length; start += UNLINKED_TOGETHER) {
      const together = files.slice(start, start + UNLINKED_TOGETHER)
      await allEnded(together.map((name) => drop(name, unlink, (again) => level.directories.push(again))))
    }
    return count > 0
  }

  async function run(top: ByteString): Promise<void> {
    const again: ByteString[] = [top]
    for (;;) {
      const level = levels.at(-1)
      const name = (level?.directories ?? again).pop()
      if (name !== undefined) {
        if (!(await descend(name))) await drop(name, unlink, (input) => (level?.directories ?? again).push(input))
      } else if (level === undefined) {
        return
      } else if (!(await removeSome(level))) {
        const { name: emptied } = await ascend()
        await drop(emptied, rmdir, (input) => (levels.at(-1)?.directories ?? again).push(input))
      }
    }
  }

  return { run, close: () => goTo(parent) }
}
