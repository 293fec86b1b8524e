import type { DescribedTool } from '../../contract/tool-invoker.ts'
import { queryTerms } from '../../kernel/query-terms.ts'

/**
 * Tools that answer every word of the query, in their name or their description; those named by it come first. `fs.*` is a
 * pattern of names. An empty query is answered by all.
 */
export function findTools(tools: readonly DescribedTool[], query: string): DescribedTool[] {
  const text = query.trim().toLowerCase()
  if (text === '') return [...tools]
  if (/^[a-z0-9_.*]+$/.test(text) && text.includes('*')) return tools.filter(({ name }) => fitsPattern(name, text))
  const exact = tools.filter(({ name }) => name === text)
  if (exact.length > 0) return exact
  const wanted = queryTerms(text)
  return tools
    .map((tool) => ({ tool, score: scoreOf(tool, text, wanted) }))
    .filter(({ score }) => score > 0)
    .sort((left, right) => right.score - left.score)
    .map(({ tool }) => tool)
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

function scoreOf({ name, description }: DescribedTool, query: string, wanted: readonly string[]): number {
  if (name.includes(query)) return 3
  const inName = new Set(queryTerms(name))
  if (wanted.every((term) => inName.has(term))) return 2
  const anywhere = new Set([...inName, ...queryTerms(description)])
  return wanted.every((term) => anywhere.has(term)) ? 1 : 0
}
