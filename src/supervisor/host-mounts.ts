import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { AppError } from '../contract/app-error.ts'
import type { HostMount } from '../domains/workspaces/backend.ts'
import { sha256Hex } from '../kernel/hash.ts'

/** Where launch.sh puts the folders that the operator allows, as files of the workspaces' own root. */
const FOLDERS = '/mnt/folders'
const FOLDER_NAME_CHARS = 16

export function hostMount({ root, ...mount }: HostMount) {
  const name = sha256Hex(root).slice(0, FOLDER_NAME_CHARS)
  const source = join(FOLDERS, mount.readOnly ? name : `${name}.rw`)
  if (existsSync(source)) return { ...mount, source }
  throw new AppError(
    'ERR_CAPABILITY_MISSING',
    `mount: ${root} could not be mounted when the supervisor of the workspaces started: it did not exist, was not allowed, or was to be writable although other users of this machine can change it. The log of the supervisor says which. Correct that, stop every workspace and stop the server: half a minute later the supervisor ends, and the next use starts a new one.`,
    { field: 'mount', root },
  )
}
