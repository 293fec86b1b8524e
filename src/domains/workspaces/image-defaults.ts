import { AppError } from '../../contract/app-error.ts'
import type { ImageInfo, WorkspaceBackend } from './backend.ts'
import type { Workspace } from './ports.ts'

/** The image's defaults for commands. */
export type ImageDefaults = Readonly<{ env: Readonly<Record<string, string>>; workdir: string | undefined }>

/** Where repositories are, and where commands start unless the image names another directory. */
const WORKSPACE_FOLDER = '/workspace'
const REMEMBERED_MAX = 1_000
/** The back end always has this image, and it has no defaults. */
const HOST_IMAGE = 'host'
const none: ImageDefaults = { env: {}, workdir: undefined }

/** An image does not change while a workspace uses it, so it is read once per workspace. */
export function createImageDefaults(backend: Pick<WorkspaceBackend, 'images'>) {
  const remembered = new Map<string, ImageDefaults>()
  return async ({ id, image }: Pick<Workspace, 'id' | 'image'>): Promise<ImageDefaults> => {
    if (image === HOST_IMAGE) return none
    const known = remembered.get(id)
    if (known !== undefined) return known
    const found: ImageInfo | undefined = (await backend.images()).find(({ name }) => name === image)
    const defaults = { env: found?.env ?? {}, workdir: found?.workdir }
    if (remembered.size >= REMEMBERED_MAX) remembered.clear()
    remembered.set(id, defaults)
    return defaults
  }
}

/**
 * Runs in the caller's directory; otherwise in the image's, otherwise in /workspace, and in / if that does not exist. A missing
 * directory is refused before anything runs, so the next one can be tried.
 */
export async function inWorkdir<T>(
  requested: string | undefined,
  { workdir }: ImageDefaults,
  run: (workdir: string) => Promise<T>,
): Promise<T> {
  if (requested !== undefined) return await run(requested)
  for (const folder of workdir === undefined ? [WORKSPACE_FOLDER] : [workdir, WORKSPACE_FOLDER]) {
    try {
      return await run(folder)
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'ERR_INVALID_INPUT' || error.details['field'] !== 'workdir') {
        throw error
      }
    }
  }
  return await run('/')
}

/** Refuses a missing image before anything is done. The host image is not looked up. */
export function createRequireImage(backend: Pick<WorkspaceBackend, 'images'>) {
  let isHostKnown = false
  return async (image: string): Promise<void> => {
    if (image === HOST_IMAGE && isHostKnown) return
    const known = (await backend.images()).map(({ name }) => name)
    isHostKnown = known.includes(HOST_IMAGE)
    if (known.includes(image)) return
    const advice = `use one of ${known.join(', ')}, or have the operator build it; see castellan image list`
    throw new AppError('ERR_NOT_FOUND', `base_image: there is no such image; ${advice}`, { field: 'base_image' })
  }
}
