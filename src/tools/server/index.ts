import type { ToolDefinition } from '../runtime/define-tool.ts'
import serverHealth from './server-health.ts'
import serverPing from './server-ping.ts'

export const serverTools: readonly ToolDefinition[] = [serverHealth, serverPing]
