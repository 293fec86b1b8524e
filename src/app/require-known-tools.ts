import { AppError } from '../contract/app-error.ts'
import { matchesTool } from '../domains/security-contexts/rules.ts'
import { nearestName } from '../kernel/nearest-name.ts'
import { isUpstreamName, unknownExposureNames } from '../tools/runtime/exposure.ts'
import { type PreparedTools, preparedTools } from '../tools/runtime/prepared-tools.ts'
import type { Config, LoadedConfig } from './config.ts'

/**
 * A pattern of a security context that matches no tool is a mistake, and may leave open what should be closed. An unknown name in
 * `tools` would leave the client with an empty list and no explanation. The same holds for names in the judging settings. The
 * tools are loaded only if names are configured, so that a plain start does not wait for them.
 */
export async function requireKnownTools({ config, sources, file }: LoadedConfig): Promise<void> {
  const { skip, always } = config.judging
  const named = config.security_contexts.length + skip.length + always.length
  if (typeof config.tools === 'string' && named === 0) return
  const catalog = preparedTools()
  requireKnownPatterns(config, catalog, file ?? 'the configuration')
  requireKnownJudging(config, catalog, file ?? 'the configuration')
  const [unknown] = unknownExposureNames(config.tools, catalog.tools)
  if (unknown === undefined) return
  const toolsets = [...new Set(catalog.tools.map((tool) => tool.definition.toolset))]
  const nearest = nearestName(unknown, [...toolsets, ...catalog.names])
  const origins = { flag: '--tools', env: 'CASTELLAN_TOOLS', file: file ?? '', default: '' }
  throw new AppError(
    'ERR_CONFIG_INVALID',
    `${origins[sources.get('tools') ?? 'default']}: tools contains '${unknown}', which is neither a toolset (${toolsets.join(', ')}) nor a tool.${nearest === undefined ? ' See: castellan tools' : ` Did you mean ${nearest}?`}`,
    { field: 'tools', unknown, ...(nearest === undefined ? {} : { nearest }) },
  )
}

/** An unknown name judges nothing, and a name in both lists is contradictory. */
function requireKnownJudging({ judging }: Config, { names }: PreparedTools, origin: string): void {
  const refuse = (field: string, problem: string, details: Readonly<Record<string, string>>): never => {
    throw new AppError('ERR_CONFIG_INVALID', `${origin}: ${field} has ${problem}`, { field, ...details })
  }
  for (const list of ['skip', 'always'] as const) {
    const unknown = judging[list].find((name) => !names.includes(name) && !isUpstreamName(name))
    if (unknown === undefined) continue
    const nearest = nearestName(unknown, names)
    const hint = nearest === undefined ? 'See: castellan tools' : `Did you mean ${nearest}?`
    refuse(`judging.${list}`, `'${unknown}', which is not a tool. ${hint}`, { unknown, ...(nearest && { nearest }) })
  }
  const both = judging.skip.find((name) => judging.always.includes(name))
  if (both !== undefined) refuse('judging.skip', `'${both}', which judging.always has as well. Keep one of them.`, {})
}

function requireKnownPatterns({ security_contexts }: Config, { names }: PreparedTools, origin: string): void {
  for (const [at, { capabilities, deny_list }] of security_contexts.entries()) {
    const patterns = [...capabilities.map(({ tool_pattern }) => tool_pattern), ...deny_list]
    const unknown = patterns.find(
      (pattern) => !isUpstreamName(pattern) && !names.some((name) => matchesTool(pattern, name)),
    )
    if (unknown === undefined) continue
    const nearest = nearestName(unknown, names)
    const hint = nearest === undefined ? 'See: castellan tools' : `Did you mean ${nearest}?`
    throw new AppError(
      'ERR_CONFIG_INVALID',
      `${origin}: security_contexts.${at} has the pattern '${unknown}', which matches no tool. ${hint}`,
      { field: `security_contexts.${at}`, unknown, ...(nearest === undefined ? {} : { nearest }) },
    )
  }
}
