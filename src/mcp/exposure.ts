import { AppError } from '../contract/app-error.ts'
import type { ChosenTools, Exposure } from '../tools/runtime/tool-host.ts'
import { isZaruMode, zaruModes } from '../tools/runtime/zaru-modes.ts'

const NAMES_MAX = 256

/** The value of `?tools=` or `--tools`: `full`, `default`, or names and toolsets separated by commas. */
export function parseExposure(value: string | null | undefined): ChosenTools {
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

/** `?tools=` chooses what is listed, `?mode=` what can be listed and called at all. */
export function exposureOfUrl(url: string | undefined): Exposure {
  const query = url?.indexOf('?') ?? -1
  if (query === -1) return 'default'
  const parameters = new URLSearchParams(url!.slice(query + 1))
  const tools = parameters.get('tools')
  const mode = parameters.get('mode')
  if (mode === null) return parseExposure(tools)
  if (!isZaruMode(mode)) {
    throw new AppError('ERR_INVALID_INPUT', `mode: must be one of ${zaruModes.join(', ')}.`, { field: 'mode' })
  }
  return { zaruMode: mode, ...(tools ? { tools: parseExposure(tools) } : {}) }
}
