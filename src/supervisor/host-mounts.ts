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
    `mount: ${root} was not there, not allowed, or open to other users of this machine and wanted for writing, when the supervisor of the workspaces started; its log says which. Mend that, stop every workspace and end the server: half a minute later the supervisor ends, and the next use starts it anew.`,
    { field: 'mount', root },
  )
}
