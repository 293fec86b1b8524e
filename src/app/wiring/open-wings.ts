import type { GatewayDirectory } from '../../contract/gateway-directory.ts'
import type { UpstreamContent } from '../../contract/upstream-content.ts'
import type { UpstreamTools } from '../../contract/upstream-tools.ts'
import type { Authorizations } from '../../domains/mcp-servers/authorizations.ts'
import type { ProviderTokens } from '../../domains/people/provider-tokens.ts'
import type { SecretLinks } from '../../domains/secrets/links.ts'
import type { RunFeed } from '../../http/rest-routes.ts'
import { sqlPendingWork } from '../../stores/sql/pending-work.ts'
import type { Toolset } from '../../tools/runtime/define-tool.ts'
import type { Services } from '../../tools/runtime/services.ts'
import type { AppDeps } from '../build-app.ts'
import type { AgentWing, AgentWingParts } from './agent-wing.ts'
import type { GovernanceWing, GovernanceWingParts, ModelAccess } from './governance-wing.ts'
import { once } from './once.ts'
import type { SharedEmbedder } from './open-embedder.ts'
import type { WorkspaceWing, WorkspaceWingParts } from './workspace-wing.ts'

/** What a toolset needs to be open beside the core. */
const wings: Readonly<Record<Toolset, 'core' | 'workspaces' | 'agents' | 'governance'>> = {
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

/** Parts of the program that are loaded and opened when they are first used, or when the store has work for them. */
type Wings = Readonly<{
  openFor(toolset: Toolset): Promise<void>
  runs: RunFeed
  secretLinks: Pick<SecretLinks, 'open'>
  authorizations: Pick<Authorizations, 'open'>
  upstreamTools(): Promise<UpstreamTools>
  gateways: Pick<GatewayDirectory, 'find'>
  modelAccess(): Promise<ModelAccess>
  upstreamContent(): Promise<UpstreamContent>
  providerTokens(): Promise<ProviderTokens>
  close(): Promise<void>
}>

type Parts = WorkspaceWingParts &
  Omit<GovernanceWingParts, 'workspaces' | 'manifestTools' | 'subAgents'> &
  Omit<AgentWingParts, 'workspaceWing' | 'embedder' | 'noteToolChange'> &
  Readonly<{ embedder: SharedEmbedder }>

/** `add` is given the services of each wing as it opens. */
export async function openWings(
  deps: AppDeps,
  parts: Parts,
  add: (services: Partial<Services>) => void,
): Promise<Wings> {
  const workspaces = once(async (): Promise<WorkspaceWing> => {
    const { openWorkspaceWing } = await import('./workspace-wing.ts')
    const wing = openWorkspaceWing(deps, parts)
    add(wing.services)
    return wing
  })
  const agents = once(async (): Promise<AgentWing> => {
    const [{ openAgentWing }, workspaceWing] = await Promise.all([import('./agent-wing.ts'), workspaces()])
    const wing = openAgentWing(deps, {
      ...parts,
      workspaceWing,
      embedder: parts.embedder.get(),
      // A tool of another server can be assigned only where the wing of those servers is open already.
      noteToolChange: async (...args) => (await governance()).noteToolChange(...args),
    })
    add(wing.services)
    return wing
  })
  const governance = once(async (): Promise<GovernanceWing> => {
    const { openGovernanceWing } = await import('./governance-wing.ts')
    const wing = await openGovernanceWing(deps, {
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
    add(wing.services)
    return wing
  })
  // A wrong setting is told at the start.
  const { ca_file, credentials } = deps.config.workspaces
  if (ca_file !== undefined || credentials.length > 0) await workspaces()
  // A caller that lists its tools right after the start finds all of them.
  const isShared = parts.database.kind !== 'sqlite'
  if (isShared || (await sqlPendingWork.ofMcpServers(parts.database.read))) await governance()
  const taken = takeUpWork(deps, parts, { workspaces, agents })
  return {
    async openFor(toolset) {
      if (wings[toolset] === 'workspaces') await workspaces()
      if (wings[toolset] === 'agents') await agents()
      if (wings[toolset] === 'governance') await governance()
    },
    runs: {
      open: async (...args) => (await agents()).runs.open(...args),
      openAgent: async (...args) => (await agents()).runs.openAgent(...args),
    },
    upstreamTools: async () => (await governance()).upstreamTools,
    upstreamContent: async () => (await governance()).upstreamContent,
    providerTokens: async () => (await governance()).providerTokens,
    modelAccess: async () => (await governance()).modelAccess,
    gateways: { find: async (...args) => (await governance()).directory.find(...args) },
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

/** A store that others have open too may come to have work at any time, which they may leave to us. */
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
