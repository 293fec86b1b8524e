import { AppError } from '../../contract/app-error.ts'
import type { ImageInfo, WorkspaceBackend } from './backend.ts'
import type { Workspace } from './ports.ts'
import { invalid } from './rules.ts'

/** What an image says for the commands that are run in it, where nobody else says anything. */
export type ImageDefaults = Readonly<{ env: Readonly<Record<string, string>>; workdir: string | undefined }>

/** Where repositories are, and where commands begin unless the image names another place. */
const WORKSPACE_FOLDER = '/workspace'
const REMEMBERED_MAX = 1_000
/** Made of the host itself: the back end always has it, and it says nothing for commands. */
const HOST_IMAGE = 'host'
const none: ImageDefaults = { env: {}, workdir: undefined }

/** An image stays as it is while a workspace lies on it, so it is asked for once for each workspace. */
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
 * Runs where the caller says; else where the image says, else in /workspace, and in the root directory when that is not
 * there. A folder that is not there is refused before anything is run, so the next place can be tried.
 */
export async function inWorkdir<T>(
  wanted: string | undefined,
  { workdir }: ImageDefaults,
  run: (workdir: string) => Promise<T>,
): Promise<T> {
  if (wanted !== undefined) return await run(wanted)
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

/** Refuses an image that is not there before anything is done. Only the host's is not asked for each time. */
export function createRequireImage(backend: Pick<WorkspaceBackend, 'images'>) {
  let isHostKnown = false
  return async (image: string): Promise<void> => {
    if (image === HOST_IMAGE && isHostKnown) return
    const known = (await backend.images()).map(({ name }) => name)
    isHostKnown = known.includes(HOST_IMAGE)
    if (known.includes(image)) return
    const advice = `use one of ${known.join(', ')}, or have the operator build it; see castellan image list`
    throw invalid('base_image', `there is no such image; ${advice}`)
  }
}
