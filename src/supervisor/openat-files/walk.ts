import type { BigIntStats } from 'node:fs'
import type { Boundary } from './boundary.ts'
import { changedMeanwhile, fileError } from './file-errors.ts'
import { type InodeHandle, isSameInode, openAbove, openEntry, openSame, readLink } from './inode-handles.ts'
import { type ByteString, type RequestedPath, splitPath } from './requested-path.ts'

/** Linux's own limit of links in one path. */
const LINKS_MAX = 40
/** Links can make a path arbitrarily long; a walk is bounded. */
const STEPS_MAX = 4_096

export type WalkOptions = Readonly<{
  /** Whether a link at the end of the path is followed. */
  finalLink: 'follow' | 'keep'
  /** Creates a missing directory on the way. Without it, the walk ends there. */
  make?: ((directory: InodeHandle, name: ByteString, requested: RequestedPath) => Promise<void>) | undefined
  /** Where the walk may lead; by default anywhere below the root. */
  boundary?: Boundary | undefined
}>

/** The end of a walk. Disposing of it closes its handles. */
export type Walked = AsyncDisposable &
  Readonly<{
    /** The directory that contains the entry. */
    directory: InodeHandle
    /** Undefined if the path ends in the root or in `..`: then the directory itself was requested. */
    name: ByteString | undefined
    /** Undefined if there is no such entry. */
    entry: InodeHandle | undefined
    wantsDirectory: boolean
  }>

/**
 * Walks from the root along a path, one name at a time, each below a directory that is held open. Links are read and resolved
 * here, so an absolute one starts at the root again and `..` never leads above it. No name is looked up through another, so a
 * process of the workspace has no moment in which it could insert a link.
 */
export async function walk(root: InodeHandle, requested: RequestedPath, options: WalkOptions): Promise<Walked> {
  const walker = createWalker(root, await openSame(root), requested, options)
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
  requested: RequestedPath,
  { finalLink, make, boundary }: WalkOptions,
) {
  let here = start
  /** The directories above `here`, up to the root. Only their identities are stored, so depth costs no open files. */
  let above: Pick<BigIntStats, 'dev' | 'ino'>[] = []
  /** The names of `here` from the root, with links resolved. */
  let trail: ByteString[] = []
  /** In reverse order: the next name is the last of the list. */
  const names = requested.names.toReversed()
  let { wantsDirectory } = requested
  let linkCount = 0

  async function goTo(next: InodeHandle): Promise<void> {
    const left = here
    here = next
    await left.handle.close()
  }

  /**
   * Follows the file system's `..`, and trusts it only if it leads to the directory that we came from: a directory that was moved
   * meanwhile has another parent, which could be anything.
   */
  async function goUp(): Promise<void> {
    const expected = above.pop()
    if (expected === undefined) return
    trail.pop()
    await goTo(await openAbove(here))
    if (!isSameInode(here.info, expected)) throw changedMeanwhile(requested)
  }

  async function followLink(name: ByteString): Promise<void> {
    linkCount += 1
    if (linkCount > LINKS_MAX) {
      throw fileError('ERR_FILE_REFUSED', requested, `leads through more than ${LINKS_MAX} links, perhaps in a loop`)
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
    if (make === undefined) throw fileError('ERR_FILE_NOT_FOUND', requested, 'is in a directory that does not exist')
    await make(here, name, requested)
    const made = await openEntry(here, name, requested)
    if (made === undefined) throw changedMeanwhile(requested)
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
      throw fileError('ERR_NOT_A_DIRECTORY', requested, 'passes through something that is not a directory')
    }
    if (isFinal) return endedAt(name, found)
    above.push({ dev: here.info.dev, ino: here.info.ino })
    trail.push(name)
    await goTo(found)
    return undefined
  }

  async function run(): Promise<Walked> {
    for (let stepCount = 0; names.length > 0; stepCount += 1) {
      if (stepCount >= STEPS_MAX) throw fileError('ERR_FILE_REFUSED', requested, 'leads through too many directories')
      const name = names.pop()!
      if (name === '..') {
        await goUp()
        continue
      }
      requireInBoundary(name)
      const found = await openEntry(here, name, requested)
      if (found === undefined && names.length === 0) return endedAt(name, undefined)
      const ended = await visit(name, found ?? (await makeMissing(name)))
      if (ended !== undefined) return ended
    }
    if (boundary?.holds(trail) === false) throw boundary.refusal(requested.field)
    return endedAt(undefined, here)
  }

  /** A final link that will be followed is not the end of the walk, but it must be inside the boundary as well. */
  function requireInBoundary(name: ByteString): void {
    if (boundary === undefined) return
    const path = [...trail, name]
    if (!(names.length === 0 ? boundary.holds(path) : boundary.passes(path))) throw boundary.refusal(requested.field)
  }

  return { run, close: () => here.handle.close() }
}
