import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, lstat, mkdir, open, readdir, readFile, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '../../contract/app-error.ts'
import type { ImageInfo } from '../../domains/workspaces/backend.ts'
import type { Random } from '../../kernel/random.ts'
import { SYSTEM_PATH } from '../user-namespace.ts'
import { type BuildEnvironment, type Entrance, runInBuildEnvironment } from './build-environment.ts'

/**
 * The folder of all images: `NAME/rootfs` and `NAME/image.json`. A name that begins with a dot is being built or removed; if a
 * crash left it behind, the next change of the folder removes it.
 */
export const HOST_IMAGE = 'host'
const namePattern = /^[a-z0-9][a-z0-9._-]{0,62}$/

export function requireImageName(name: string): string {
  if (namePattern.test(name)) return name
  throw new AppError(
    'ERR_INVALID_INPUT',
    'The name of an image has 1 to 63 characters of a-z, 0-9, dot, underscore and hyphen, and begins with a letter or digit.',
    { field: 'name' },
  )
}

export async function listImages(root: string): Promise<readonly ImageInfo[]> {
  const names = await readdir(root).catch(() => [])
  const found = await Promise.all(names.filter((name) => namePattern.test(name)).map((name) => readImage(root, name)))
  return found.filter((image) => image !== undefined).sort((a, b) => (a.name < b.name ? -1 : 1))
}

export async function readImage(root: string, name: string): Promise<ImageInfo | undefined> {
  try {
    const { source, createdAtMs, bytes, packages, env, workdir } = JSON.parse(
      await readFile(join(root, name, 'image.json'), 'utf8'),
    ) as ImageInfo
    const defaults = { ...(env === undefined ? {} : { env }), ...(workdir === undefined ? {} : { workdir }) }
    return { name, source, createdAtMs, bytes, packages, ...defaults }
  } catch {
    return undefined
  }
}

export const imageNotFound = (name: string): AppError =>
  new AppError('ERR_NOT_FOUND', `There is no image '${name}'. See: castellan image list`, { field: 'name', name })

export async function removeImage(
  deps: Readonly<{ buildEnvironment: Entrance; random: Random }>,
  root: string,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  requireImageName(name)
  if (name === HOST_IMAGE) {
    throw new AppError(
      'ERR_INVALID_INPUT',
      "The image 'host' consists of the programs of this machine and cannot be removed.",
      {
        field: 'name',
      },
    )
  }
  if ((await readImage(root, name)) === undefined) throw imageNotFound(name)
  await withFolderLock(root, async () => {
    await rename(join(root, name), join(root, hiddenName('removing', deps.random))).catch((error) => {
      throw (error as NodeJS.ErrnoException).code === 'ENOENT' ? imageNotFound(name) : error
    })
    await removeAbandoned(deps.buildEnvironment, root, signal)
  })
}

export const hiddenName = (why: 'building' | 'removing' | 'assembling', random: Random): string =>
  `.${why}-${random.bytes(8).toString('hex')}`

/** The caller must hold the folder lock, so that no other process is working on any of them. */
export async function removeAbandoned(buildEnvironment: Entrance, root: string, signal: AbortSignal): Promise<void> {
  const hidden = (await readdir(root)).filter((name) => /^\.(building|removing)-/.test(name))
  if (hidden.length === 0) return
  const argv = ['rm', '-rf', '--', ...hidden.map((name) => `./${name}`)]
  await runInBuildEnvironment(buildEnvironment, { argv, directory: root, signal })
}

/** A directory owned by the root of the namespace. */
export async function makeOwnedDirectory(
  buildEnvironment: BuildEnvironment,
  path: string,
  mode: number,
): Promise<void> {
  const made = await mkdir(path, { recursive: true, mode: 0o700 })
  if (made !== undefined) await chmod(path, mode)
  const { uid } = await lstat(path)
  if (uid !== buildEnvironment.owner.uid) await chown(path, buildEnvironment.owner.uid, buildEnvironment.owner.gid)
}

/**
 * Serialises changes across processes and namespaces. The lock is a flock on the folder, held by a child that ends with this
 * process.
 */
export async function withFolderLock<T>(root: string, work: () => Promise<T>): Promise<T> {
  const initProcess = spawn('flock', ['--nonblock', '--no-fork', '.', 'cat'], {
    cwd: root,
    stdio: ['pipe', 'pipe', 'ignore'],
    env: { PATH: SYSTEM_PATH },
    detached: true,
  })
  initProcess.stdin.on('error', () => {})
  initProcess.stdin.write('\n')
  const ended = once(initProcess, 'close').then(
    () => false,
    () => false,
  )
  const answered = once(initProcess.stdout, 'data').then(() => true)
  answered.catch(() => {})
  if (!(await Promise.race([answered, ended]))) {
    throw new AppError('ERR_BUSY', 'Another image is being built or removed. Wait for it, then try again.', {
      field: 'name',
    })
  }
  try {
    return await work()
  } finally {
    initProcess.stdin.end()
    await ended
  }
}

/** The new name is durable when this resolves. */
export async function publish(root: string, hidden: string, name: string): Promise<void> {
  await rename(join(root, hidden), join(root, name))
  const folder = await open(root, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
