import type { ToolDefinition } from '../runtime/define-tool.ts'
import agentCreate from './aegis-agent-create.ts'
import agentDelete from './aegis-agent-delete.ts'
import agentExport from './aegis-agent-export.ts'
import agentGenerate from './aegis-agent-generate.ts'
import agentList from './aegis-agent-list.ts'
import agentLogs from './aegis-agent-logs.ts'
import agentSearch from './aegis-agent-search.ts'
import agentUpdate from './aegis-agent-update.ts'
import agentInfo from './agent-info.ts'
import agentScopeSet from './agent-scope-set.ts'
import bulkAssignTools from './bulk-assign-tools-to-agents.ts'
import createAgent from './create-agent.ts'
import editAgent from './edit-agent.ts'
import getAgent from './get-agent.ts'
import listAgents from './list-agents.ts'
import whoami from './whoami.ts'

export const agentTools: readonly ToolDefinition[] = [
  agentCreate,
  agentDelete,
  agentExport,
  agentGenerate,
  agentInfo,
  agentList,
  agentLogs,
  agentScopeSet,
  agentSearch,
  agentUpdate,
  bulkAssignTools,
  createAgent,
  editAgent,
  getAgent,
  listAgents,
  whoami,
]
