import type { ToolDefinition } from '../runtime/define-tool.ts'
import getAgentTokenUsage from './get-agent-token-usage.ts'
import getProxyTokenUsage from './get-llm-proxy-token-usage.ts'
import getInteraction from './interaction-get.ts'
import listInteractions from './interaction-list.ts'

export const interactionTools: readonly ToolDefinition[] = [
  getAgentTokenUsage,
  getProxyTokenUsage,
  getInteraction,
  listInteractions,
]
