import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { diskShortage } from '../../stores/files/disk-reserve.ts'

/** Whether writing calls are refused because the disk is full; a directory with workspaces has a reserve. */
export const shortageOf = (directory: string): ReturnType<typeof diskShortage> =>
  diskShortage(directory, existsSync(join(directory, 'workspaces')))
