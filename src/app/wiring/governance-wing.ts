import type { UpstreamTools } from '../../contract/upstream-tools.ts'
import type { SecretLinks } from '../../domains/secrets/links.ts'
import type { Services } from '../../tools/runtime/services.ts'
import type { ToolViews } from '../../tools/runtime/tool-views.ts'
import type { AppDeps } from '../build-app.ts'
import { type McpServerParts, openMcpServers } from './open-mcp-servers.ts'
import { openSecrets, type SecretParts } from './open-secrets.ts'

export type GovernanceWing = Readonly<{
  services: Pick<Services, 'secrets' | 'secretLinks' | 'mcpServers'>
  links: SecretLinks
  upstreamTools: UpstreamTools
  close(): Promise<void>
}>

export type GovernanceWingParts = SecretParts & McpServerParts & Readonly<{ views: Pick<ToolViews, 'connect'> }>

/** Who may use what of others: secrets, and the servers, gateways and people that need them. */
export async function openGovernanceWing(deps: AppDeps, parts: GovernanceWingParts): Promise<GovernanceWing> {
  const secrets = openSecrets(deps, parts)
  const mcpServers = await openMcpServers(deps, parts, secrets)
  parts.views.connect(mcpServers.tools)
  return {
    services: { secrets: secrets.service, secretLinks: secrets.links, mcpServers: mcpServers.service },
    links: secrets.links,
    upstreamTools: mcpServers.tools,
    async close() {
      await mcpServers.close()
      await secrets.close()
    },
  }
}
