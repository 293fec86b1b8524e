import { AppError } from '../contract/app-error.ts'
import { nearestName } from '../kernel/nearest-name.ts'
import type { Catalog } from '../tools/runtime/catalog.ts'
import { isZaru, unknownExposureNames } from '../tools/runtime/exposure.ts'
import type { Exposure } from '../tools/runtime/tool-host.ts'

/** The view of an address: `?tools=` and `?mode=` choose the tools, `?names=safe|documented` their spelling. */
export type RequestView = Readonly<{ exposure: Exposure; safeNames?: boolean }>

const VIEWS_MAX = 256

/** `displayed` is the exposure of callers that do not choose, if their port has its own. */
export type ViewOfUrl = (url: string, displayed?: Exposure) => RequestView

/** One object for each kind of request, so that a client that repeats the same request costs one lookup. */
export function createViewOfUrl(
  deps: Readonly<{
    catalog: Catalog
    exposureDefault: Exposure
    exposureOfUrl(url: string): Exposure
  }>,
): ViewOfUrl {
  const plain: RequestView = { exposure: deps.exposureDefault }
  const views = new Map<string, RequestView>()

  function parse(url: string, query: string, displayed: Exposure): RequestView {
    const parameters = new URLSearchParams(query)
    const chooses = parameters.get('tools') || parameters.has('mode')
    const exposure = chooses ? withMode(deps.exposureOfUrl(url), displayed) : displayed
    requireKnown(exposure, deps.catalog)
    const names = parameters.get('names')
    if (names === null) return { exposure }
    if (names !== 'safe' && names !== 'documented') {
      throw new AppError('ERR_INVALID_INPUT', 'names: must be "safe" or "documented".', { field: 'names' })
    }
    return { exposure, safeNames: names === 'safe' }
  }

  return (url, displayed = deps.exposureDefault) => {
    const start = url.indexOf('?')
    const isOwn = displayed === deps.exposureDefault
    if (start === -1 && isOwn) return plain
    const query = start === -1 ? '' : url.slice(start + 1)
    const key = isOwn ? query : `${JSON.stringify(displayed)}?${query}`
    let view = views.get(key)
    if (view === undefined) {
      view = parse(url, query, displayed)
      if (views.size >= VIEWS_MAX) views.clear()
      views.set(key, view)
    }
    return view
  }
}

/** A caller that chooses tools but no mode stays in the mode of the port. */
const withMode = (chosen: Exposure, displayed: Exposure): Exposure =>
  isZaru(displayed) && !isZaru(chosen) ? { zaruMode: displayed.zaruMode, tools: chosen } : chosen

function requireKnown(exposure: Exposure, catalog: Catalog): void {
  const [unknown] = unknownExposureNames(exposure, catalog.tools)
  if (unknown === undefined) return
  const names = [...new Set(catalog.tools.map((tool) => tool.definition.toolset)), ...catalog.names]
  const near = nearestName(unknown, names)
  const hint = near === undefined ? 'Use "full" to see all.' : `Did you mean '${near}'?`
  throw new AppError('ERR_INVALID_INPUT', `tools: there is no such toolset or tool. ${hint}`, {
    field: 'tools',
    unknown: unknown.slice(0, 128),
  })
}
