import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { nameTaken } from '../../contract/name-taken.ts'
import { identityOf, type Principal, SYSTEM_TENANT, type TenantId, tierAllows } from '../../contract/principal.ts'
import { beginningOf } from '../../contract/tool-pattern.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import type { Random } from '../../kernel/random.ts'
import { uuidOf } from '../../kernel/uuid.ts'
import { type FieldValues, requireNoSecrets, valuesInHandler } from '../manifests/named-secrets.ts'
import { latestOf, nextVersion } from '../manifests/versions.ts'
import type { Profile, ProfileStore } from '../profiles/ports.ts'
import { nameTaken as sharedNameTaken, shareScope } from '../profiles/rules.ts'
import { type AgentAccess, type FoundAgent, requireModifiable } from './agent-access.ts'
import { type KnownTools, requireKnownTools } from './known-tools.ts'
import type { AgentManifest } from './manifest.ts'
import { requireJudges } from './named-judges.ts'
import type { Agent, AgentDeployInput, AgentScope, AgentStore, ScheduleSetter, ToolAssigner } from './ports.ts'
import { agentNotFound, requireGlobal, requireName, scopeOf, tooManyAgents } from './records.ts'
import type { Templates } from './templates.ts'

type DeploymentDeps = Readonly<{
  store: AgentStore
  profiles: ProfileStore
  access: AgentAccess
  templates: Templates
  random: Random
  tools: Pick<ToolAssigner, 'isOwn'>
  toolsFor(principal: Principal): KnownTools
  hasSecurityContext(name: string): boolean
  schedules: ScheduleSetter
  resolve(read: Call['read'], principal: Principal, idOrName: string): Promise<unknown>
}>

type Version = Readonly<{ tenant: TenantId; manifest: AgentManifest; yaml: string; versions: readonly string[] }>

export type Deployment = ReturnType<typeof createDeployment>

