import { AppError } from '../contract/app-error.ts'
import type { Exposure } from '../tools/runtime/tool-host.ts'

const NAMES_MAX = 256

/** What `?tools=` or `--tools` asks to see: `full`, `default`, or names and toolsets separated by commas. */
export function parseExposure(value: string | null | undefined): Exposure {
  if (value === null || value === undefined || value === '' || value === 'default') return 'default'
  if (value === 'full') return 'full'
  const names = value
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
  if (names.length > NAMES_MAX) {
    throw new AppError('ERR_INVALID_INPUT', `tools: at most ${NAMES_MAX} names. Ask for "full" instead.`, {
      field: 'tools',
    })
  }
  return names.length === 0 ? 'default' : names
}

export function exposureOfUrl(url: string | undefined): Exposure {
  const query = url?.indexOf('?') ?? -1
  return query === -1 ? 'default' : parseExposure(new URLSearchParams(url!.slice(query + 1)).get('tools'))
}
