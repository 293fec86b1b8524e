import { AppError } from '../../contract/app-error.ts'
import { nearestName } from '../../kernel/nearest-name.ts'

/** Each must be a tool, or the beginning of some with `.*`. */
export function requireKnownTools(names: readonly string[], known: ReadonlySet<string>): void {
  const all = [...known]
  const isMeant = (name: string): boolean =>
    known.has(name) || (name.endsWith('.*') && all.some((tool) => tool.startsWith(name.slice(0, -1))))
  const unknown = names.filter((name) => !isMeant(name))
  const first = unknown[0]
  if (first === undefined) return
  const near = nearestName(first, known)
  const hint = near === undefined ? 'See aegis.tools.list.' : `Did you mean ${near}?`
  throw new AppError(
    'ERR_MANIFEST_INVALID',
    `spec.tools: there is no tool '${first.slice(0, 128).toWellFormed()}'. ${hint}`,
    { field: 'spec.tools', unknown_tools: unknown.slice(0, 20) },
  )
}
