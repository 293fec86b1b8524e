import type { BigIntStats } from 'node:fs'
import { type AskedPath, type ByteString, splitPath } from './asked-path.ts'
import type { Boundary } from './boundary.ts'
import { changedMeanwhile, fileError } from './file-errors.ts'
import { type InodeHandle, isSameInode, openAbove, openEntry, openSame, readLink } from './inode-handles.ts'

/** As many links as the system itself follows in one path. */
const LINKS_MAX = 40
/** Links can make a path as long as they like; a walk ends here. */
const STEPS_MAX = 4_096

export type WalkOptions = Readonly<{
  /** What becomes of a link at the very end. */
  finalLink: 'follow' | 'keep'
  /** Makes a missing directory on the way; without it a missing one ends the walk. */
  make?: ((directory: InodeHandle, name: ByteString, asked: AskedPath) => Promise<void>) | undefined
  /** Where the walk may lead; without it, anywhere below the root. */
  boundary?: Boundary | undefined
}>

/** Where a walk ended. Dispose of it to close what it holds. */
export type Walked = AsyncDisposable &
  Readonly<{
    /** The directory that holds the entry. */
    directory: InodeHandle
    /** Undefined when the path ends in the root or in `..`: then the directory itself is what was asked for. */
    name: ByteString | undefined
    /** Undefined when there is no such entry. */
    entry: InodeHandle | undefined
    wantsDirectory: boolean
  }>

/**
 * Walks from the root to what a path names, one name at a time, each below a directory that is held open. Links are
 * read and taken apart here, so an absolute one begins at the root again and `..` never leads above it. No name is
 * looked up through another, so there is no moment in which a process of the workspace could put a link in the way.
 */
export async function walk(root: InodeHandle, asked: AskedPath, options: WalkOptions): Promise<Walked> {
  const walker = createWalker(root, await openSame(root), asked, options)
  try {
    return await walker.run()
  } catch (error) {
    await walker.close()
    throw error
  }
}

function createWalker(
  root: InodeHandle,
  start: InodeHandle,
  asked: AskedPath,
  { finalLink, make, boundary }: WalkOptions,
) {
  let here = start
  /** The directories above `here`, up to the root. Only what they are is kept, so that depth costs no open files. */
  let above: Pick<BigIntStats, 'dev' | 'ino'>[] = []
  /** The names of `here` from the root, links taken apart. */
  let trail: ByteString[] = []
  /** The next name is the last of the list. */
  const names = asked.names.toReversed()
  let { wantsDirectory } = asked
  let linkCount = 0

  async function goTo(next: InodeHandle): Promise<void> {
    const left = here
    here = next
    await left.handle.close()
  }

  /**
   * The system's own `..`, which is trusted only when it leads to the directory we came from: one that was moved
   * meanwhile has another above it, and that could be anything.
   */
  async function goUp(): Promise<void> {
    const expected = above.pop()
    if (expected === undefined) return
    trail.pop()
    await goTo(await openAbove(here))
    if (!isSameInode(here.info, expected)) throw changedMeanwhile(asked)
  }

  async function followLink(name: ByteString): Promise<void> {
    linkCount += 1
    if (linkCount > LINKS_MAX) {
      throw fileError('ERR_FILE_REFUSED', asked, `leads through more than ${LINKS_MAX} links, perhaps in a loop`)
    }
    const target = await readLink(here, name)
    if (target === undefined) {
      names.push(name)
      return
    }
    const split = splitPath(target)
    if (names.length === 0) wantsDirectory ||= split.wantsDirectory
    names.push(...split.names.toReversed())
    if (!split.isAbsolute) return
    above = []
    trail = []
    await goTo(await openSame(root))
  }

  async function makeMissing(name: ByteString): Promise<InodeHandle> {
    if (make === undefined) throw fileError('ERR_FILE_NOT_FOUND', asked, 'lies in a directory that does not exist')
    await make(here, name, asked)
    const made = await openEntry(here, name, asked)
    if (made === undefined) throw changedMeanwhile(asked)
    return made
  }

  const endedAt = (name: ByteString | undefined, entry: InodeHandle | undefined): Walked => ({
    directory: here,
    name,
    entry,
    wantsDirectory,
    async [Symbol.asyncDispose]() {
      if (entry !== undefined && entry !== here) await entry.handle.close()
      await here.handle.close()
    },
  })

  /** Closes `found` unless it becomes the current directory or the end of the walk. */
  async function visit(name: ByteString, found: InodeHandle): Promise<Walked | undefined> {
    const isFinal = names.length === 0
    const isLink = found.info.isSymbolicLink()
    if (isLink && !(isFinal && finalLink === 'keep')) {
      await found.handle.close()
      await followLink(name)
      return undefined
    }
    if (!found.info.isDirectory() && (!isFinal || wantsDirectory)) {
      await found.handle.close()
      throw fileError('ERR_NOT_A_DIRECTORY', asked, 'uses something as a directory that is not one')
    }
    if (isFinal) return endedAt(name, found)
    above.push({ dev: here.info.dev, ino: here.info.ino })
    trail.push(name)
    await goTo(found)
    return undefined
  }

  async function run(): Promise<Walked> {
    for (let stepCount = 0; names.length > 0; stepCount += 1) {
      if (stepCount >= STEPS_MAX) throw fileError('ERR_FILE_REFUSED', asked, 'leads through too many directories')
      const name = names.pop()!
      if (name === '..') {
        await goUp()
        continue
      }
      requireInBoundary(name)
      const found = await openEntry(here, name, asked)
      if (found === undefined && names.length === 0) return endedAt(name, undefined)
      const ended = await visit(name, found ?? (await makeMissing(name)))
      if (ended !== undefined) return ended
    }
    if (boundary?.holds(trail) === false) throw boundary.refusal(asked.field)
    return endedAt(undefined, here)
  }

  /** A link at the end that is going to be followed is no end yet, but a place inside all the same. */
  function requireInBoundary(name: ByteString): void {
    if (boundary === undefined) return
    const path = [...trail, name]
    if (!(names.length === 0 ? boundary.holds(path) : boundary.passes(path))) throw boundary.refusal(asked.field)
  }

  return { run, close: () => here.handle.close() }
}
