import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { ensureSupervisor, socketPathOf } from '../../backends/namespaces/start-supervisor.ts'
import { createAsk } from '../../backends/namespaces/supervisor-client.ts'
import { AppError } from '../../contract/app-error.ts'
import type { ImageInfo } from '../../domains/workspaces/backend.ts'
import { systemClock } from '../../kernel/clock.ts'
import { systemRandom } from '../../kernel/random.ts'
import { type BuildImageRequest, type BuiltImage, buildImage } from '../../supervisor/images/build-image.ts'
import { HOST_IMAGE, listImages, removeImage } from '../../supervisor/images/image-folder.ts'
import { openUserNamespace, type UserNamespace } from '../../supervisor/user-namespace.ts'
import type { Config } from '../config.ts'
import { stateDirectory } from '../state-directory.ts'
import { supervisorOptions } from './open-backend.ts'

export type { ImageSource } from '../../supervisor/images/build-image.ts'

/** `createdAtMs` is null for `host` before any workspace has used it. */
type ListedImage = Omit<ImageInfo, 'createdAtMs'> & Readonly<{ createdAtMs: number | null }>

/** The images of the workspaces whose records are in the configured store. */
export type ImageService = Readonly<{
  list(): Promise<readonly ListedImage[]>
  build(request: BuildImageRequest): Promise<BuiltImage>
  /** Refuses while any workspace of any owner uses it. */
  remove(name: string, signal: AbortSignal): Promise<void>
}>

const unusedHost: ListedImage = { name: HOST_IMAGE, source: 'host', createdAtMs: null, bytes: 0, packages: false }

export function openImages({ config, version }: { config: Config; version: string }): ImageService {
  if (config.mode === 'TEST') {
    throw new AppError(
      'ERR_MODE_REFUSED',
      'In mode TEST, workspaces are in a temporary directory and start from the image host. Choose another mode.',
      { field: 'mode' },
    )
  }
  const options = supervisorOptions(config, stateDirectory(config), version)
  const { state } = options
  const root = join(state, 'images')
  return {
    async list() {
      const found = await listImages(root)
      return found.some(({ name }) => name === HOST_IMAGE) ? found : [unusedHost, ...found]
    },
    build: (request) =>
      inBuildEnvironment((buildEnvironment) =>
        buildImage({ buildEnvironment, root, clock: systemClock, random: systemRandom }, request),
      ),
    async remove(name, signal) {
      if (!(await hasSupervisorRun(state))) {
        return await inBuildEnvironment((buildEnvironment) =>
          removeImage({ buildEnvironment, random: systemRandom }, root, name, signal),
        )
      }
      // Only the supervisor knows what uses the image, and can prevent new uses.
      await ensureSupervisor(options)
      await createAsk(socketPathOf(state))('removeImage', { name }, { signal })
    },
  }
}

/** If it never ran, there is no workspace, and it may be unable to run. */
const hasSupervisorRun = (state: string): Promise<boolean> =>
  access(join(state, 'supervisor.lock')).then(
    () => true,
    () => false,
  )

/** In the namespace that owns the files of images. */
async function inBuildEnvironment<T>(work: (buildEnvironment: UserNamespace) => Promise<T>): Promise<T> {
  const buildEnvironment = await openUserNamespace()
  try {
    return await work(buildEnvironment)
  } finally {
    await buildEnvironment.close()
  }
}
