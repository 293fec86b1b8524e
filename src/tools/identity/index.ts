import type { ToolDefinition } from '../runtime/define-tool.ts'
import apiKeyCreate from './api-key-create.ts'
import apiKeyList from './api-key-list.ts'
import apiKeyRevoke from './api-key-revoke.ts'

export const identityTools: readonly ToolDefinition[] = [apiKeyCreate, apiKeyList, apiKeyRevoke]
