import { AppError } from '../../contract/app-error.ts'
import { nearestName } from '../../kernel/nearest-name.ts'
import type { AgentManifest } from './manifest.ts'

type ToolProblem = Readonly<{ field: string; message: string; unknown: readonly string[] }>

const isIn = (name: string, names: readonly string[]): boolean =>
  names.some((one) => one === name || (one.endsWith('.*') && name.startsWith(one.slice(0, -1))))

/** What is wrong with the tools that a manifest names: each must be a tool, or the beginning of some with `.*`. */
export function toolProblemOf(
  { tools, outputHandler }: Pick<AgentManifest, 'tools' | 'outputHandler'>,
  known: ReadonlySet<string>,
): ToolProblem | undefined {
  const all = [...known]
  const unknown = tools.filter((name) => !known.has(name) && !all.some((tool) => isIn(tool, [name])))
  if (unknown.length > 0) return noSuchTool('spec.tools', unknown, known)
  if (outputHandler?.type !== 'mcp_tool') return undefined
  const field = 'spec.output_handler.tool_name'
  const { toolName } = outputHandler
  if (!known.has(toolName)) return noSuchTool(field, [toolName], known)
  if (isIn(toolName, tools)) return undefined
  return { field, message: `${field}: an agent uses no tools but those of spec.tools; add it there.`, unknown: [] }
}

export function requireKnownTools(
  manifest: Pick<AgentManifest, 'tools' | 'outputHandler'>,
  known: ReadonlySet<string>,
): void {
  const problem = toolProblemOf(manifest, known)
  if (problem === undefined) return
  const { field, message, unknown } = problem
  throw new AppError('ERR_MANIFEST_INVALID', message, { field, unknown_tools: unknown.slice(0, 20) })
}

function noSuchTool(field: string, unknown: readonly string[], known: ReadonlySet<string>): ToolProblem {
  const first = unknown[0]!
  const near = nearestName(first, known)
  const isElsewhere = /^(?:mcp|custom):/.test(first)
  const hint = isElsewhere
    ? 'Tools of other MCP servers are not available here; see aegis.tools.list.'
    : near === undefined
      ? 'See aegis.tools.list.'
      : `Did you mean ${near}?`
  return { field, message: `${field}: there is no tool '${first.slice(0, 128).toWellFormed()}'. ${hint}`, unknown }
}
