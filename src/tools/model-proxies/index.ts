import type { ToolDefinition } from '../runtime/define-tool.ts'
import createProxy from './create-llm-proxy.ts'
import deleteProxy from './delete-llm-proxy.ts'
import editProxy from './edit-llm-proxy.ts'
import getProxy from './get-llm-proxy.ts'
import listProxies from './list-llm-proxies.ts'
import optimizationRuleCreate from './optimization-rule-create.ts'
import optimizationRuleDelete from './optimization-rule-delete.ts'
import optimizationRuleList from './optimization-rule-list.ts'
import optimizationRuleUpdate from './optimization-rule-update.ts'
import providerKeyCreate from './provider-key-create.ts'
import providerKeyDelete from './provider-key-delete.ts'
import providerKeyList from './provider-key-list.ts'
import providerKeyRotate from './provider-key-rotate.ts'
import providerKeyUpdate from './provider-key-update.ts'
import virtualKeyCreate from './virtual-key-create.ts'
import virtualKeyGet from './virtual-key-get.ts'
import virtualKeyList from './virtual-key-list.ts'
import virtualKeyRevoke from './virtual-key-revoke.ts'
import virtualKeyRotate from './virtual-key-rotate.ts'

export const modelProxyTools: readonly ToolDefinition[] = [
  createProxy,
  deleteProxy,
  editProxy,
  getProxy,
  listProxies,
  optimizationRuleCreate,
  optimizationRuleDelete,
  optimizationRuleList,
  optimizationRuleUpdate,
  providerKeyCreate,
  providerKeyDelete,
  providerKeyList,
  providerKeyRotate,
  providerKeyUpdate,
  virtualKeyCreate,
  virtualKeyGet,
  virtualKeyList,
  virtualKeyRevoke,
  virtualKeyRotate,
]
