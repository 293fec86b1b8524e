import type { ToolDefinition } from '../runtime/define-tool.ts'
import cmdRun from './cmd-run.ts'

export const cmdTools: readonly ToolDefinition[] = [cmdRun]
