import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { agentEventName } from '../../contract/event-names.ts'
import { limits } from '../../contract/limits.ts'
import { nameTaken } from '../../contract/name-taken.ts'
import {
  isPlatformOperator,
  type Principal,
  SYSTEM_TENANT,
  type TenantId,
  tierAllows,
} from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { Random } from '../../kernel/random.ts'
import { uuidOf } from '../../kernel/uuid.ts'
import { requireKnownTools } from './known-tools.ts'
import { tellDeployed } from './lifecycle.ts'
import type { AgentManifest } from './manifest.ts'
import { requireJudges } from './named-judges.ts'
import { requireNoSecrets, valuesInAgent } from './named-secrets.ts'
import type {
  ActivityLog,
  Agent,
  AgentDeployInput,
  AgentListInput,
  AgentPlace,
  AgentScope,
  AgentStatus,
  AgentStore,
  ScheduleSetter,
} from './ports.ts'
import {
  agentNotFound,
  createAgentRecords,
  forPlatformOperators,
  type RecordDeps,
  requireGlobal,
  requireName,
  scopeOf,
  tooManyAgents,
} from './records.ts'
import { type AgentSearch, matchesLabels } from './search.ts'
import type { Templates } from './templates.ts'
import { findVersion, latestOf, newestFirst, nextVersion } from './versions.ts'

/** An agent as an execution needs it. */
export type ResolvedAgent = Readonly<{
  id: string
  name: string
  version: string
  scope: AgentScope
  manifest: AgentManifest
}>

export type RegistryDeps = Readonly<{
  store: AgentStore
  activity: ActivityLog
  templates: Templates
  search: AgentSearch
  random: Random
  /** The names that a manifest may have in `spec.tools`. */
  toolNames(): ReadonlySet<string>
  hasSecurityContext(name: string): boolean
  schedules: ScheduleSetter
  runtimeProblem: RecordDeps['runtimeProblem']
  sizeProblem: RecordDeps['sizeProblem']
}>

export type AgentRegistry = ReturnType<typeof createAgentRegistry>

