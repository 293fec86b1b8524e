import type { ToolDefinition } from '../runtime/define-tool.ts'
import team from './team.ts'

export const teamTools: readonly ToolDefinition[] = [team]
