import { AppError } from '../../contract/app-error.ts'
import type { DiskShortage, DiskWatch } from '../../contract/disk-watch.ts'

/** Rejects while the disk of the data directory is nearly full. */
export function requireSpace(disk: DiskWatch): void | Promise<void> {
  const shortage = disk.shortage()
  if (shortage === undefined) return
  return shortage instanceof Promise ? shortage.then(requireNoShortage) : requireNoShortage(shortage)
}

function requireNoShortage(shortage: DiskShortage | undefined): void {
  if (shortage === undefined) return
  throw new AppError(
    'ERR_DISK_FULL',
    `The disk of the data directory is nearly full: ${shortage.free} bytes are free, and ${shortage.needed} are required before anything more is written. Destroy what is not needed, or ask the operator to free space.`,
    { ...shortage },
  )
}
