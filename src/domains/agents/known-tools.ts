import { AppError } from '../../contract/app-error.ts'
import { beginningOf } from '../../contract/tool-pattern.ts'
import type { AgentManifest } from './manifest.ts'

type ToolProblem = Readonly<{ field: string; message: string; unknown: readonly string[] }>

export type KnownTools = Readonly<{
  has(name: string): boolean
  hasBeginning(beginning: string): boolean
  nearest(name: string): string | undefined
}>

const isIn = (name: string, patterns: readonly string[]): boolean =>
  patterns.some((pattern) => {
    const beginning = beginningOf(pattern)
    return pattern === name || (beginning !== undefined && name.startsWith(beginning))
  })

/** The problem with the tools that a manifest names: each must be a tool, or a prefix with `.*` or `__*`. */
export function toolProblemOf(
  { tools, outputHandler }: Pick<AgentManifest, 'tools' | 'outputHandler'>,
  known: KnownTools,
): ToolProblem | undefined {
  const isMeant = (name: string): boolean => {
    const beginning = beginningOf(name)
    return known.has(name) || (beginning !== undefined && known.hasBeginning(beginning))
  }
  const unknown = tools.filter((name) => !isMeant(name))
  if (unknown.length > 0) return noSuchTool('spec.tools', unknown, known)
  if (outputHandler?.type !== 'mcp_tool') return undefined
  const field = 'spec.output_handler.tool_name'
  const { toolName } = outputHandler
  if (!known.has(toolName)) return noSuchTool(field, [toolName], known)
  if (isIn(toolName, tools)) return undefined
  return {
    field,
    message: `${field}: an agent may only use the tools listed in spec.tools; add it there.`,
    unknown: [],
  }
}

export function requireKnownTools(manifest: Pick<AgentManifest, 'tools' | 'outputHandler'>, known: KnownTools): void {
  const problem = toolProblemOf(manifest, known)
  if (problem === undefined) return
  const { field, message, unknown } = problem
  throw new AppError('ERR_MANIFEST_INVALID', message, { field, unknown_tools: unknown.slice(0, 20) })
}

function noSuchTool(field: string, unknown: readonly string[], known: KnownTools): ToolProblem {
  const first = unknown[0]!
  const near = known.nearest(first)
  const isElsewhere = /^(?:mcp|custom):/.test(first)
  const hint = isElsewhere
    ? 'Tools of other MCP servers are named server__tool; see aegis.tools.list.'
    : near === undefined
      ? 'See aegis.tools.list.'
      : `Did you mean ${near}?`
  return { field, message: `${field}: there is no tool '${first.slice(0, 128).toWellFormed()}'. ${hint}`, unknown }
}