export function createAgentRegistry(deps: RegistryDeps) {
  const { store, templates } = deps

  /** By id or name: in the caller's tenant, then among what is global. */
  async function findStored(read: ReadTx, tenant: TenantId, idOrName: string): Promise<Agent | undefined> {
    for (const place of [tenant, SYSTEM_TENANT]) {
      const found =
        (await store.findAgent(read, place, idOrName)) ?? (await store.findAgentByName(read, place, idOrName))
      if (found !== undefined) return found
    }
    return undefined
  }

  async function versionOf(read: ReadTx, agent: Agent, wanted: string | undefined) {
    const versions = await store.versionsOf(read, agent.tenant, agent.id)
    const version = wanted === undefined ? agent.latestVersion : findVersion(wanted, versions)
    const found = version === undefined ? undefined : await store.findVersion(read, agent.tenant, agent.id, version)
    if (found === undefined) throw versionNotFound(agent.name, versions)
    return found
  }

  /** A paused or archived agent is found too: whoever runs it decides what its status means. */
  async function resolve(
    read: ReadTx,
    principal: Pick<Principal, 'tenant'>,
    idOrName: string,
    version?: string,
  ): Promise<ResolvedAgent & Readonly<{ status: AgentStatus }>> {
    const agent = await findStored(read, principal.tenant, idOrName)
    if (agent !== undefined) {
      const stored = await versionOf(read, agent, version)
      const { parseAgentManifest } = await import('./manifest.ts')
      return {
        id: agent.id,
        name: agent.name,
        version: stored.version,
        scope: scopeOf(agent),
        status: agent.status,
        manifest: parseAgentManifest(stored.manifestYaml).manifest,
      }
    }
    const template = await templates.find(idOrName)
    if (template === undefined) throw agentNotFound(idOrName)
    const { id, manifest } = template
    if (version !== undefined && findVersion(version, [manifest.version]) === undefined) {
      throw versionNotFound(manifest.name, [manifest.version])
    }
    return { id, name: manifest.name, version: manifest.version, scope: 'global', status: 'active', manifest }
  }

  function requireUsable(principal: Principal, manifest: AgentManifest): void {
    requireKnownTools(manifest, deps.toolNames())
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
    const { parseAgentManifest, refusalOf } = await import('./manifest.ts')
    const { manifest, warnings } = parseAgentManifest(input.manifest_yaml)
    const { scheduleProblemOf } = await import('./scheduled-input.ts')
    const problem = scheduleProblemOf(manifest)
    if (problem !== undefined) throw refusalOf([problem])
    const meant = input.agent_id === undefined ? undefined : await findMeant(call, input.agent_id, manifest)
    const scope = input.scope ?? (meant === undefined ? 'tenant' : scopeOf(meant))
    if (scope === 'global') requireGlobal(principal)
    requireUsable(principal, manifest)
    await requireJudges(manifest, (judge) => resolve(call.read, principal, judge))
    for (const warning of warnings) call.warn(warning)
    const tenant = scope === 'global' ? SYSTEM_TENANT : principal.tenant
    if (scope === 'global') await store.lockShared(call.write)
    if (principal.newNamesOnly) {
      requireNoSecrets(valuesInAgent(manifest))
      await requireNewName(call, manifest.name)
    }
    const before = await store.findAgentByName(call.write, tenant, manifest.name)
    if (before === undefined && mode === 'update') throw agentNotFound(manifest.name)
    if (meant !== undefined && before?.id !== meant.id) throw agentNotFound(manifest.name)
    const versions = before === undefined ? [] : await store.versionsOf(call.write, tenant, before.id)
    if (before !== undefined && versions.includes(manifest.version) && !input.force) {
      return conflictOf(before, manifest, versions)
    }
    if (before === undefined) await requireSpace(call, tenant)
    if (!versions.includes(manifest.version) && versions.length >= limits.agentVersionsMax) throw tooManyVersions()
    const agent = await write(call, { tenant, before, manifest, versions, yaml: input.manifest_yaml })
    const isNew = before === undefined
    await tellDeployed(call, store, { agent, scope, manifest, yaml: input.manifest_yaml, isNew })
    const schedule = await deps.schedules.find(call.write, agent)
    const answer = { agent_id: agent.id, deployed: true, name: agent.name, version: manifest.version }
    return { ...answer, ...(schedule !== null && { schedule }) }
  }

  async function findMeant(call: Call, idOrName: string, manifest: AgentManifest): Promise<Agent> {
    const meant = await findStored(call.write, call.principal.tenant, idOrName)
    if (meant === undefined) throw agentNotFound(idOrName)
    requireName(meant, manifest)
    return meant
  }

  /** Neither a further version of what is there, nor something that others would find in its place. */
  async function requireNewName(call: Call, name: string): Promise<void> {
    const found = (await findStored(call.write, call.principal.tenant, name)) ?? (await templates.find(name))
    if (found !== undefined) throw nameTaken('agent')
  }

  async function requireSpace(call: Call, tenant: TenantId): Promise<void> {
    if ((await store.countAgents(call.write, tenant)) >= limits.agentsMax) throw tooManyAgents()
  }

  type Deployment = Readonly<{
    tenant: TenantId
    before: Agent | undefined
    manifest: AgentManifest
    versions: readonly string[]
    yaml: string
  }>

  async function write(call: Call, { tenant, before, manifest, versions, yaml }: Deployment): Promise<Agent> {
    const latestVersion = latestOf([...versions, manifest.version]) ?? manifest.version
    const displayed =
      before === undefined || latestVersion === manifest.version
        ? { description: manifest.description, labels: manifest.labels }
        : { description: before.description, labels: before.labels }
    const agent: Agent = {
      tenant,
      id: before?.id ?? uuidOf(deps.random.bytes(16)),
      name: manifest.name,
      status: before?.status ?? 'active',
      latestVersion,
      ...displayed,
      createdAtMs: before?.createdAtMs ?? call.nowMs,
      createdBy: before?.createdBy ?? call.principal.actor,
      updatedAtMs: call.nowMs,
    }
    await (before === undefined ? store.insertAgent : store.saveAgent)(call.write, tenant, agent)
    await store.putVersion(call.write, tenant, {
      agentId: agent.id,
      version: manifest.version,
      manifestYaml: yaml,
      createdAtMs: call.nowMs,
      createdBy: call.principal.actor,
    })
    if (latestVersion === manifest.version) await deps.schedules.set(call, agent, manifest.schedule)
    return agent
  }

  async function visible(call: Call): Promise<Agent[]> {
    const { tenant } = call.principal
    const own = await store.listAgents(call.read, tenant)
    if (tenant === SYSTEM_TENANT) return own
    const names = new Set(own.map(({ name }) => name))
    const shared = (await store.listAgents(call.read, SYSTEM_TENANT)).filter(({ name }) => !names.has(name))
    return [...own, ...shared]
  }

  /** Rows of lists and of search; a template is left out where something deployed has its name. */
  async function rows(call: Call, withTemplates: boolean): Promise<AgentRow[]> {
    const stored = (await visible(call)).map(rowOf)
    if (!withTemplates) return stored
    const names = new Set(stored.map(({ name }) => name))
    const shipped = (await templates.list()).filter(({ manifest }) => !names.has(manifest.name))
    return [...stored, ...shipped.map(({ id, manifest }) => templateRow(id, manifest))]
  }

  const records = createAgentRecords({ ...deps, findStored, versionOf })

  return {
    resolve,
    ...records,
    /** What an operator deployed for everybody, else what comes with the program; nothing of a tenant. */
    resolvePlatform: (read: ReadTx, name: string) => resolve(read, { tenant: SYSTEM_TENANT }, name),
    /** One that comes with the program, whatever has been deployed under its name. */
    async template(name: string): Promise<ResolvedAgent> {
      const found = await templates.find(name)
      if (found === undefined) throw new Error(`there is no template '${name}'`)
      const { id, manifest } = found
      return { id, name: manifest.name, version: manifest.version, scope: 'global', manifest }
    },
    create: (call: Call, input: AgentDeployInput) => deploy(call, input, 'create'),
    update: (call: Call, input: AgentDeployInput) => deploy(call, input, 'update'),

    async list(call: Call, input: AgentListInput) {
      const found = (await rows(call, input.include_platform_templates)).filter(
        ({ labels, status }) =>
          matchesLabels(labels, input.labels) && (input.status === undefined || status === input.status),
      )
      const page = found.slice(input.offset, input.offset + input.limit)
      const agents: (AgentRow & Partial<Awaited<ReturnType<typeof records.details>>>)[] = []
      for (const row of page) agents.push(input.details ? { ...row, ...(await records.details(call, row.id)) } : row)
      return { agents, total: found.length, limit: input.limit, offset: input.offset }
    },

    async export(call: Call, input: Readonly<{ name: string; version?: string | undefined }>) {
      const agent = await findStored(call.read, call.principal.tenant, input.name)
      if (agent !== undefined) {
        const { manifestYaml, version } = await versionOf(call.read, agent, input.version)
        return { manifest_yaml: manifestYaml, id: agent.id, name: agent.name, version }
      }
      const { id, name, version } = await resolve(call.read, call.principal, input.name, input.version)
      return { manifest_yaml: (await templates.find(id))!.manifestYaml, id, name, version }
    },

    /** All versions at once. What is running goes on: it has its manifest. */
    async remove(call: Call, input: Readonly<{ agent_id: string }>) {
      const { tenant } = call.principal
      await store.lockShared(call.write)
      const agent = await findStored(call.write, tenant, input.agent_id)
      if (agent === undefined) {
        if ((await templates.find(input.agent_id)) !== undefined) throw templateStays()
        throw agentNotFound(input.agent_id)
      }
      if (agent.tenant !== tenant && !isPlatformOperator(call.principal)) throw forPlatformOperators('agent_id')
      await store.deleteAgent(call.write, agent.tenant, agent.id)
      await deps.schedules.remove(call, agent)
      call.record({
        kind: 'agent_deleted',
        body: { agent_id: agent.id, name: agent.name, scope: scopeOf(agent), deleted_by: call.principal.actor },
      })
      return { agent_id: agent.id, deleted: true }
    },

    async logs(call: Call, input: Readonly<{ agent_id: string; limit: number; offset: number }>) {
      const { principal, read } = call
      const agent = await identify(read, principal, input.agent_id)
      const limit = Math.min(input.limit, limits.logPageMax)
      const { offset } = input
      const { events, total } = await deps.activity.activityOf(read, principal, agent, { limit, offset })
      return {
        tool: 'aegis.agent.logs' as const,
        agent_id: agent.id,
        events: events.map(({ eventType, payload, recordedAtMs }) => ({
          ...agentEventName(eventType),
          payload,
          recorded_at: isoTime(recordedAtMs),
        })),
        total,
        limit,
        offset,
      }
    },

    async search(call: Call, input: Parameters<AgentSearch['search']>[2]) {
      const found = await deps.search.search(call, await rows(call, input.include_platform_templates), input)
      return { tool: 'aegis.agent.search' as const, ...found }
    },
  }

  async function identify(read: ReadTx, principal: Principal, idOrName: string): Promise<AgentPlace> {
    const agent = await findStored(read, principal.tenant, idOrName)
    if (agent !== undefined) return agent
    const template = await templates.find(idOrName)
    if (template === undefined) throw agentNotFound(idOrName)
    return { id: template.id, tenant: SYSTEM_TENANT }
  }
}