/** Deploys manifests. The profile of an agent follows its latest manifest. */
export function createDeployment(deps: DeploymentDeps) {
  const { store, profiles, access, templates } = deps

  function requireUsable(principal: Principal, manifest: AgentManifest): void {
    requireKnownTools(manifest, deps.toolsFor(principal))
    const { securityContext } = manifest
    if (securityContext === null) return
    if (securityContext.startsWith('aegis-system-') && !tierAllows(principal.tier, 'operator')) {
      throw new AppError('ERR_PERMISSION_DENIED', 'spec.security_context: contexts aegis-system-* are for operators', {
        field: 'spec.security_context',
      })
    }
    if (!deps.hasSecurityContext(securityContext)) {
      throw new AppError('ERR_MANIFEST_INVALID', 'spec.security_context names no context that is configured here', {
        field: 'spec.security_context',
      })
    }
  }

  async function deploy(call: Call, input: AgentDeployInput, mode: 'create' | 'update') {
    const { principal } = call
    const manifest = await checked(call, input.manifest_yaml)
    const meant = input.agent_id === undefined ? undefined : await findMeant(call, input.agent_id, manifest)
    const scope = input.scope ?? (meant === undefined ? 'tenant' : scopeOf(meant.agent))
    if (scope === 'global') requireGlobal(principal)
    const tenant = scope === 'global' ? SYSTEM_TENANT : principal.tenant
    if (scope === 'global') await store.lockShared(call.write)
    if (principal.newNamesOnly) {
      requireNoSecrets(valuesInAgent(manifest))
      await requireNewName(call, manifest.name)
    }
    const found = meant ?? (await access.findDeployed(call.write, principal, tenant, manifest.name))
    if (found === undefined && mode === 'update') throw agentNotFound(manifest.name)
    if (found !== undefined && found.agent.tenant !== tenant) throw agentNotFound(manifest.name)
    if (found !== undefined) requireModifiable(principal, found)
    const before = found?.agent
    const versions = before === undefined ? [] : await store.versionsOf(call.write, tenant, before.id)
    if (before !== undefined && versions.includes(manifest.version) && !input.force) {
      return conflictOf(before, manifest, versions)
    }
    if (!versions.includes(manifest.version) && versions.length >= limits.agentVersionsMax) throw tooManyVersions()
    if (await givesTools(call, before, manifest)) await call.assignsTools?.()
    const version = { tenant, manifest, versions, yaml: input.manifest_yaml }
    const agent = found === undefined ? await insertForAll(call, version) : await addVersion(call, found, version)
    const schedule = await deps.schedules.find(call.write, agent)
    const answer = { agent_id: agent.id, deployed: true, name: agent.name, version: manifest.version }
    return { ...answer, ...(schedule !== null && { schedule }) }
  }

  /** Whether an agent gets a tool that its latest version lacks, or a new one gets a tool of another server. */
  async function givesTools(call: Call, before: Agent | undefined, { tools }: AgentManifest): Promise<boolean> {
    if (before === undefined) return tools.some((name) => name.endsWith('__*') || !isOurs(name))
    const { parseAgentManifest } = await import('./manifest.ts')
    const latest = await store.findVersion(call.write, before.tenant, before.id, before.latestVersion)
    const listed = latest === undefined ? [] : parseAgentManifest(latest.manifestYaml).manifest.tools
    return tools.some((name) => !listed.includes(name))
  }

  const isOurs = (name: string): boolean => beginningOf(name) !== undefined || deps.tools.isOwn(name)

  /** A manifest that this caller may deploy here. Adds its warnings to the call. */
  async function checked(call: Call, yaml: string): Promise<AgentManifest> {
    const { principal } = call
    const { parseAgentManifest, refusalOf } = await import('./manifest.ts')
    const { manifest, warnings } = parseAgentManifest(yaml)
    const { scheduleProblemOf } = await import('./scheduled-input.ts')
    const problem = scheduleProblemOf(manifest)
    if (problem !== undefined) throw refusalOf([problem])
    requireUsable(principal, manifest)
    await requireJudges(manifest, (judge) => deps.resolve(call.read, principal, judge))
    for (const warning of warnings) call.warn(warning)
    return manifest
  }

  async function findMeant(call: Call, idOrName: string, manifest: AgentManifest): Promise<FoundAgent> {
    const meant = await access.find(call.write, call.principal, idOrName)
    if (meant === undefined) throw agentNotFound(idOrName)
    requireName(meant.agent, manifest)
    return meant
  }

  /** Refuses the name of an existing agent, and one that others would find instead of theirs. */
  async function requireNewName(call: Call, name: string): Promise<void> {
    const found = (await access.find(call.write, call.principal, name)) ?? (await templates.find(name))
    if (found !== undefined) throw nameTaken('agent')
  }

  /** An agent that is deployed only by a manifest belongs to the whole tenant, under the name of its manifest. */
  async function insertForAll(call: Call, version: Version): Promise<Agent> {
    const { tenant, manifest } = version
    const profile: Profile = {
      ...profileOf(manifest),
      tenant,
      id: uuidOf(deps.random.bytes(16)),
      kind: 'agent',
      name: manifest.name,
      slug: manifest.name,
      sharing: { scope: 'org', author: identityOf(call.principal), teams: [] },
      icon: null,
      suggestedPrompts: [],
      exposure: 'full',
      contextUntrusted: false,
      isDefault: false,
      createdAtMs: call.nowMs,
      updatedAtMs: call.nowMs,
    }
    const others = await profiles.findNamed(call.write, tenant, 'agent', manifest.name)
    if (others.some(({ sharing }) => shareScope(sharing, profile.sharing))) throw sharedNameTaken(manifest.name)
    return await insert(call, profile, version)
  }

  /** The first version of an agent, with its profile. */
  async function insert(call: Call, profile: Profile, version: Version): Promise<Agent> {
    const { tenant, manifest } = version
    if ((await store.countAgents(call.write, tenant)) >= limits.agentsMax) throw tooManyAgents()
    const agent: Agent = {
      tenant,
      id: profile.id,
      name: profile.slug,
      status: 'active',
      latestVersion: manifest.version,
      description: manifest.description,
      labels: manifest.labels,
      createdAtMs: call.nowMs,
      createdBy: call.principal.actor,
      updatedAtMs: call.nowMs,
    }
    await profiles.insertProfile(call.write, tenant, profile)
    await store.insertAgent(call.write, tenant, agent)
    await putVersion(call, agent, version, true)
    return agent
  }

  async function addVersion(call: Call, { agent: before, profile }: FoundAgent, version: Version): Promise<Agent> {
    const { tenant, manifest, versions } = version
    const latestVersion = latestOf([...versions, manifest.version]) ?? manifest.version
    const isLatest = latestVersion === manifest.version
    const agent: Agent = {
      ...before,
      latestVersion,
      ...(isLatest && { description: manifest.description, labels: manifest.labels }),
      updatedAtMs: call.nowMs,
    }
    await store.saveAgent(call.write, tenant, agent)
    if (isLatest) {
      await profiles.saveProfile(call.write, tenant, { ...profile, ...profileOf(manifest), updatedAtMs: call.nowMs })
    }
    await putVersion(call, agent, version, false)
    return agent
  }

  async function putVersion(call: Call, agent: Agent, { tenant, manifest, yaml }: Version, isNew: boolean) {
    await store.putVersion(call.write, tenant, {
      agentId: agent.id,
      version: manifest.version,
      manifestYaml: yaml,
      createdAtMs: call.nowMs,
      createdBy: call.principal.actor,
    })
    if (agent.latestVersion === manifest.version) await deps.schedules.set(call, agent, manifest.schedule)
    await recordDeployment(call, store, { agent, scope: scopeOf(agent), manifest, yaml, isNew })
  }

  return { deploy, checked, insert, addVersion }
}

