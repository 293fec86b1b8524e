import type { GatewayDirectory } from '../../contract/gateway-directory.ts'
import type { UpstreamContent } from '../../contract/upstream-content.ts'
import type { UpstreamTools } from '../../contract/upstream-tools.ts'
import type { AssignmentDeps } from '../../domains/gateways/assignments.ts'
import { createGatewayDirectory, type DirectoryDeps } from '../../domains/gateways/directory.ts'
import { createGatewayService } from '../../domains/gateways/service.ts'
import type { Authorizations } from '../../domains/mcp-servers/authorizations.ts'
import { createMcpContentService } from '../../domains/mcp-servers/upstream-content.ts'
import { createProfileService } from '../../domains/profiles/service.ts'
import type { SecretLinks } from '../../domains/secrets/links.ts'
import { sqlAssignmentStore } from '../../stores/sql/assignment-store.ts'
import { sqlPeopleStore } from '../../stores/sql/people-store.ts'
import { sqlProfileStore } from '../../stores/sql/profile-store.ts'
import type { Services } from '../../tools/runtime/services.ts'
import type { ToolViews } from '../../tools/runtime/tool-views.ts'
import type { AppDeps } from '../build-app.ts'
import { type McpServerParts, type OpenedMcpServers, openMcpServers } from './open-mcp-servers.ts'
import { openSecrets, type SecretParts } from './open-secrets.ts'

export type GovernanceWing = Readonly<{
  services: Pick<Services, 'secrets' | 'secretLinks' | 'mcpServers' | 'gateways' | 'mcpContent'>
  links: SecretLinks
  authorizations: Pick<Authorizations, 'open'>
  upstreamTools: UpstreamTools
  directory: GatewayDirectory
  upstreamContent: UpstreamContent
  noteToolChange: AssignmentDeps['noteChange']
  close(): Promise<void>
}>

export type GovernanceWingParts = Omit<SecretParts, 'authorizations'> &
  Omit<McpServerParts, 'sharing'> &
  Readonly<{ views: Pick<ToolViews, 'connect' | 'own'>; manifestTools: DirectoryDeps['manifestTools'] }>

/** Who may use what of others: secrets, and the servers, gateways and people that need them. */
export async function openGovernanceWing(deps: AppDeps, parts: GovernanceWingParts): Promise<GovernanceWing> {
  let mcpServers: OpenedMcpServers | undefined
  const secrets = openSecrets(deps, { ...parts, authorizations: async () => mcpServers?.authorizations })
  const sharing = createProfileService({ store: sqlProfileStore, teams: sqlPeopleStore, random: deps.random })
  const opened = await openMcpServers(deps, { ...parts, sharing }, secrets)
  mcpServers = opened
  const { assignments, noteChange } = opened
  const gateways = createGatewayService({ profiles: sqlProfileStore, sharing, assignments, noteChange })
  const directory = createGatewayDirectory({
    read: parts.database.read,
    sharing,
    store: sqlAssignmentStore,
    isOwnTool: (toolId) => parts.views.own.find(toolId)?.name === toolId,
    manifestTools: parts.manifestTools,
  })
  parts.views.connect(opened.tools, directory)
  const content = opened.contentOf(directory)
  return {
    upstreamContent: content,
    services: {
      mcpContent: createMcpContentService(content),
      secrets: secrets.service,
      secretLinks: secrets.links,
      mcpServers: opened.service,
      gateways,
    },
    links: secrets.links,
    authorizations: opened.authorizations,
    upstreamTools: opened.tools,
    directory,
    noteToolChange: noteChange,
    async close() {
      await opened.close()
      await secrets.close()
    },
  }
}
