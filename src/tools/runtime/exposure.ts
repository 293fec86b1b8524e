import type { Toolset } from './define-tool.ts'
import type { Exposure, ZaruExposure } from './tool-host.ts'
import { hasTool } from './zaru-modes.ts'

type ExposedTool = Readonly<{ name: string; safeName: string; definition: Readonly<{ toolset: Toolset }> }>

export const isZaru = (exposure: Exposure): exposure is ZaruExposure =>
  typeof exposure === 'object' && 'zaruMode' in exposure

/** Whether the mode of a connection, if it has one, has the tool; otherwise it can be neither seen nor called. */
export const isInZaruMode = (tool: Pick<ExposedTool, 'name'>, exposure: Exposure): boolean =>
  !isZaru(exposure) || hasTool(exposure.zaruMode, tool.name)

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

export function isExposed(tool: ExposedTool, exposure: Exposure): boolean {
  if (isZaru(exposure)) return isInZaruMode(tool, exposure) && isExposed(tool, exposure.tools ?? 'full')
  if (exposure === 'full') return true
  if (exposure === 'default') return defaultTools.includes(tool.name)
  return exposure.some((name) => name === tool.definition.toolset || name === tool.name || name === tool.safeName)
}

/** Names in an exposure that are neither a toolset nor a tool. */
export function unknownExposureNames(exposure: Exposure, tools: readonly ExposedTool[]): string[] {
  if (isZaru(exposure)) return unknownExposureNames(exposure.tools ?? 'full', tools)
  if (typeof exposure === 'string') return []
  return exposure.filter((name) => !tools.some((tool) => isExposed(tool, [name])))
}
