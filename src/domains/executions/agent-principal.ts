import { AppError } from '../../contract/app-error.ts'
import { type Principal, tierAllows } from '../../contract/principal.ts'
import type { Capability, SecurityContext } from '../../contract/security-context.ts'
import type { DescribedTool, ToolInvoker } from '../../contract/tool-invoker.ts'
import { beginningOf } from '../../contract/tool-pattern.ts'
import type { Run } from '../../engine/ports.ts'
import type { AgentManifest } from '../agents/manifest.ts'
import type { ExecutionDeps, ExecutionInput } from './ports.ts'

const SYSTEM_CONTEXT = 'aegis-system-agent-runtime'
const WORKSPACE = '/workspace'
const MANIFEST = 'manifest:'

/**
 * Who acts when an agent calls a tool: never more than the caller that started the execution, and only what the manifest lists,
 * where it says so. A context that an operator registered the agent with raises it to the tier of that context, but not above
 * the tier of the starter. A judge may only read.
 */
export function agentPrincipal(
  deps: Pick<ExecutionDeps, 'contexts' | 'invoker'>,
  run: Run,
  input: ExecutionInput,
  workspaceId: string | null,
): Principal {
  const { manifest } = input
  const { tenant, role, permissions, tier, teams, scopes, user, runRootId, mcpSessionId } = run.principal
  const named = namedContext(deps, manifest)
  const ownTier = manifest.securityContext === SYSTEM_CONTEXT && tierAllows(tier, 'system') ? 'system' : 'user'
  const ownerTier = run.principal.ownerTier ?? tier
  const base: Principal = {
    tenant,
    kind: 'agent',
    actor: `agent:${manifest.name}`,
    role,
    permissions,
    tier: ownTier,
    ...(ownerTier !== ownTier && { ownerTier }),
    teams,
    ...(scopes && { scopes }),
    ...(user && { user }),
    agent: input.agent.id,
    executionId: run.id,
    ...(runRootId && { runRootId }),
    ...(mcpSessionId && { mcpSessionId }),
    onBehalfOf: run.owner,
    ...(workspaceId !== null && { workspaceId }),
  }
  const offered = offeredTools(deps.invoker, base, manifest.tools).filter(
    ({ isReadOnly }) => isReadOnly || input.role === 'worker',
  )
  const own = manifestContext(manifest, offered)
  return { ...base, securityContexts: [...inherited(run.principal), ...(named === undefined ? [] : [named]), own] }
}

/**
 * The contexts that bound the caller that started the execution bind the agent as well, or starting one would be a way around
 * them. Not what another agent's manifest lists: to execute an agent is to use what that one is for.
 */
export const inherited = ({ securityContexts = [] }: Principal): readonly SecurityContext[] =>
  securityContexts.filter(({ name }) => !name.startsWith(MANIFEST))

function namedContext({ contexts }: Pick<ExecutionDeps, 'contexts'>, { securityContext }: AgentManifest) {
  if (securityContext === null) return undefined
  const found = contexts.find(securityContext)
  if (found !== undefined) return found
  throw new AppError(
    'ERR_INVALID_INPUT',
    `spec.security_context: there is no context '${securityContext.slice(0, 64).toWellFormed()}'; add it to security_contexts in the configuration, or name another`,
    { field: 'spec.security_context' },
  )
}

/** The tools that a list of names and patterns such as `fs.*` or `server__*` means, of those that the principal may use. */
export function offeredTools(
  invoker: ToolInvoker,
  principal: Principal,
  wanted: readonly string[],
): readonly DescribedTool[] {
  if (wanted.length === 0) return []
  const prefixes = wanted.map(beginningOf).filter((beginning) => beginning !== undefined)
  const names = new Set(wanted)
  return invoker
    .describe(principal)
    .filter(({ name }) => names.has(name) || prefixes.some((prefix) => name.startsWith(prefix)))
}

/** Why a tool is not among those that the agent was offered, in the words of its manifest. The model may use safe names. */
export function whyNotOffered({ manifest, role }: Pick<ExecutionInput, 'manifest' | 'role'>, name: string): string {
  const safe = (text: string): string => text.replaceAll('.', '_')
  const asked = safe(name)
  const isListed = manifest.tools.some((tool) =>
    tool.endsWith('.*') ? asked.startsWith(safe(tool.slice(0, -1))) : safe(tool) === asked,
  )
  if (!isListed) return 'it is not in spec.tools'
  if (asked.startsWith('web_') && manifest.network?.mode === 'none') return 'spec.security.network.mode is none'
  if (asked.startsWith('fs_') && manifest.filesystem?.readOnly === true) {
    return 'spec.security.filesystem.read_only is true'
  }
  if (asked.startsWith('fs_') && manifest.filesystem?.write.length === 0) {
    return 'spec.security.filesystem lets nothing be written'
  }
  return role === 'judge' ? 'a judge may only read' : 'the caller that started the execution may not use it'
}

/** What the manifest itself allows, as a context: default deny. */
function manifestContext(manifest: AgentManifest, offered: readonly DescribedTool[]): SecurityContext {
  return {
    name: `${MANIFEST}${manifest.name}`,
    description: `What the manifest of ${manifest.name} allows.`,
    capabilities: offered.flatMap((tool) => capabilityOf(manifest, tool)),
    denyList: [],
  }
}

function capabilityOf(manifest: AgentManifest, { name, isReadOnly }: DescribedTool): Capability[] {
  const { filesystem, network, subcommandAllowlist, bootstrapPath } = manifest
  const closed = bootstrapPath !== null && !isReadOnly && { pathDenylist: [bootstrapPath] }
  if (name.startsWith('fs.')) {
    if (!isReadOnly && filesystem?.readOnly === true) return []
    const paths = isReadOnly ? filesystem?.read : filesystem?.write
    return [{ toolPattern: name, pathAllowlist: paths ?? [WORKSPACE], ...closed }]
  }
  if (name === 'cmd.run') {
    return [{ toolPattern: name, ...closed, ...(subcommandAllowlist !== null && { subcommandAllowlist }) }]
  }
  if (name.startsWith('web.') && network !== null) {
    if (network.mode === 'none') return []
    return network.mode === 'allow'
      ? [{ toolPattern: name, domainAllowlist: network.allowlist }]
      : [{ toolPattern: name, domainDenylist: network.denylist }]
  }
  return [{ toolPattern: name }]
}
