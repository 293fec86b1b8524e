import { AppError } from '../../contract/app-error.ts'
import type { DescribedTool } from '../../contract/tool-invoker.ts'
import { nearestName } from '../../kernel/nearest-name.ts'

/** Every tool comes with the program. */
export const SOURCE = 'builtin' as const

export type ToolFilters = Readonly<{
  source?: string | undefined
  category?: string | undefined
  tags?: readonly string[] | undefined
  limit?: number | undefined
  offset: number
}>

/** Groups as documented, for the toolsets whose names are our own. */
const groups: Readonly<Record<string, string>> = {
  agents: 'agent',
  cmd: 'dispatch',
  executions: 'task',
  intents: 'execute',
  modes: 'zaru',
  workflows: 'workflow',
}

export function categoryOf({ name, toolset }: Pick<DescribedTool, 'name' | 'toolset'>): string {
  const documented = /^aegis\.([a-z]+)/.exec(name)?.[1]
  return documented ?? groups[toolset] ?? toolset
}

export const tagsOf = (tool: DescribedTool, skipsJudge: boolean): string[] => [
  ...new Set([categoryOf(tool), tool.toolset]),
  tool.isReadOnly ? 'read-only' : 'changing',
  ...(tool.isIdempotent ? ['idempotent'] : []),
  skipsJudge ? 'unjudged' : 'judged',
]

/** A filter that matches no tool at all is a mistake, and is refused. */
export function chosenTools(
  tools: readonly DescribedTool[],
  tagsOfTool: (tool: DescribedTool) => readonly string[],
  { source, category, tags = [] }: ToolFilters,
): readonly DescribedTool[] {
  const [origin, group] = [source, category].map((text) => text?.trim().toLowerCase())
  if (origin !== undefined && origin !== SOURCE) throw unknown('source', origin, [SOURCE])
  const isIn = (tool: DescribedTool): boolean =>
    group === undefined || categoryOf(tool) === group || tool.toolset === group
  if (!tools.some(isIn)) throw unknown('category', group ?? '', tools.map(categoryOf))
  const requested = tags.map((tag) => tag.trim().toLowerCase())
  const known = new Set(tools.flatMap((tool) => tagsOfTool(tool)))
  const missing = requested.find((tag) => !known.has(tag))
  if (missing !== undefined) throw unknown('tags', missing, known)
  return tools.filter((tool) => isIn(tool) && requested.every((tag) => tagsOfTool(tool).includes(tag)))
}

export function pageOf<T>(rows: readonly T[], { limit, offset }: ToolFilters): { tools: T[]; total: number } {
  const end = limit === undefined ? rows.length : offset + limit
  return { tools: rows.slice(offset, end), total: rows.length }
}

function unknown(field: string, input: string, names: Iterable<string>): AppError {
  const accepted = [...new Set(names)].sort()
  const near = nearestName(input.toLowerCase(), accepted)
  const hint = near === undefined ? '' : ` Did you mean '${near}'?`
  const message = `${field}: no tool that you may use matches it.${hint} Accepted: ${accepted.join(', ')}.`
  return new AppError('ERR_INVALID_INPUT', message, { field, accepted })
}
