import type { Call } from '../../contract/call.ts'
import { folderNotFound, noteNotFound } from './rules.ts'

/** The names of the teams that the caller may see; undefined if the caller may see everything. */
export type VisibleTeams = (call: Call) => Promise<ReadonlySet<string> | undefined>

const TEAMS_FOLDER = 'teams'

/**
 * The folder `teams/NAME` is visible only to callers who may see the team. For all others there is no such team:
 * nothing in the folder is found, listed, searched or written, whether or not it exists.
 */
const teamOfFolder = (path: string): string | undefined => {
  const [top, team] = path.split('/')
  return top === TEAMS_FOLDER && team !== undefined && team !== '' ? team : undefined
}

const parentOf = (path: string): string => path.slice(0, Math.max(path.lastIndexOf('/'), 0))

/** What a walk omits, for one caller. */
export async function hiddenFolders(visibleTeams: VisibleTeams, call: Call): Promise<(folder: string) => boolean> {
  const visible = await visibleTeams(call)
  if (visible === undefined) return () => false
  return (folder) => {
    const team = teamOfFolder(folder)
    return team !== undefined && !visible.has(team)
  }
}

/** Paths are not checked here: invalid ones are refused later, and lead nowhere. */
export async function requireSeen(
  visibleTeams: VisibleTeams,
  call: Call,
  { path, field = 'path', isFolder = false }: Readonly<{ path: string; field?: string; isFolder?: boolean }>,
): Promise<void> {
  const folder = isFolder ? path : parentOf(path)
  if (teamOfFolder(folder) === undefined || !(await hiddenFolders(visibleTeams, call))(folder)) return
  throw isFolder ? folderNotFound(path) : noteNotFound(path, field)
}

/** The teams in whose folders these notes are. */
export const teamsOfNotes = (paths: Iterable<string>): ReadonlySet<string> =>
  new Set([...paths].flatMap((path) => teamOfFolder(parentOf(path)) ?? []))

/** Files that the program itself writes about a team's members, which can be read like notes. */
export const isCard = (path: string): boolean => /^teams\/[^/]+\/cards\/[^/]+\.json$/.test(path)
