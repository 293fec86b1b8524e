import { mkdirSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Logger } from '../kernel/logger.ts'
import type { IdMaps } from './first-processes.ts'

/** The ids of one running workspace. */
export type IdRange = Readonly<{
  maps: IdMaps
  /** Its root, as the supervisor's ids name it. */
  owner: Readonly<{ uid: number; gid: number }>
  /** Where our state is, under the ids of the workspace. */
  view: string
  /** Once nothing of the workspace runs any more. */
  release(): void
}>
export type IdRanges = Readonly<{
  take(): Promise<IdRange>
  /** Why workspaces share their ids, if they do. */
  problem: string | undefined
}>

export type IdRangesDeps = Readonly<{
  root: string
  /** An empty folder for the views. */
  views: string
  /** Where ranges.pl listens; it does so only with root. */
  socketPath: string
  hasRanges: boolean
  logger: Logger
}>

const RANGE = 65_536
type Block = Readonly<{ number: number; view: string }>

/**
 * No two running workspaces of the machine have a user id in common, because the kernel counts much of what it has for each
 * user. What is stored belongs to one and the same range, whoever has made it, so that forks share it; a workspace sees it
 * through mounts that map ids. A range matters only while something runs under it: nothing of it is kept anywhere.
 */
export async function createIdRanges(deps: IdRangesDeps): Promise<IdRanges> {
  if (!deps.hasRanges) return sharedIds(deps.root, 'only root can give each workspace user ids of its own.')
  const free: Block[] = []
  let made = 0
  const make = async (): Promise<Block> => {
    const name = String(++made)
    const view = join(deps.views, name)
    for (const folder of ['store', 'images']) mkdirSync(join(view, folder), { recursive: true, mode: 0o755 })
    return { number: await askForBlock(deps.socketPath, name), view }
  }
  try {
    free.push(await make())
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    deps.logger.warn('workspaces share their user ids', { problem })
    return sharedIds(deps.root, `mounts that map user ids do not work here: ${problem}`)
  }
  return {
    problem: undefined,
    async take() {
      const block = free.pop() ?? (await make())
      const first = block.number * RANGE
      const map = `0 ${first} ${RANGE}\n`
      const release = (): void => void free.push(block)
      return { maps: { uids: map, gids: map }, owner: { uid: first, gid: first }, view: block.view, release }
    },
  }
}

/** Every workspace has the ids that the supervisor itself has, as far as a workspace can use them. */
function sharedIds(root: string, problem: string): IdRanges {
  const sameIds = (map: string): string => identity(readFileSync(`/proc/self/${map}`, 'utf8'))
  const maps = { uids: sameIds('uid_map'), gids: sameIds('gid_map') }
  const owner = { uid: 0, gid: 0 }
  return { problem, take: async () => ({ maps, owner, view: root, release() {} }) }
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

async function askForBlock(socketPath: string, name: string): Promise<number> {
  const socket = connect(socketPath)
  socket.write(`take ${name}\n`)
  const answer = (await text(socket)).trim()
  const block = /^ok (\d+)$/.exec(answer)?.[1]
  if (block === undefined) throw new Error(answer.replace(/^failed /, '') || 'no answer')
  return Number(block)
}
