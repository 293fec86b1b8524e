import type { ToolDefinition } from '../runtime/define-tool.ts'
import apiKeyCreate from './api-key-create.ts'
import apiKeyList from './api-key-list.ts'
import apiKeyRevoke from './api-key-revoke.ts'
import clockReset from './clock-reset.ts'
import sealSessionCreate from './seal-session-create.ts'
import sealSessionList from './seal-session-list.ts'
import sealSessionRevoke from './seal-session-revoke.ts'

export const identityTools: readonly ToolDefinition[] = [
  apiKeyCreate,
  apiKeyList,
  apiKeyRevoke,
  clockReset,
  sealSessionCreate,
  sealSessionList,
  sealSessionRevoke,
]