export type AgentRow = Readonly<{
  id: string
  name: string
  version: string
  status: AgentStatus
  description: string
  labels: Readonly<Record<string, string>>
  scope: AgentScope
}>

const rowOf = (agent: Agent): AgentRow => ({
  id: agent.id,
  name: agent.name,
  version: agent.latestVersion,
  status: agent.status,
  description: agent.description,
  labels: agent.labels,
  scope: scopeOf(agent),
})

const templateRow = (id: string, manifest: AgentManifest): AgentRow => ({
  id,
  name: manifest.name,
  version: manifest.version,
  status: 'active',
  description: manifest.description,
  labels: manifest.labels,
  scope: 'global',
})

function conflictOf(before: Agent, manifest: AgentManifest, versions: readonly string[]) {
  const next = nextVersion(latestOf(versions) ?? manifest.version)
  return {
    status: 'conflict' as const,
    agent_id: before.id,
    deployed: false,
    name: before.name,
    version: manifest.version,
    hint: `This version is deployed already. Raise metadata.version, for example to ${next}, or call again with force: true to replace it.`,
  }
}

const templateStays = (): AppError =>
  new AppError('ERR_PERMISSION_DENIED', 'agent_id is a template that comes with the program and cannot be deleted.', {
    field: 'agent_id',
  })

function versionNotFound(name: string, versions: readonly string[]): AppError {
  const displayed = newestFirst(versions).slice(0, 10).join(', ')
  return new AppError('ERR_AGENT_NOT_FOUND', `version: ${name} has no such version. It has: ${displayed}.`, {
    field: 'version',
    versions: newestFirst(versions).slice(0, 10),
  })
}

const tooManyVersions = (): AppError =>
  new AppError(
    'ERR_QUOTA_EXCEEDED',
    `An agent has at most ${limits.agentVersionsMax} versions. Replace one with force: true.`,
  )
