import { AppError } from '../../contract/app-error.ts'
import { shellWord } from '../../kernel/shell-word.ts'

/** A folder with its size limit, and the field that sets the limit. */
export type BoundedVolume = Readonly<{ name: string; path: string; bytesMax: number; field: string }>
export type VolumeSize = Readonly<{ path: string; bytes: number }>

/** Prints the size of each path, one line each: `BYTES PATH`. A missing path has size 0. */
export const measuringScript = (volumes: readonly BoundedVolume[]): string =>
  volumes
    .map(({ path }) => {
      const at = shellWord(path)
      // Small images have a du that only counts kilobytes.
      return `if [ -e ${at} ]; then s=$(du -sb ${at} 2>/dev/null || du -sk ${at} | awk '{print $1 * 1024}'); else s=0; fi; echo "\${s%%[!0-9]*} "${at}`
    })
    .join('\n')

/** Parses the script's output. A volume that could not be measured counts as exceeding its limit. */
export function readSizes(stdout: string, volumes: readonly BoundedVolume[]): VolumeSize[] {
  const lines = stdout.split('\n')
  return volumes.map(({ path, name, field }) => {
    const line = lines.find((one) => one.endsWith(` ${path}`)) ?? ''
    const digits = /^(\d+) /.exec(line)?.[1]
    if (digits !== undefined) return { path, bytes: Number(digits) }
    throw new AppError('ERR_COMMAND_FAILED', `${field}: the volume '${name}' could not be measured`, { field })
  })
}

/** The first volume that exceeds its limit, as an error. */
export function excessOf(volumes: readonly BoundedVolume[], sizes: readonly VolumeSize[]): AppError | undefined {
  for (const { name, path, bytesMax, field } of volumes) {
    const bytes = sizes.find((size) => size.path === path)?.bytes ?? 0
    if (bytes <= bytesMax) continue
    return new AppError(
      'ERR_QUOTA_EXCEEDED',
      `${field}: the volume '${name}' has ${bytes} bytes, more than its limit of ${bytesMax}; write less, or raise the limit`,
      { field, volume: name, used: bytes, limit: bytesMax },
    )
  }
  return undefined
}
