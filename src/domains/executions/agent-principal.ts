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
 * The principal of an agent's tool calls: never more rights than the caller that started the execution, and only what the
 * manifest lists. A context with which an operator registered the agent raises it to the tier of that context, but not above the
 * tier of that caller. A judge may only read.
 */
export async function agentPrincipal(
  deps: Pick<ExecutionDeps, 'contexts' | 'invoker'>,
  run: Run,
  input: ExecutionInput,
  workspaceId: string | null,
): Promise<Principal> {
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
  // What an agent sees of MCP servers depends on its assignments, and not only on the caller that started it.
  await deps.invoker.refresh(base)
  const offered = offeredTools(deps.invoker, base, manifest.tools).filter(
    ({ isReadOnly }) => isReadOnly || input.role === 'worker',
  )
  const own = manifestContext(manifest, offered)
  return { ...base, securityContexts: [...inherited(run.principal), ...(named === undefined ? [] : [named]), own] }
}

/**
 * The security contexts of the caller that started the execution apply to the agent as well; otherwise starting one would evade
 * them. The lists of another agent's manifest do not: executing an agent means using its tools.
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
  requested: readonly string[],
): readonly DescribedTool[] {
  if (requested.length === 0) return []
  const prefixes = requested.map(beginningOf).filter((beginning) => beginning !== undefined)
  const names = new Set(requested)
  return invoker
    .describe(principal)
    .filter(({ name }) => names.has(name) || prefixes.some((prefix) => name.startsWith(prefix)))
}

/** Why a tool is not among those offered to the agent, in the terms of its manifest. The model may use safe names. */
export function whyNotOffered({ manifest, role }: Pick<ExecutionInput, 'manifest' | 'role'>, name: string): string {
  const safe = (text: string): string => text.replaceAll('.', '_')
  const safeName = safe(name)
  const isListed = manifest.tools.some((tool) =>
    tool.endsWith('.*') ? safeName.startsWith(safe(tool.slice(0, -1))) : safe(tool) === safeName,
  )
  if (!isListed) return 'it is not in spec.tools'
  if (safeName.startsWith('web_') && manifest.network?.mode === 'none') return 'spec.security.network.mode is none'
  if (safeName.startsWith('fs_') && manifest.filesystem?.readOnly === true) {
    return 'spec.security.filesystem.read_only is true'
  }
  if (safeName.startsWith('fs_') && manifest.filesystem?.write.length === 0) {
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
