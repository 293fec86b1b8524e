import { mkdirSync, readFileSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from '../kernel/logger.ts'
import { callRoot } from './call-root.ts'
import type { IdMaps } from './init-processes.ts'
import type { Launcher } from './launcher.ts'

/** The user and group ids of one running workspace. */
export type IdRange = Readonly<{
  maps: IdMaps
  /** The ids of the workspace's root in the supervisor's namespace. */
  owner: Readonly<{ uid: number; gid: number }>
  /** The path of the state directory as an id-mapped mount for this workspace. */
  view: string
  /** Called after the last process of the workspace has ended. */
  release(): Promise<void>
}>
export type IdRanges = Readonly<{
  take(): Promise<IdRange>
  /** The supervisor's own range. Workspaces with host folders use it, because those folders are owned by it. */
  shared: IdRange
  /** Why workspaces share their ids; undefined if they do not. */
  problem: string | undefined
}>

type IdRangesDeps = Readonly<{
  root: string
  /** An empty folder in which the id-mapped mounts are made. */
  views: string
  /** Where ranges.pl listens. It does so only if the supervisor was started by root. */
  socketPath: string
  hasRanges: boolean
  launcher: Pick<Launcher, 'unmount'>
  logger: Logger
}>

const RANGE = 65_536
const mappedFolders = ['store', 'images']
type Block = Readonly<{ number: number; view: string }>

/**
 * No two running workspaces of the machine share a user id, because the kernel keeps many of its limits per user. Stored files
 * all belong to one range, whichever workspace wrote them, so that forks can share them; each workspace sees them through an
 * id-mapped mount. A range is in use only while processes run under it, and nothing about it is stored.
 */
export async function createIdRanges(deps: IdRangesDeps): Promise<IdRanges> {
  if (!deps.hasRanges) return sharedIds(deps.root, 'only root can give each workspace user ids of its own.')
  /** Allocated blocks that no view uses. */
  const free: number[] = []
  let made = 0
  async function mountBlock(): Promise<Block> {
    const name = String(++made)
    const view = join(deps.views, name)
    for (const folder of mappedFolders) mkdirSync(join(view, folder), { recursive: true, mode: 0o755 })
    const own = free.splice(0, 1)
    try {
      return { number: await askForBlock(deps.socketPath, [name, ...own].join(' ')), view }
    } catch (error) {
      free.push(...own)
      throw error
    }
  }
  async function unmountBlock({ number, view }: Block): Promise<void> {
    for (const folder of mappedFolders) {
      await deps.launcher.unmount(join(view, folder))
      rmdirSync(join(view, folder))
    }
    rmdirSync(view)
    free.push(number)
  }
  try {
    await unmountBlock(await mountBlock())
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    deps.logger.warn('workspaces share their user ids', { problem })
    return sharedIds(deps.root, `mounts that map user ids do not work here: ${problem}`)
  }
  return {
    problem: undefined,
    shared: sharedIds(deps.root, '').shared,
    async take() {
      const block = await mountBlock()
      const first = block.number * RANGE
      const map = `0 ${first} ${RANGE}\n`
      const release = (): Promise<void> =>
        unmountBlock(block).catch((error: unknown) =>
          deps.logger.warn('mapped mount could not be removed', { error: String(error) }),
        )
      return { maps: { uids: map, gids: map }, owner: { uid: first, gid: first }, view: block.view, release }
    },
  }
}

/** Without root, every workspace uses the ids of the supervisor. */
function sharedIds(root: string, problem: string): IdRanges {
  const sameIds = (map: string): string => identity(readFileSync(`/proc/self/${map}`, 'utf8'))
  const maps = { uids: sameIds('uid_map'), gids: sameIds('gid_map') }
  const owner = { uid: 0, gid: 0 }
  const shared: IdRange = { maps, owner, view: root, release: async () => {} }
  return { problem, shared, take: async () => shared }
}

/** The identity map of our own ids. A line of the map may not span two lines of ours, even if they are adjacent. */
function identity(ownMap: string): string {
  let left = RANGE
  return ownMap
    .trim()
    .split('\n')
    .map((line) => {
      const [first, , count] = line.trim().split(/\s+/)
      const taken = Math.min(left, Number(count))
      left -= taken
      return taken === 0 ? '' : `${first} ${first} ${taken}\n`
    })
    .join('')
}

/** `requested` is the name of a view, followed by the block to mount there if one is free. */
async function askForBlock(socketPath: string, requested: string): Promise<number> {
  return Number(await callRoot(socketPath, `show ${requested}`))
}
