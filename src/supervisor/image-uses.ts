import { AppError } from '../contract/app-error.ts'
import { HOST_IMAGE, imageNotFound } from './images/image-folder.ts'
import { openWorkspaceRecords } from './workspace-records.ts'

/**
 * The image of each workspace, running or stopped. It is persisted, because the image of a stopped workspace must not be removed
 * either. The host image is never removed, so its use is not recorded.
 */
type ImageUses = Readonly<{
  /** Pins the image. Refuses an image that is being removed. */
  take(id: string, image: string): Promise<void>
  release(id: string): Promise<void>
  workspaceIds(): readonly string[]
  /** Runs `remove` while no workspace can start to use the image. Refuses if the image is in use. */
  whileUnused(image: string, remove: () => Promise<void>): Promise<void>
}>

const NAMED_MAX = 10

export async function createImageUses(directory: string): Promise<ImageUses> {
  const uses = await openWorkspaceRecords<string>(directory, { write: (image) => image, read: (text) => text })
  const leaving = new Set<string>()
  return {
    async take(id, image) {
      if (image === HOST_IMAGE || uses.get(id) === image) return
      if (leaving.has(image)) throw imageNotFound(image)
      await uses.put(id, image)
    },
    release: uses.remove,
    workspaceIds: uses.workspaceIds,
    async whileUnused(image, remove) {
      const ids = [...uses.entries()].flatMap(([id, used]) => (used === image ? [id] : []))
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
