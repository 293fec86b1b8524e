import type { ToolDefinition } from '../runtime/define-tool.ts'
import execute from './aegis-execute.ts'
import executeIntent from './aegis-execute-intent.ts'
import executeStatus from './aegis-execute-status.ts'
import executeWait from './aegis-execute-wait.ts'

export const intentTools: readonly ToolDefinition[] = [executeIntent, execute, executeStatus, executeWait]
