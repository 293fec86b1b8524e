import { mkdirSync, readFileSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from '../kernel/logger.ts'
import { askRoot } from './ask-root.ts'
import type { IdMaps } from './init-processes.ts'
import type { Launcher } from './launcher.ts'

/** The ids of one running workspace. */
export type IdRange = Readonly<{
  maps: IdMaps
  /** Its root, as the supervisor's ids name it. */
  owner: Readonly<{ uid: number; gid: number }>
  /** Where our state is, under the ids of the workspace. */
  view: string
  /** Once nothing of the workspace runs any more. */
  release(): Promise<void>
}>
export type IdRanges = Readonly<{
  take(): Promise<IdRange>
  /** The supervisor's own, for workspaces with folders of the host, which are shown as that range's. */
  shared: IdRange
  /** Why workspaces share their ids, if they do. */
  problem: string | undefined
}>

type IdRangesDeps = Readonly<{
  root: string
  /** An empty folder for the views. */
  views: string
  /** Where ranges.pl listens; it does so only with root. */
  socketPath: string
  hasRanges: boolean
  launcher: Pick<Launcher, 'unmount'>
  logger: Logger
}>

const RANGE = 65_536
const displayed = ['store', 'images']
type Block = Readonly<{ number: number; view: string }>

/**
 * No two running workspaces of the machine have a user id in common, because the kernel counts much of what it has for each
 * user. What is stored belongs to one and the same range, whichever workspace made it, so that forks share it; a workspace sees it
 * through mounts that map ids. A range matters only while something runs under it: nothing of it is kept anywhere.
 */
export async function createIdRanges(deps: IdRangesDeps): Promise<IdRanges> {
  if (!deps.hasRanges) return sharedIds(deps.root, 'only root can give each workspace user ids of its own.')
  /** Ours, and without a view. */
  const free: number[] = []
  let made = 0
  async function show(): Promise<Block> {
    const name = String(++made)
    const view = join(deps.views, name)
    for (const folder of displayed) mkdirSync(join(view, folder), { recursive: true, mode: 0o755 })
    const own = free.splice(0, 1)
    try {
      return { number: await askForBlock(deps.socketPath, [name, ...own].join(' ')), view }
    } catch (error) {
      free.push(...own)
      throw error
    }
  }
  async function hide({ number, view }: Block): Promise<void> {
    for (const folder of displayed) {
      await deps.launcher.unmount(join(view, folder))
      rmdirSync(join(view, folder))
    }
    rmdirSync(view)
    free.push(number)
  }
  try {
    await hide(await show())
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    deps.logger.warn('workspaces share their user ids', { problem })
    return sharedIds(deps.root, `mounts that map user ids do not work here: ${problem}`)
  }
  return {
    problem: undefined,
    shared: sharedIds(deps.root, '').shared,
    async take() {
      const block = await show()
      const first = block.number * RANGE
      const map = `0 ${first} ${RANGE}\n`
      const release = (): Promise<void> =>
        hide(block).catch((error: unknown) =>
          deps.logger.warn('a mapped mount could not be removed', { error: String(error) }),
        )
      return { maps: { uids: map, gids: map }, owner: { uid: first, gid: first }, view: block.view, release }
    },
  }
}

/** Every workspace has the ids that the supervisor itself has, as far as a workspace can use them. */
function sharedIds(root: string, problem: string): IdRanges {
  const sameIds = (map: string): string => identity(readFileSync(`/proc/self/${map}`, 'utf8'))
  const maps = { uids: sameIds('uid_map'), gids: sameIds('gid_map') }
  const owner = { uid: 0, gid: 0 }
  const shared: IdRange = { maps, owner, view: root, release: async () => {} }
  return { problem, shared, take: async () => shared }
}

/** Every id of ours for itself. No line may reach over the end of one of our own, though they follow each other. */
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

/** `wanted` is the name of a view, and the block that it is to show if there is one. */
async function askForBlock(socketPath: string, wanted: string): Promise<number> {
  return Number(await askRoot(socketPath, `show ${wanted}`))
}