/** The fields of a profile that come from the manifest. */
const profileOf = (manifest: AgentManifest): Pick<Profile, 'description' | 'labels' | 'systemPrompt'> => ({
  description: manifest.description === '' ? null : manifest.description,
  labels: Object.entries(manifest.labels).map(([key, value]) => ({ key, value })),
  systemPrompt: manifest.task.systemPrompt,
})

function conflictOf(before: Agent, manifest: AgentManifest, versions: readonly string[]) {
  const next = nextVersion(latestOf(versions) ?? manifest.version)
  return {
    status: 'conflict' as const,
    agent_id: before.id,
    deployed: false,
    name: before.name,
    version: manifest.version,
    hint: `This version is already deployed. Raise metadata.version, for example to ${next}, or call again with force: true to replace it.`,
  }
}

const tooManyVersions = (): AppError =>
  new AppError(
    'ERR_QUOTA_EXCEEDED',
    `An agent has at most ${limits.agentVersionsMax} versions. Replace one with force: true.`,
  )

const valuesInAgent = ({ env, outputHandler, execution }: AgentManifest): readonly FieldValues[] => [
  { field: 'spec.env', values: env },
  ...valuesInHandler('spec.output_handler', outputHandler),
  ...execution.delivery.map(({ headers }, index) => ({
    field: `spec.execution.delivery.destinations[${index}].headers`,
    values: headers,
  })),
]

type Deployed = Readonly<{
  agent: Agent
  scope: AgentScope
  manifest: AgentManifest
  yaml: string
  /** Whether there was no agent of this name before. */
  isNew: boolean
}>

/** Records a deployment in the log of the tenant and in the activity of the agent, in its transaction. */
async function recordDeployment(call: Call, store: AgentStore, deployed: Deployed): Promise<void> {
  const { agent, scope, manifest, yaml, isNew } = deployed
  const told = { name: agent.name, version: manifest.version, latest_version: agent.latestVersion, scope }
  const { actor } = call.principal
  await store.insertEvent(call.write, agent.tenant, {
    agentId: agent.id,
    type: isNew ? 'agent_deployed' : 'agent_updated',
    payload: { ...told, by: actor },
    atMs: call.nowMs,
  })
  call.record({
    kind: 'agent_deployed',
    body: {
      agent_id: agent.id,
      ...told,
      status: agent.status,
      manifest_digest: sha256Hex(yaml),
      manifest_yaml: yaml,
      deployed_by: actor,
    },
  })
}
