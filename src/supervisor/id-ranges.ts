import { readFileSync } from 'node:fs'
import type { IdMaps } from './first-processes.ts'

/** The ids of one running workspace. */
export type IdRange = Readonly<{
  maps: IdMaps
  /** Where the workspace finds the files of our state, as its own. */
  view: string
  /** Once nothing of the workspace runs any more. */
  release(): void
}>
export type IdRanges = Readonly<{ take(): Promise<IdRange> }>

/** Every workspace has the ids that the supervisor itself has. */
export function createIdRanges(root: string): IdRanges {
  const sameIds = (map: string): string => identity(readFileSync(`/proc/self/${map}`, 'utf8'))
  const maps = { uids: sameIds('uid_map'), gids: sameIds('gid_map') }
  return { take: async () => ({ maps, view: root, release() {} }) }
}

/** Every id of ours for itself. No line may reach over the end of one of our own, though they follow each other. */
function identity(ownMap: string): string {
  const lines = ownMap.trim().split('\n')
  return lines
    .map((line) => {
      const [first, , count] = line.trim().split(/\s+/)
      return `${first} ${first} ${count}\n`
    })
    .join('')
}
