import type { ToolDefinition } from '../runtime/define-tool.ts'
import apiKeyCreate from './api-key-create.ts'
import apiKeyList from './api-key-list.ts'
import apiKeyRevoke from './api-key-revoke.ts'
import clockReset from './clock-reset.ts'
import roleCreate from './role-create.ts'
import roleDelete from './role-delete.ts'
import roleList from './role-list.ts'

export const identityTools: readonly ToolDefinition[] = [
  apiKeyCreate,
  apiKeyList,
  apiKeyRevoke,
  clockReset,
  roleCreate,
  roleDelete,
  roleList,
]
