import type { GatewayDirectory } from '../../contract/gateway-directory.ts'
import type { UpstreamContent } from '../../contract/upstream-content.ts'
import type { UpstreamTools } from '../../contract/upstream-tools.ts'
import type { Authorizations } from '../../domains/mcp-servers/authorizations.ts'
import type { ProviderTokens } from '../../domains/people/provider-tokens.ts'
import type { SecretLinks } from '../../domains/secrets/links.ts'
import type { SecretService } from '../../domains/secrets/service.ts'
import type { RunFeed } from '../../http/rest-routes.ts'
import { sqlPendingWork } from '../../stores/sql/pending-work.ts'
import type { Toolset } from '../../tools/runtime/define-tool.ts'
import type { Services } from '../../tools/runtime/services.ts'
import type { AppDeps } from '../build-app.ts'
import type { AgentServices, AgentServicesParts } from './agent-services.ts'
import type { GovernanceServices, GovernanceServicesParts, ModelAccess } from './governance-services.ts'
import { once } from './once.ts'
import type { SharedEmbedder } from './open-embedder.ts'
import type { WorkspaceServices, WorkspaceServicesParts } from './workspace-services.ts'

/** The group of services that each toolset needs. */
const groupOfToolset: Readonly<Record<Toolset, 'core' | 'workspaces' | 'agents' | 'governance'>> = {
  meta: 'core',
  ledger: 'core',
  log: 'core',
  server: 'core',
  identity: 'core',
  modes: 'core',
  people: 'core',
  vault: 'workspaces',
  workspaces: 'workspaces',
  teams: 'workspaces',
  cmd: 'workspaces',
  fs: 'workspaces',
  web: 'workspaces',
  agents: 'agents',
  executions: 'agents',
  workflows: 'agents',
  intents: 'agents',
  platform: 'agents',
  limits: 'governance',
  interactions: 'governance',
  secrets: 'governance',
  'mcp-servers': 'governance',
  gateways: 'governance',
  'model-proxies': 'governance',
  policies: 'governance',
}

/** Parts of the program that are opened on first use, or when the store has work for them. */
type ServiceGroups = Readonly<{
  openFor(toolset: Toolset): Promise<void>
  runs: RunFeed
  secretLinks: Pick<SecretLinks, 'open'>
  authorizations: Pick<Authorizations, 'open'>
  upstreamTools(): Promise<UpstreamTools>
  gateways: Pick<GatewayDirectory, 'find'>
  modelAccess(): Promise<ModelAccess>
  upstreamContent(): Promise<UpstreamContent>
  providerTokens(): Promise<ProviderTokens>
  secrets(): Promise<Pick<SecretService, 'resolve' | 'valuesOf'>>
  close(): Promise<void>
}>

type Parts = WorkspaceServicesParts &
  Omit<GovernanceServicesParts, 'workspaces' | 'manifestTools' | 'subAgents'> &
  Omit<AgentServicesParts, 'workspaceServices' | 'embedder' | 'noteToolChange' | 'noteAccessChange'> &
  Readonly<{ embedder: SharedEmbedder }>

/** `add` receives the services of each group as it opens. */
export async function openServiceGroups(
  deps: AppDeps,
  parts: Parts,
  add: (services: Partial<Services>) => void,
): Promise<ServiceGroups> {
  const workspaces = once(async (): Promise<WorkspaceServices> => {
    const { openWorkspaceServices } = await import('./workspace-services.ts')
    const group = openWorkspaceServices(deps, parts)
    add(group.services)
    return group
  })
  const agents = once(async (): Promise<AgentServices> => {
    const [{ openAgentServices }, workspaceServices] = await Promise.all([import('./agent-services.ts'), workspaces()])
    const group = openAgentServices(deps, {
      ...parts,
      workspaceServices: workspaceServices,
      embedder: parts.embedder.get(),
      // An upstream tool can be assigned only if the group of those servers is open already.
      noteToolChange: async (...args) => (await governance()).noteToolChange(...args),
      // While that group is not open, nobody is at the address of an agent. A transaction must not open it.
      noteAccessChange: async (...args) => await opened?.noteToolChange(...args),
    })
    add(group.services)
    return group
  })
  let opened: GovernanceServices | undefined
  const governance = once(async (): Promise<GovernanceServices> => {
    const { openGovernanceServices } = await import('./governance-services.ts')
    const group = await openGovernanceServices(deps, {
      ...parts,
      workspaces,
      async manifestTools(principal, agentId) {
        const { services } = await agents()
        return (await services.agents.resolve(parts.database.read, principal, agentId)).manifest.tools
      },
      async subAgents(principal, agentId) {
        const { services } = await agents()
        const { delegationName } = await import('../../domains/executions/delegation.ts')
        const found = await services.agents.subAgentsOf(parts.database.read, principal, agentId)
        const taken = new Set<string>()
        return found.map((agent) => {
          const toolName = delegationName(agent, taken)
          taken.add(toolName)
          return { id: agent.id, toolName, displayName: agent.name, description: agent.description }
        })
      },
    })
    add(group.services)
    opened = group
    return group
  })
  /** Set once the group is open; from then on gateways answer without waiting. */
  let directory: Pick<GatewayDirectory, 'find'> | undefined
  // A wrong setting is reported at the start.
  const { ca_file, credentials } = deps.config.workspaces
  if (ca_file !== undefined || credentials.length > 0) await workspaces()
  // A caller that lists its tools right after the start finds all of them.
  const isShared = parts.database.kind !== 'sqlite'
  if (isShared || (await sqlPendingWork.ofMcpServers(parts.database.read))) await governance()
  const taken = takeUpWork(deps, parts, { workspaces, agents })
  return {
    async openFor(toolset) {
      if (groupOfToolset[toolset] === 'workspaces') await workspaces()
      if (groupOfToolset[toolset] === 'agents') await agents()
      if (groupOfToolset[toolset] === 'governance') await governance()
    },
    runs: {
      open: async (...args) => (await agents()).runs.open(...args),
      openAgent: async (...args) => (await agents()).runs.openAgent(...args),
    },
    upstreamTools: async () => (await governance()).upstreamTools,
    upstreamContent: async () => (await governance()).upstreamContent,
    providerTokens: async () => (await governance()).providerTokens,
    secrets: async () => (await governance()).secrets,
    modelAccess: async () => (await governance()).modelAccess,
    gateways: {
      find(...args) {
        if (directory !== undefined) return directory.find(...args)
        return governance().then((group) => {
          directory = group.directory
          return directory.find(...args)
        })
      },
    },
    secretLinks: { open: async (...args) => (await governance()).links.open(...args) },
    authorizations: { open: async (...args) => (await governance()).authorizations.open(...args) },
    async close() {
      await taken
      await (await governance.made())?.close()
      await (await agents.made())?.close()
      await (await workspaces.made())?.close()
    },
  }
}

/** A store that other processes share may get work at any time. */
async function takeUpWork(
  { logger }: AppDeps,
  { database }: Pick<Parts, 'database'>,
  { workspaces, agents }: Readonly<{ workspaces(): Promise<unknown>; agents(): Promise<unknown> }>,
): Promise<void> {
  const isShared = database.kind !== 'sqlite'
  try {
    if (isShared || (await sqlPendingWork.ofAgents(database.read))) await agents()
    else if (await sqlPendingWork.ofWorkspaces(database.read)) await workspaces()
  } catch (error) {
    logger.warn('recovery at the start failed', { cause: String(error) })
  }
}
