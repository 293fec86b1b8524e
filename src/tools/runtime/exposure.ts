import type { CatalogTool } from './catalog.ts'
import type { Exposure } from './tool-host.ts'

/**
 * Which tools a client sees in its list: one policy, in one place. It hides nothing from search_tools and forbids
 * nothing: every tool that the caller may use stays callable by name.
 */
export const defaultTools: readonly string[] = [
  'search_tools',
  'run_tool',
  'task_create',
  'task_update',
  'task_get',
  'task_list',
  'task_next_actions',
  'thought_record',
  'workspace_create',
  'exec',
  'file_write',
  'file_read',
]

export function isExposed(tool: CatalogTool, exposure: Exposure): boolean {
  if (exposure === 'full') return true
  if (exposure === 'default') return defaultTools.includes(tool.name)
  return exposure.some((name) => name === tool.definition.toolset || name === tool.name || name === tool.safeName)
}

/** Names in an exposure that are neither a toolset nor a tool. */
export function unknownExposureNames(exposure: Exposure, tools: readonly CatalogTool[]): string[] {
  if (typeof exposure === 'string') return []
  return exposure.filter((name) => !tools.some((tool) => isExposed(tool, [name])))
}
