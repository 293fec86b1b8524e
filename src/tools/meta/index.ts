import type { ToolDefinition } from '../runtime/define-tool.ts'
import runTool from './run-tool.ts'
import searchTools from './search-tools.ts'

export const metaTools: readonly ToolDefinition[] = [runTool, searchTools]
