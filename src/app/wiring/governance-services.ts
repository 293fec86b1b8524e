import type { GatewayDirectory } from '../../contract/gateway-directory.ts'
import type { UpstreamContent } from '../../contract/upstream-content.ts'
import type { UpstreamTools } from '../../contract/upstream-tools.ts'
import type { AssignmentDeps } from '../../domains/gateways/assignments.ts'
import { createGatewayDirectory, type DirectoryDeps } from '../../domains/gateways/directory.ts'
import { createGatewayService } from '../../domains/gateways/service.ts'
import type { InteractionRecorder } from '../../domains/interactions/recorder.ts'
import type { Authorizations } from '../../domains/mcp-servers/authorizations.ts'
import { createMcpContentService } from '../../domains/mcp-servers/upstream-content.ts'
import { createModelProxyDirectory, type ModelProxyDirectory } from '../../domains/model-proxies/directory.ts'
import { createModelProxyService } from '../../domains/model-proxies/service.ts'
import type { VirtualKeyService } from '../../domains/model-proxies/virtual-keys.ts'
import { createProviderTokens, type ProviderTokens } from '../../domains/people/provider-tokens.ts'
import { createProfileService } from '../../domains/profiles/service.ts'
import type { SecretLinks } from '../../domains/secrets/links.ts'
import type { SecretService } from '../../domains/secrets/service.ts'
import { sqlAssignmentStore } from '../../stores/sql/assignment-store.ts'
import { sqlPeopleStore } from '../../stores/sql/people-store.ts'
import { sqlProfileStore } from '../../stores/sql/profile-store.ts'
import type { Services } from '../../tools/runtime/services.ts'
import type { ToolViews } from '../../tools/runtime/tool-views.ts'
import type { AppDeps } from '../build-app.ts'
import { openInteractionService } from './open-interactions.ts'
import { type LimitParts, openLimits } from './open-limits.ts'
import { type McpServerParts, type OpenedMcpServers, openMcpServers } from './open-mcp-servers.ts'
import { type OptimizationRuleParts, openOptimizationRules } from './open-optimization-rules.ts'
import type { OpenedPeople } from './open-people.ts'
import { openPolicyServices, type PolicyServices } from './open-policy-services.ts'
import { openProviderKeys, type ProviderKeyParts } from './open-provider-keys.ts'
import { openSecrets, type SecretParts } from './open-secrets.ts'
import type { Guardrails } from './open-tool-policies.ts'
import { openVirtualKeys, type VirtualKeyParts } from './open-virtual-keys.ts'
import { tokenSourcesOf } from './provider-sign-in.ts'

/** What admits requests to models. */
export type ModelAccess = Readonly<{
  directory: Pick<ModelProxyDirectory, 'find'>
  virtualKeys: Pick<VirtualKeyService, 'authenticate'>
}>

export type GovernanceServices = Readonly<{
  services: Pick<
    Services,
    | 'secrets'
    | 'secretLinks'
    | 'mcpServers'
    | 'gateways'
    | 'mcpContent'
    | 'modelProxies'
    | 'virtualKeys'
    | 'providerKeys'
    | 'optimizationRules'
    | 'limits'
    | 'interactions'
  > &
    PolicyServices
  links: SecretLinks
  secrets: SecretService
  authorizations: Pick<Authorizations, 'open'>
  upstreamTools: UpstreamTools
  directory: GatewayDirectory
  modelAccess: ModelAccess
  upstreamContent: UpstreamContent
  noteToolChange: AssignmentDeps['noteChange']
  providerTokens: ProviderTokens
  close(): Promise<void>
}>

export type GovernanceServicesParts = Omit<SecretParts, 'authorizations'> &
  Omit<McpServerParts, 'sharing' | 'subjects'> &
  Pick<LimitParts, 'accounting'> &
  Omit<VirtualKeyParts, 'providerKeys'> &
  Omit<ProviderKeyParts, 'secrets'> &
  OptimizationRuleParts &
  Readonly<{
    people: Pick<OpenedPeople, 'accounts' | 'providers'>
    views: Pick<ToolViews, 'connect' | 'own' | 'viewFor' | 'latest'>
    manifestTools: DirectoryDeps['manifestTools']
    subAgents: DirectoryDeps['subAgents']
    guardrails: Guardrails
    recorder: Pick<InteractionRecorder, 'settled'>
  }>

/** Sharing and credentials: secrets, and the servers, gateways and people that need them. */
export async function openGovernanceServices(
  deps: AppDeps,
  parts: GovernanceServicesParts,
): Promise<GovernanceServices> {
  let mcpServers: OpenedMcpServers | undefined
  const secrets = openSecrets(deps, { ...parts, authorizations: async () => mcpServers?.authorizations })
  const sharing = createProfileService({
    ...{ store: sqlProfileStore, teams: sqlPeopleStore },
    ...{ random: deps.random, trust: parts.guardrails.trust },
  })
  const providerTokens = createProviderTokens({
    sources: tokenSourcesOf(parts.people.providers),
    secrets: secrets.service,
    store: sqlPeopleStore,
    database: parts.database,
    clock: deps.clock,
    refresh: async (...args) => await (await parts.people.accounts()).refresh(...args),
  })
  const opened = await openMcpServers(deps, { ...parts, sharing, subjects: providerTokens }, secrets)
  mcpServers = opened
  const { assignments, noteChange } = opened
  const gateways = createGatewayService({ profiles: sqlProfileStore, sharing, assignments, noteChange })
  const directory = createGatewayDirectory({
    database: parts.database,
    sharing,
    store: sqlAssignmentStore,
    isOwnTool: (toolId) => parts.views.own.find(toolId)?.name === toolId,
    manifestTools: parts.manifestTools,
    subAgents: parts.subAgents,
  })
  parts.views.connect(opened.tools, directory)
  const modelProxies = createModelProxyDirectory({ read: parts.database.read, sharing, clock: deps.clock })
  const providerKeys = openProviderKeys(deps, { ...parts, secrets: secrets.service })
  const virtualKeys = openVirtualKeys(deps, { ...parts, sharing, providerKeys })
  const content = opened.contentOf(directory)
  return {
    upstreamContent: content,
    services: {
      mcpContent: createMcpContentService(content),
      secrets: secrets.service,
      secretLinks: secrets.links,
      mcpServers: opened.service,
      gateways,
      providerKeys,
      optimizationRules: openOptimizationRules(deps, { ...parts, sharing, virtualKeys: virtualKeys.service }),
      virtualKeys: virtualKeys.service,
      limits: openLimits(deps, { ...parts, sharing, virtualKeys: virtualKeys.service }),
      interactions: openInteractionService(parts.recorder, sharing),
      modelProxies: createModelProxyService({ profiles: sqlProfileStore, sharing, noteChange: modelProxies.forget }),
      ...openPolicyServices(deps, { ...parts, assignments, sharing }),
    },
    links: secrets.links,
    secrets: secrets.service,
    authorizations: opened.authorizations,
    upstreamTools: opened.tools,
    directory,
    modelAccess: { directory: modelProxies, virtualKeys: virtualKeys.service },
    noteToolChange: noteChange,
    providerTokens,
    async close() {
      virtualKeys.close()
      await opened.close()
      await secrets.close()
    },
  }
}
