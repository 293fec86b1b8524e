import type { Toolset } from './define-tool.ts'
import type { Exposure, ZaruExposure } from './tool-host.ts'
import { hasTool } from './zaru-modes.ts'

type ExposedTool = Readonly<{
  name: string
  safeName: string
  definition: Readonly<{ toolset: Toolset | 'upstream'; aliasOf?: string }>
}>

export const isZaru = (exposure: Exposure): exposure is ZaruExposure =>
  typeof exposure === 'object' && 'zaruMode' in exposure

/** Whether the mode of a connection, if it has one, contains the tool; otherwise the tool can be neither seen nor called. */
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

/** Listed by a gateway even if it lists only search_tools and run_tool: skills, commands and apps. */
const alwaysListed: ReadonlySet<string> = new Set([
  'list_skills',
  'load_skill',
  'run_command',
  'download_file',
  'upload_file',
  'create_app',
  'update_app',
  'edit_app',
  'read_app',
  'render_app',
  'list_apps',
])
export const isAlwaysListed = ({ name }: Pick<ExposedTool, 'name'>): boolean => alwaysListed.has(name)

export function isExposed(tool: ExposedTool, exposure: Exposure): boolean {
  if (isZaru(exposure)) return isInZaruMode(tool, exposure) && isExposed(tool, exposure.tools ?? 'full')
  if (exposure === 'full') return true
  if (exposure === 'default') return defaultTools.includes(tool.name)
  return exposure.some(
    (name) =>
      name === tool.definition.toolset || name === tool.name || name === tool.safeName || isOfServer(tool, name),
  )
}

const EVERY_TOOL = '__*'
const isOfServer = ({ name, definition }: ExposedTool, pattern: string): boolean =>
  pattern.endsWith(EVERY_TOOL) && definition.toolset === 'upstream' && name.startsWith(pattern.slice(0, -1))

/** `server__tool`, or `server__*` for all of a server: which tools exist depends on the caller. */
export const isUpstreamName = (name: string): boolean => name.includes('__')

/** Whether tools of other servers can be in a list. */
export const mayExposeUpstream = (exposure: Exposure): boolean =>
  exposure === 'full' || (Array.isArray(exposure) && exposure.some(isUpstreamName))

/** For filtering a list in which each tool has one name: an alias is omitted if its tool is in the list. */
export const isNotRepeated = ({ definition }: ExposedTool, _index: number, list: readonly ExposedTool[]): boolean =>
  definition.aliasOf === undefined || !list.some(({ name }) => name === definition.aliasOf)

/** Names in an exposure that are neither a toolset nor a tool, and cannot be a tool of another server. */
export function unknownExposureNames(exposure: Exposure, tools: readonly ExposedTool[]): string[] {
  if (isZaru(exposure)) return unknownExposureNames(exposure.tools ?? 'full', tools)
  if (typeof exposure === 'string') return []
  return exposure.filter((name) => !isUpstreamName(name) && !tools.some((tool) => isExposed(tool, [name])))
}
