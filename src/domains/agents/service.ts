import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { agentEventName } from '../../contract/event-names.ts'
import { limits } from '../../contract/limits.ts'
import { isPlatformOperator, type Principal, SYSTEM_TENANT } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { Random } from '../../kernel/random.ts'
import { findVersion, newestFirst } from '../manifests/versions.ts'
import type { ProfileStore } from '../profiles/ports.ts'
import type { ProfileService } from '../profiles/service.ts'
import { type AgentViewer, createAgentAccess, requireModifiable } from './agent-access.ts'
import { createAgentProfiles } from './agent-profiles.ts'
import { createDeployment } from './deployment.ts'
import type { KnownTools } from './known-tools.ts'
import type { AgentManifest } from './manifest.ts'
import type {
  ActivityLog,
  Agent,
  AgentAddress,
  AgentDeployInput,
  AgentListInput,
  AgentScope,
  AgentStatus,
  AgentStore,
  ScheduleSetter,
  ToolAssigner,
} from './ports.ts'
import { agentNotFound, createAgentRecords, forPlatformOperators, type RecordDeps, scopeOf } from './records.ts'
import { type AgentSearch, matchesLabels } from './search.ts'
import type { Templates } from './templates.ts'

/** An agent as an execution needs it. */
export type ResolvedAgent = Readonly<{
  id: string
  name: string
  version: string
  scope: AgentScope
  manifest: AgentManifest
}>

type RegistryDeps = Readonly<{
  store: AgentStore
  profiles: ProfileStore
  sharing: ProfileService
  tools: ToolAssigner
  activity: ActivityLog
  templates: Templates
  search: AgentSearch
  random: Random
  /** The tools that a manifest of the principal may list in `spec.tools`, as of the last refresh. */
  toolsFor(principal: Principal): KnownTools
  refreshTools: RecordDeps['refreshTools']
  hasSecurityContext(name: string): boolean
  schedules: ScheduleSetter
  runtimeProblem: RecordDeps['runtimeProblem']
  sizeProblem: RecordDeps['sizeProblem']
  modelProblem: RecordDeps['modelProblem']
  noteAccessChange: RecordDeps['noteAccessChange']
}>

export type AgentService = ReturnType<typeof createAgentService>

export function createAgentService(deps: RegistryDeps) {
  const { store, templates } = deps

  const access = createAgentAccess(deps)
  const findStored = async (read: ReadTx, viewer: AgentViewer, idOrName: string): Promise<Agent | undefined> =>
    (await access.find(read, viewer, idOrName))?.agent

  async function versionOf(read: ReadTx, agent: Agent, requested: string | undefined) {
    const versions = await store.versionsOf(read, agent.tenant, agent.id)
    const version = requested === undefined ? agent.latestVersion : findVersion(requested, versions)
    const found = version === undefined ? undefined : await store.findVersion(read, agent.tenant, agent.id, version)
    if (found === undefined) throw versionNotFound(agent.name, versions)
    return found
  }

  /** Also finds paused and archived agents: the code that runs one decides what its status means. */
  async function resolve(
    read: ReadTx,
    viewer: AgentViewer,
    idOrName: string,
    version?: string,
  ): Promise<ResolvedAgent & Readonly<{ status: AgentStatus }>> {
    const agent = await findStored(read, viewer, idOrName)
    if (agent !== undefined) {
      const stored = await versionOf(read, agent, version)
      const { parseAgentManifest } = await import('./manifest.ts')
      const { manifest } = parseAgentManifest(stored.manifestYaml)
      const assigned = viewer === 'platform' ? [] : await deps.tools.assignedTo({ principal: viewer, read }, agent)
      return {
        id: agent.id,
        name: agent.name,
        version: stored.version,
        scope: scopeOf(agent),
        status: agent.status,
        manifest: { ...manifest, tools: [...manifest.tools, ...assigned.map(({ name }) => name)] },
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

  /** Rows of lists and of search; a template is omitted if a deployed agent has its name. */
  async function rows(call: Call, withTemplates: boolean): Promise<AgentRow[]> {
    const stored = (await access.list(call.read, call.principal)).map(rowOf)
    if (!withTemplates) return stored
    const names = new Set(stored.map(({ name }) => name))
    const shipped = (await templates.list()).filter(({ manifest }) => !names.has(manifest.name))
    return [...stored, ...shipped.map(({ id, manifest }) => templateRow(id, manifest))]
  }

  const records = createAgentRecords({ ...deps, findStored, versionOf })
  const deployment = createDeployment({ ...deps, access, resolve })
  const agentProfiles = createAgentProfiles({ ...deps, access, deployment, versionOf })

  return {
    resolve,
    ...records,
    ...agentProfiles,
    /** An operator's global agent, else a shipped one; never a tenant's. */
    resolvePlatform: (read: ReadTx, name: string) => resolve(read, 'platform', name),
    /** A shipped agent, whatever has been deployed under its name. */
    async template(name: string): Promise<ResolvedAgent> {
      const found = await templates.find(name)
      if (found === undefined) throw new Error(`there is no template '${name}'`)
      const { id, manifest } = found
      return { id, name: manifest.name, version: manifest.version, scope: 'global', manifest }
    },
    create: (call: Call, input: AgentDeployInput) => deployment.deploy(call, input, 'create'),
    update: (call: Call, input: AgentDeployInput) => deployment.deploy(call, input, 'update'),

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
      const agent = await findStored(call.read, call.principal, input.name)
      if (agent !== undefined) {
        const { manifestYaml, version } = await versionOf(call.read, agent, input.version)
        return { manifest_yaml: manifestYaml, id: agent.id, name: agent.name, version }
      }
      const { id, name, version } = await resolve(call.read, call.principal, input.name, input.version)
      return { manifest_yaml: (await templates.find(id))!.manifestYaml, id, name, version }
    },

    /** All versions at once. Active runs continue: they have their manifest. */
    async remove(call: Call, input: Readonly<{ agent_id: string }>) {
      const { tenant } = call.principal
      await store.lockShared(call.write)
      const found = await access.find(call.write, call.principal, input.agent_id)
      if (found === undefined) {
        if ((await templates.find(input.agent_id)) !== undefined) throw templateStays()
        throw agentNotFound(input.agent_id)
      }
      const { agent } = found
      if (agent.tenant !== tenant && !isPlatformOperator(call.principal)) throw forPlatformOperators('agent_id')
      requireModifiable(call.principal, found)
      await deps.profiles.deleteProfile(call.write, agent.tenant, agent.id)
      await store.deleteAgent(call.write, agent.tenant, agent.id)
      await deps.schedules.remove(call, agent)
      await deps.noteAccessChange(call.write, agent.tenant)
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
      const { events, total, rootIds } = await deps.activity.activityOf(read, principal, agent, { limit, offset })
      for (const id of rootIds) call.readsFrom?.(`execution:${id}`)
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

  async function identify(read: ReadTx, principal: Principal, idOrName: string): Promise<AgentAddress> {
    const agent = await findStored(read, principal, idOrName)
    if (agent !== undefined) return agent
    const template = await templates.find(idOrName)
    if (template === undefined) throw agentNotFound(idOrName)
    return { id: template.id, tenant: SYSTEM_TENANT }
  }
}

type AgentRow = Readonly<{
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
