import type { Resources } from '../domains/workspaces/backend.ts'
import { counted } from '../kernel/counted.ts'

/** For the log of a workspace: the limits that it has. */
export const resourcesText = (
  { memoryMb, vcpus, diskGb }: Resources,
  { hasDiskLimits }: Readonly<{ hasDiskLimits: boolean }>,
): string =>
  [
    `${memoryMb} MiB of memory`,
    counted(vcpus, 'processor', 'processors'),
    ...(hasDiskLimits ? [`${diskGb} GiB of disk`] : []),
  ].join(', ')
