import { AppError } from '../contract/app-error.ts'
import { matchesTool } from '../domains/policies/rules.ts'
import { nearestName } from '../kernel/nearest-name.ts'
import type { Catalog } from '../tools/runtime/catalog.ts'
import type { Config, LoadedConfig } from './config.ts'

/**
 * A pattern of a security context that fits no tool is a slip of the pen, and may leave open what should be closed. A name
 * in `tools` that is no toolset and no tool would leave the client with an empty list and no word why. The tools are
 * loaded only when names are given, so that a plain start does not wait for them here.
 */
export async function requireKnownTools({ config, sources, file }: LoadedConfig): Promise<void> {
  if (typeof config.tools === 'string' && config.security_contexts.length === 0) return
  const [{ allTools }, { createCatalog }, { unknownExposureNames }] = await Promise.all([
    import('../tools/index.ts'),
    import('../tools/runtime/catalog.ts'),
    import('../tools/runtime/exposure.ts'),
  ])
  const catalog = createCatalog(allTools)
  requireKnownPatterns(config, catalog, file ?? 'the configuration')
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

function requireKnownPatterns({ security_contexts }: Config, { names }: Catalog, origin: string): void {
  for (const [at, { capabilities, deny_list }] of security_contexts.entries()) {
    const patterns = [...capabilities.map(({ tool_pattern }) => tool_pattern), ...deny_list]
    const unknown = patterns.find((pattern) => !names.some((name) => matchesTool(pattern, name)))
    if (unknown === undefined) continue
    const nearest = nearestName(unknown, names)
    const hint = nearest === undefined ? 'See: castellan tools' : `Did you mean ${nearest}?`
    throw new AppError(
      'ERR_CONFIG_INVALID',
      `${origin}: security_contexts.${at} has the pattern '${unknown}', which fits no tool. ${hint}`,
      { field: `security_contexts.${at}`, unknown, ...(nearest === undefined ? {} : { nearest }) },
    )
  }
}
