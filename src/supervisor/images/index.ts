import { join } from 'node:path'
import type { ImageInfo } from '../../domains/workspaces/backend.ts'
import { type Clock, systemClock } from '../../kernel/clock.ts'
import { type Random, systemRandom } from '../../kernel/random.ts'
import type { Entrance } from './build-environment.ts'
import { assembleHostImage, type Bind, type HostImage } from './host-image.ts'
import { HOST_IMAGE, imageNotFound, listImages, readImage, removeImage, requireImageName } from './image-folder.ts'

type UsableImage = Readonly<{
  /** The root file system. Read-only. */
  root: string
  packages: boolean
  /** Read-only bind mounts to make in it. */
  binds: readonly Bind[]
}>

export type Images = Readonly<{
  list(): Promise<readonly ImageInfo[]>
  find(name: string): Promise<UsableImage>
  /** No workspace may be using the image. */
  remove(name: string, signal: AbortSignal): Promise<void>
}>

/** The supervisor is already root of the namespace. */
const here: Entrance = { enterArgv: () => [] }

/**
 * The images that workspaces start from. `host` is created at its first use and then stays unchanged for the life of this object,
 * because workspaces run on it.
 */
export function createImages(deps: { root: string; clock?: Clock; random?: Random }): Images {
  const { root, clock = systemClock, random = systemRandom } = deps
  let host: Promise<HostImage> | undefined
  const findHost = (): Promise<HostImage> => {
    host ??= assembleHostImage(join(root, HOST_IMAGE), { clock, random })
    host.catch(() => {
      host = undefined
    })
    return host
  }
  return {
    async list() {
      await findHost()
      return await listImages(root)
    },
    async find(name) {
      if (name === HOST_IMAGE) {
        const { binds } = await findHost()
        return { root: join(root, HOST_IMAGE, 'rootfs'), packages: false, binds }
      }
      const image = await readImage(root, requireImageName(name))
      if (image === undefined) throw imageNotFound(name)
      return { root: join(root, name, 'rootfs'), packages: image.packages, binds: [] }
    },
    remove: (name, signal) => removeImage({ buildEnvironment: here, random }, root, name, signal),
  }
}
