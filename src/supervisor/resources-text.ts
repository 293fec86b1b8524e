import type { Resources } from '../domains/workspaces/backend.ts'
import { counted } from '../kernel/counted.ts'

/** The limits of a workspace as text for its log. */
export const resourcesText = (
  { memoryMb, vcpus, diskGb }: Resources,
  { hasDiskLimits }: Readonly<{ hasDiskLimits: boolean }>,
): string =>
  [
    `${memoryMb} MiB of memory`,
    counted(vcpus, 'processor', 'processors'),
    ...(hasDiskLimits ? [`${diskGb} GiB of disk`] : []),
  ].join(', ')
