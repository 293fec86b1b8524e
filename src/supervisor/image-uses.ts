import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '../contract/app-error.ts'
import { HOST_IMAGE, imageNotFound } from './images/image-folder.ts'

/**
 * Which image each workspace lies on, running or not. Kept on disk, one file each: what a stopped workspace lies on must
 * not be removed either. The image of the host always stays, so nobody notes its use.
 */
type ImageUses = Readonly<{
  /** From now on the image stays. One that is being removed counts as gone. */
  take(id: string, image: string): Promise<void>
  release(id: string): Promise<void>
  /** Every workspace that has one noted. */
  initProcesses(): readonly string[]
  /** Does `remove` while nobody can begin to use the image; refuses while it is used. */
  whileUnused(image: string, remove: () => Promise<void>): Promise<void>
}>

const NAMED_MAX = 10

export async function createImageUses(directory: string): Promise<ImageUses> {
  await mkdir(directory, { recursive: true })
  const uses = new Map<string, string>()
  for (const id of await readdir(directory)) uses.set(id, await readFile(join(directory, id), 'utf8'))
  const leaving = new Set<string>()
  return {
    async take(id, image) {
      if (image === HOST_IMAGE || uses.get(id) === image) return
      if (leaving.has(image)) throw imageNotFound(image)
      uses.set(id, image)
      await writeFile(join(directory, id), image)
    },
    async release(id) {
      if (!uses.has(id)) return
      await rm(join(directory, id), { force: true })
      uses.delete(id)
    },
    initProcesses: () => [...uses.keys()],
    async whileUnused(image, remove) {
      const ids = [...uses].flatMap(([id, used]) => (used === image ? [id] : []))
      if (ids.length > 0) throw inUse(image, ids)
      leaving.add(image)
      try {
        await remove()
      } finally {
        leaving.delete(image)
      }
    },
  }
}

function inUse(image: string, ids: readonly string[]): AppError {
  const named = ids.slice(0, NAMED_MAX).join(', ')
  const more = ids.length > NAMED_MAX ? ` and ${ids.length - NAMED_MAX} more` : ''
  return new AppError(
    'ERR_IMAGE_IN_USE',
    `The image '${image}' is used by ${ids.length === 1 ? 'the workspace' : `${ids.length} workspaces:`} ${named}${more}. Destroy them first.`,
    { field: 'name', name: image, workspaces: ids.slice(0, NAMED_MAX), count: ids.length },
  )
}
