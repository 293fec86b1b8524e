import type { ToolDefinition } from '../runtime/define-tool.ts'
import createProxy from './create-llm-proxy.ts'
import deleteProxy from './delete-llm-proxy.ts'
import editProxy from './edit-llm-proxy.ts'
import getProxy from './get-llm-proxy.ts'
import listProxies from './list-llm-proxies.ts'

export const modelProxyTools: readonly ToolDefinition[] = [createProxy, deleteProxy, editProxy, getProxy, listProxies]
