import type { ToolDefinition } from '../runtime/define-tool.ts'
import createProxy from './create-llm-proxy.ts'
import deleteProxy from './delete-llm-proxy.ts'
import editProxy from './edit-llm-proxy.ts'
import getProxy from './get-llm-proxy.ts'
import listProxies from './list-llm-proxies.ts'
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
  virtualKeyCreate,
  virtualKeyGet,
  virtualKeyList,
  virtualKeyRevoke,
  virtualKeyRotate,
]
