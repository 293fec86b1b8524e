import type { ToolDefinition } from '../runtime/define-tool.ts'
import createLimit from './create-limit.ts'
import deleteLimit from './delete-limit.ts'
import getLimits from './get-limits.ts'
import updateLimit from './update-limit.ts'

export const limitTools: readonly ToolDefinition[] = [createLimit, deleteLimit, getLimits, updateLimit]
