import type { DescribedTool } from '../../contract/tool-invoker.ts'

/**
 * The tools that a query names: all for an empty one, those of a pattern such as `fs.*`, and the one whose name it is. Undefined for
 * a query that says what a tool should do.
 */
export function toolsNamedBy(tools: readonly DescribedTool[], query: string): readonly DescribedTool[] | undefined {
  const text = query.trim().toLowerCase()
  if (text === '') return tools
  if (/^[a-z0-9_.*]+$/.test(text) && text.includes('*')) return tools.filter(({ name }) => fitsPattern(name, text))
  const exact = tools.filter(({ name }) => name === text)
  return exact.length > 0 ? exact : undefined
}

/** Walks the parts between the stars, so that no pattern takes long. */
function fitsPattern(name: string, pattern: string): boolean {
  const parts = pattern.split('*')
  if (!name.startsWith(parts[0]!)) return false
  let at = parts[0]!.length
  for (const part of parts.slice(1, -1)) {
    const next = name.indexOf(part, at)
    if (next < 0) return false
    at = next + part.length
  }
  return name.length - at >= parts.at(-1)!.length && name.endsWith(parts.at(-1)!)
}
