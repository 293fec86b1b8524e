import type { ToolDefinition } from '../runtime/define-tool.ts'
import sealSessionCreate from './seal-session-create.ts'
import sealSessionList from './seal-session-list.ts'
import sealSessionRevoke from './seal-session-revoke.ts'

export const sealTools: readonly ToolDefinition[] = [sealSessionCreate, sealSessionList, sealSessionRevoke]
