import { realpath } from 'node:fs/promises'
import { dirname, join, resolve, sep } from 'node:path'

export const SKILLS_FOLDER = join('.agents', 'skills')

export const isInside = (folder: string, path: string): boolean =>
  path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep)

/**
 * Where skills may be read. All paths are real, without links, so that comparing them decides. A refusal is the reason, for the
 * operator; undefined means that the path may be read.
 */
export type SkillBoundary = Readonly<{
  /** Whether the folder that holds skills may be listed. */
  refusalOfSkillsFolder(folder: string): string | undefined
  /** Whether the folder of one skill may be listed and its files opened. */
  refusalOfSkill(folder: string): string | undefined
  isProtected(path: string): boolean
}>

/**
 * A protected directory holds open files of this process. Opening and closing any of them would drop this process's locks on
 * them, so nothing in there is touched except its own skills folder.
 */
export async function findSkillBoundary(
  roots: readonly string[],
  protectedDirectories: readonly string[],
): Promise<SkillBoundary> {
  const realRoots = await existing(roots)
  const skillsFolders = await existing(roots.map((root) => join(root, SKILLS_FOLDER)))
  const protectedFolders = await Promise.all(
    protectedDirectories.map((directory) => realpath(directory).catch(() => resolve(directory))),
  )

  const isProtected = (path: string): boolean =>
    protectedFolders.some((folder) => isInside(folder, path) && !isInside(join(folder, SKILLS_FOLDER), path))

  return {
    isProtected,
    refusalOfSkillsFolder(folder) {
      if (isProtected(folder)) return 'it is in the data directory, which is never served'
      if (realRoots.some((root) => isInside(root, folder))) return undefined
      return 'it is a link that leaves the skill roots; add its target as a root'
    },
    refusalOfSkill(folder) {
      if (isProtected(folder)) return 'its folder is in the data directory, which is never served'
      if (protectedFolders.some((inner) => isInside(folder, inner))) {
        return 'its folder contains the data directory, which is never served'
      }
      if (skillsFolders.includes(dirname(folder))) return undefined
      return 'its folder is a link that leaves the skills folders of the roots; link to a skill in .agents/skills of a root'
    },
  }
}

async function existing(paths: readonly string[]): Promise<string[]> {
  const found = await Promise.all(paths.map((path) => realpath(path).catch(() => undefined)))
  return found.filter((path) => path !== undefined)
}
