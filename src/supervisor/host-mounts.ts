import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { AppError } from '../contract/app-error.ts'
import type { HostMount } from '../domains/workspaces/backend.ts'
import { sha256Hex } from '../kernel/hash.ts'

/** Where launch.sh mounts the host folders that the operator allows. */
const FOLDERS = '/mnt/folders'
const FOLDER_NAME_CHARS = 16

const NEXT =
  'To restart the supervisor, stop every workspace and the server, and run castellan doctor, which ends it. The next use of a workspace starts a new one.'

/** Resolves the mounts of a workspace. `named` lists the folders that launch.sh was given, as `rw PATH` or `ro PATH`. */
export function createHostMounts(named: readonly string[]) {
  return ({ root, ...mount }: HostMount) => {
    const name = sha256Hex(root).slice(0, FOLDER_NAME_CHARS)
    const source = join(FOLDERS, mount.readOnly ? name : `${name}.rw`)
    if (existsSync(source)) return { ...mount, source }
    if (!named.includes(`rw ${root}`) && !(mount.readOnly && named.includes(`ro ${root}`))) {
      throw new AppError(
        'ERR_CAPABILITY_MISSING',
        `mount: the running supervisor does not know ${root}, because it was started before the entry was added to workspaces.mounts. ${NEXT}`,
        { field: 'mount', root },
      )
    }
    const reasons = mount.readOnly
      ? 'did not exist, or access was denied'
      : 'did not exist, access was denied, or it was to be writable although other users of this machine may enter it (chmod o-x closes it)'
    throw new AppError(
      'ERR_CAPABILITY_MISSING',
      `mount: ${root} could not be mounted when the supervisor started. It ${reasons}; workspaces/supervisor.log in the data directory has the reason. Correct it. ${NEXT}`,
      { field: 'mount', root },
    )
  }
}

export type HostMounts = ReturnType<typeof createHostMounts>
