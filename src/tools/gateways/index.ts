import type { ToolDefinition } from '../runtime/define-tool.ts'
import bulkAssignTools from './bulk-assign-tools-to-mcp-gateways.ts'
import createGateway from './create-mcp-gateway.ts'
import deleteGateway from './delete-mcp-gateway.ts'
import editGateway from './edit-mcp-gateway.ts'
import getGateway from './get-mcp-gateway.ts'
import getPrompt from './get-mcp-prompt.ts'
import listGateways from './list-mcp-gateways.ts'
import readResource from './read-mcp-resource.ts'
import unassignTools from './unassign-tools-from-mcp-gateway.ts'

export const gatewayTools: readonly ToolDefinition[] = [
  bulkAssignTools,
  createGateway,
  deleteGateway,
  editGateway,
  getGateway,
  getPrompt,
  listGateways,
  readResource,
  unassignTools,
]
