import type { Principal } from '../../contract/principal.ts'
import type { AgentService } from '../../domains/agents/service.ts'
import type { ApprovalService } from '../../domains/approvals/service.ts'
import type { CommandService } from '../../domains/commands/service.ts'
import type { ExecutionService } from '../../domains/executions/service.ts'
import type { FileService } from '../../domains/files/service.ts'
import type { GatewayService } from '../../domains/gateways/service.ts'
import type { GitService } from '../../domains/git/service.ts'
import type { RoleService } from '../../domains/identity/roles.ts'
import type { IdentityService } from '../../domains/identity/service.ts'
import type { AuthoringService } from '../../domains/intents/authoring.ts'
import type { IntentService } from '../../domains/intents/service.ts'
import type { InteractionService } from '../../domains/interactions/service.ts'
import type { LimitService } from '../../domains/limits/service.ts'
import type { LogRecoveryService } from '../../domains/log/log-recovery.ts'
import type { LogService } from '../../domains/log/service.ts'
import type { McpServerService } from '../../domains/mcp-servers/service.ts'
import type { McpContentService } from '../../domains/mcp-servers/upstream-content.ts'
import type { OptimizationRuleService } from '../../domains/model-proxies/optimization-rules.ts'
import type { ProviderKeyService } from '../../domains/model-proxies/provider-keys.ts'
import type { ModelProxyService } from '../../domains/model-proxies/service.ts'
import type { VirtualKeyService } from '../../domains/model-proxies/virtual-keys.ts'
import type { PeopleService } from '../../domains/people/service.ts'
import type { PlatformService } from '../../domains/platform/service.ts'
import type { PolicyService } from '../../domains/policies/service.ts'
import type { SealService } from '../../domains/seal/service.ts'
import type { SecretLinks } from '../../domains/secrets/links.ts'
import type { SecretService } from '../../domains/secrets/service.ts'
import type { ClockKeeper } from '../../domains/server/clock-keeper.ts'
import type { ServerService } from '../../domains/server/service.ts'
import type { SkillService } from '../../domains/skills/service.ts'
import type { SwarmService } from '../../domains/swarm/service.ts'
import type { TaskService } from '../../domains/tasks/service.ts'
import type { TeamService } from '../../domains/teams/service.ts'
import type { TrailService } from '../../domains/trail/service.ts'
import type { TrustContextService } from '../../domains/trust/contexts.ts'
import type { VaultService } from '../../domains/vault/service.ts'
import type { WebService } from '../../domains/web/service.ts'
import type { WorkflowService } from '../../domains/workflows/service.ts'
import type { WorkspaceService } from '../../domains/workspaces/service.ts'
import type { ToolSearchRequest } from './search/search-request.ts'
import type { ToolSearchAnswer } from './search/tool-index.ts'

/** Search over the tools that a principal may use. */
export type ToolSearch = (
  principal: Principal,
  request: Omit<ToolSearchRequest, 'isVisible' | 'asked'>,
  signal: AbortSignal,
) => Promise<ToolSearchAnswer>

/** The domain services that tools may call, by their exported interfaces. Only add what a tool uses. */
export type Services = Readonly<{
  executions: ExecutionService
  agents: AgentService
  approvals: ApprovalService
  authoring: AuthoringService
  intents: IntentService
  commands: CommandService
  files: FileService
  gateways: GatewayService
  git: GitService
  tasks: TaskService
  trail: TrailService
  interactions: InteractionService
  limits: LimitService
  log: LogService & LogRecoveryService
  clock: Pick<ClockKeeper, 'reset'>
  people: PeopleService
  platform: PlatformService
  policies: PolicyService
  identity: Pick<IdentityService, 'createKey' | 'listKeys' | 'revokeKey'>
  roles: RoleService
  mcpServers: McpServerService
  mcpContent: McpContentService
  modelProxies: ModelProxyService
  optimizationRules: OptimizationRuleService
  providerKeys: Pick<ProviderKeyService, 'create' | 'list' | 'update' | 'rotate' | 'remove'>
  virtualKeys: Pick<VirtualKeyService, 'create' | 'list' | 'get' | 'rotate' | 'revoke'>
  secrets: Pick<SecretService, 'list' | 'deleteOne' | 'rotate'>
  secretLinks: Pick<SecretLinks, 'createForValue' | 'submit'>
  skills: Pick<SkillService, 'list'>
  seal: Pick<SealService, 'attest' | 'listSessions' | 'revokeSession'>
  server: ServerService
  swarms: SwarmService
  vault: Pick<VaultService, 'act'>
  web: WebService
  workflows: WorkflowService
  workspaces: WorkspaceService
  teams: Pick<TeamService, 'act'>
  trust: TrustContextService
  searchTools: ToolSearch
}>
