import { AppError } from '../contract/app-error.ts'
import { nearestName } from '../kernel/nearest-name.ts'
import type { LoadedConfig } from './config.ts'

/**
 * A name in `tools` that is no toolset and no tool would leave the client with an empty list and no word why. The tools
 * are loaded only when names are given, so that a plain start does not wait for them here.
 */
export async function requireKnownTools({ config, sources, file }: LoadedConfig): Promise<void> {
  if (typeof config.tools === 'string') return
  const [{ allTools }, { createCatalog }, { unknownExposureNames }] = await Promise.all([
    import('../tools/index.ts'),
    import('../tools/runtime/catalog.ts'),
    import('../tools/runtime/exposure.ts'),
  ])
  const catalog = createCatalog(allTools)
  const [unknown] = unknownExposureNames(config.tools, catalog.tools)
  if (unknown === undefined) return
  const toolsets = [...new Set(catalog.tools.map((tool) => tool.definition.toolset))]
  const nearest = nearestName(unknown, [...toolsets, ...catalog.names])
  const origins = { flag: '--tools', env: 'CASTELLAN_TOOLS', file: file ?? '', default: '' }
  throw new AppError(
    'ERR_CONFIG_INVALID',
    `${origins[sources.get('tools') ?? 'default']}: tools has '${unknown}', which is neither a toolset (${toolsets.join(', ')}) nor a tool.${nearest === undefined ? ' See: castellan tools' : ` Did you mean ${nearest}?`}`,
    { field: 'tools', unknown, ...(nearest === undefined ? {} : { nearest }) },
  )
}
