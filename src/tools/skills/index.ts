import type { ToolDefinition } from '../runtime/define-tool.ts'
import skillList from './skill-list.ts'

export const skillTools: readonly ToolDefinition[] = [skillList]
