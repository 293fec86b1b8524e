import type { ToolDefinition } from '../runtime/define-tool.ts'
import cmdRun from './cmd-run.ts'

export const commandTools: readonly ToolDefinition[] = [cmdRun]
