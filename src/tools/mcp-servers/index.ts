import type { ToolDefinition } from '../runtime/define-tool.ts'
import addMcpServerInstallationRequestNote from './add-mcp-server-installation-request-note.ts'
import authorizeMcpServer from './authorize-mcp-server.ts'
import createMcpServer from './create-mcp-server.ts'
import createMcpServerInstallationRequest from './create-mcp-server-installation-request.ts'
import decideMcpServerInstallationRequest from './decide-mcp-server-installation-request.ts'
import deleteMcpServer from './delete-mcp-server.ts'
import deleteMcpServerDeployment from './delete-mcp-server-deployment.ts'
import deployMcpServer from './deploy-mcp-server.ts'
import editMcpConfig from './edit-mcp-config.ts'
import editMcpDescription from './edit-mcp-description.ts'
import finishMcpAuthorization from './finish-mcp-authorization.ts'
import getMcpServerLogs from './get-mcp-server-logs.ts'
import getMcpServerTools from './get-mcp-server-tools.ts'
import getMcpServers from './get-mcp-servers.ts'
import installMcpServer from './install-mcp-server.ts'
import listMcpServerDeployments from './list-mcp-server-deployments.ts'
import listMcpServerInstallationRequests from './list-mcp-server-installation-requests.ts'
import listRegistryServers from './list-registry-servers.ts'
import searchPrivateMcpRegistry from './search-private-mcp-registry.ts'

export const mcpServerTools: readonly ToolDefinition[] = [
  searchPrivateMcpRegistry,
  listRegistryServers,
  getMcpServers,
  getMcpServerTools,
  editMcpDescription,
  editMcpConfig,
  createMcpServer,
  deployMcpServer,
  installMcpServer,
  authorizeMcpServer,
  finishMcpAuthorization,
  listMcpServerDeployments,
  getMcpServerLogs,
  deleteMcpServer,
  deleteMcpServerDeployment,
  createMcpServerInstallationRequest,
  listMcpServerInstallationRequests,
  addMcpServerInstallationRequestNote,
  decideMcpServerInstallationRequest,
]
