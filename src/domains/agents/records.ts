import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { isPlatformOperator, type Principal, SYSTEM_TENANT, type TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import { isoTime } from '../../kernel/clock.ts'
import { newestFirst } from '../manifests/versions.ts'
import type { ProfileStore } from '../profiles/ports.ts'
import type { AgentViewer } from './agent-access.ts'
import type { AgentManifest } from './manifest.ts'
import type { ActivityLog, Agent, AgentScope, AgentStore, AgentVersion, ScheduleSetter } from './ports.ts'
import type { Templates } from './templates.ts'

export type RecordDeps = Readonly<{
  store: AgentStore
  profiles: ProfileStore
  activity: ActivityLog
  templates: Templates
  schedules: ScheduleSetter
  /** Why no workspace here can be created for a runtime; undefined if one can. */
  runtimeProblem(runtime: AgentManifest['runtime']): Promise<string | undefined>
  /** Why no workspace here may have these resources; undefined if one may. */
  sizeProblem(resources: AgentManifest['resources']): string | undefined
  /** Why no configured model has this alias; undefined if one has. */
  modelProblem(alias: string): string | undefined
  /** Loads the tools of the principal. */
  refreshTools(principal: Principal): Promise<void>
  /** Within the transaction that changes who sees an agent of the tenant: what others have open at its address may end. */
  noteAccessChange(tx: WriteTx, tenant: TenantId): Promise<void>
  findStored(tx: ReadTx, viewer: AgentViewer, idOrName: string): Promise<Agent | undefined>
  versionOf(tx: ReadTx, agent: Agent, requested: string | undefined): Promise<AgentVersion>
}>

type InfoInput = Readonly<{ agent_id: string; version?: string | undefined }>

/** The same message whether it does not exist or belongs to others. */
export function agentNotFound(
  idOrName: string,
  { field, hint } = { field: 'agent_id', hint: 'Use aegis.agent.list or aegis.agent.search to find its name.' },
): AppError {
  const agent = idOrName.slice(0, NAME_DISPLAYED_MAX).toWellFormed()
  return new AppError('ERR_AGENT_NOT_FOUND', `No such agent: '${agent}'. ${hint}`, { field, agent })
}
const NAME_DISPLAYED_MAX = 64

/** The manifest must have the name of the agent that the caller refers to. */
export function requireName({ name }: Agent, manifest: AgentManifest): void {
  if (manifest.name === name) return
  throw new AppError(
    'ERR_MANIFEST_INVALID',
    `metadata.name: must be '${name}', the name of the agent that is to be updated; aegis.agent.create deploys another`,
    { field: 'metadata.name' },
  )
}

export const scopeOf = ({ tenant }: Agent): AgentScope => (tenant === SYSTEM_TENANT ? 'global' : 'tenant')

export function requireGlobal(principal: Principal): void {
  if (!isPlatformOperator(principal)) throw forPlatformOperators('scope')
}

export const forPlatformOperators = (field: 'scope' | 'agent_id' | 'id'): AppError =>
  new AppError(
    'ERR_PERMISSION_DENIED',
    `${field}: agents of the scope global are for operators of the installation (tenant local); use an agent of your tenant`,
    { field },
  )

export function warnOfModel({ modelProblem }: Pick<RecordDeps, 'modelProblem'>, call: Call, alias: string): void {
  const problem = modelProblem(alias)
  if (problem !== undefined) call.warn(`${problem} Executions of the agent fail until then.`)
}

/** The record of an agent apart from its manifest, and who sees it. */
export function createAgentRecords(deps: RecordDeps) {
  const { store, profiles, activity, templates, schedules, findStored, versionOf } = deps

  /** Inspects the machine, so it runs outside the transaction. Errors of the manifest itself are reported elsewhere. */
  async function warnOfRuntime(call: Call, input: Readonly<{ manifest_yaml: string }>): Promise<void> {
    await deps.refreshTools(call.principal)
    const { checkAgentManifest } = await import('./manifest.ts')
    const checked = checkAgentManifest(input.manifest_yaml)
    if (!checked.ok) return
    const { runtime, resources } = checked.manifest
    for (const problem of [await deps.runtimeProblem(runtime), deps.sizeProblem(resources)]) {
      if (problem !== undefined) call.warn(`${problem} An execution that needs a workspace fails until then.`)
    }
    warnOfModel(deps, call, runtime.model)
  }

  async function readManifest(text: string) {
    const { parseAgentManifest } = await import('./manifest.ts')
    return parseAgentManifest(text).manifest
  }

  const detailsOf = async (call: Call, agent: Agent, { inputSchema }: Pick<AgentManifest, 'inputSchema'>) => ({
    created_at: isoTime(agent.createdAtMs),
    updated_at: isoTime(agent.updatedAtMs),
    tenant_id: agent.tenant as string,
    input_schema: inputSchema,
    execution_count: await activity.countOf(call.read, call.principal, agent.id),
  })
  const detailsOfTemplate = async (call: Call, id: string, { inputSchema }: Pick<AgentManifest, 'inputSchema'>) => ({
    created_at: null,
    updated_at: null,
    tenant_id: SYSTEM_TENANT as string,
    input_schema: inputSchema,
    execution_count: await activity.countOf(call.read, call.principal, id),
  })

  /** Details of an agent in a list, on request: they need its manifest and its runs. */
  async function details(call: Call, id: string) {
    const agent = await findStored(call.read, call.principal, id)
    if (agent === undefined) return await detailsOfTemplate(call, id, (await templates.find(id))!.manifest)
    const { manifestYaml } = await versionOf(call.read, agent, undefined)
    return await detailsOf(call, agent, { inputSchema: await inputSchemaOf(manifestYaml) })
  }

  /** Parsing a manifest that is not cached takes milliseconds: a long list yields before each. */
  async function inputSchemaOf(yaml: string): Promise<AgentManifest['inputSchema']> {
    await new Promise((resolve) => setImmediate(resolve))
    return (await readManifest(yaml)).inputSchema
  }

  async function infoOfTemplate(call: Call, idOrName: string) {
    const template = await templates.find(idOrName)
    if (template === undefined) throw agentNotFound(idOrName)
    const { id, manifest, manifestYaml } = template
    return {
      id,
      name: manifest.name,
      version: manifest.version,
      description: manifest.description,
      labels: manifest.labels,
      status: 'active' as const,
      scope: 'global' as const,
      ...(await detailsOfTemplate(call, id, manifest)),
      versions: [{ version: manifest.version, created_at: null, created_by: null, latest: true }],
      schedule: null,
      manifest_yaml: manifestYaml,
    }
  }

  async function versionRows(tx: ReadTx, agent: Agent) {
    const names = newestFirst(await store.versionsOf(tx, agent.tenant, agent.id))
    const rows = await Promise.all(names.map((name) => store.findVersion(tx, agent.tenant, agent.id, name)))
    return rows.flatMap((row) =>
      row === undefined
        ? []
        : {
            version: row.version,
            created_at: isoTime(row.createdAtMs),
            created_by: row.createdBy,
            latest: row.version === agent.latestVersion,
          },
    )
  }

  async function info(call: Call, { agent_id, version }: InfoInput) {
    const agent = await findStored(call.read, call.principal, agent_id)
    if (agent === undefined) return await infoOfTemplate(call, agent_id)
    const stored = await versionOf(call.read, agent, version)
    const manifest = await readManifest(stored.manifestYaml)
    return {
      id: agent.id,
      name: agent.name,
      version: stored.version,
      description: manifest.description,
      labels: manifest.labels,
      status: agent.status,
      scope: scopeOf(agent),
      ...(await detailsOf(call, agent, manifest)),
      versions: await versionRows(call.read, agent),
      schedule: await schedules.find(call.read, agent),
      manifest_yaml: stored.manifestYaml,
    }
  }

  /** With all its versions and its id; active runs continue. */
  async function setScope(call: Call, input: Readonly<{ agent_id: string; scope: AgentScope }>) {
    requireGlobal(call.principal)
    await store.lockShared(call.write)
    const before = await findStored(call.write, call.principal, input.agent_id)
    if (before === undefined) {
      if ((await templates.find(input.agent_id)) === undefined) throw agentNotFound(input.agent_id)
      throw new AppError(
        'ERR_PERMISSION_DENIED',
        'agent_id is a template that comes with the program and is global; deploy a copy under another name',
        { field: 'agent_id' },
      )
    }
    const tenant = input.scope === 'global' ? SYSTEM_TENANT : call.principal.tenant
    const answer = { agent_id: before.id, name: before.name, scope: input.scope, previous_scope: scopeOf(before) }
    if (tenant === before.tenant) return answer
    if (await hasName(call, tenant, before)) {
      throw new AppError(
        'ERR_ALREADY_EXISTS',
        `scope: there is another agent of this name that is ${input.scope === 'global' ? 'global' : "your tenant's"}; delete that one, or deploy this one under another name`,
        { field: 'scope' },
      )
    }
    if ((await store.countAgents(call.write, tenant)) >= limits.agentsMax) throw tooManyAgents()
    await move(call, before, tenant)
    await deps.noteAccessChange(call.write, call.principal.tenant)
    await deps.noteAccessChange(call.write, SYSTEM_TENANT)
    const by = call.principal.actor
    const { agent_id: agentId, ...payload } = answer
    const event = { agentId, type: 'agent_scope_changed', payload: { ...payload, by }, atMs: call.nowMs }
    await store.insertEvent(call.write, tenant, event)
    call.record({ kind: 'agent_scope_changed', body: { ...answer, changed_by: by } })
    return answer
  }

  /** Whether the viewers in that tenant already see another agent of this name. */
  async function hasName(call: Call, tenant: TenantId, { id, name }: Agent): Promise<boolean> {
    const others = await profiles.findNamed(call.write, tenant, 'agent', name)
    return others.some((other) => other.id !== id && other.sharing.scope === 'org')
  }

  async function move(call: Call, before: Agent, tenant: TenantId): Promise<void> {
    const { tenant: from, id } = before
    const names = await store.versionsOf(call.write, from, id)
    const versions = await Promise.all(names.map((name) => store.findVersion(call.write, from, id, name)))
    const after: Agent = { ...before, tenant, updatedAtMs: call.nowMs }
    await schedules.remove(call, before)
    await store.moveEvents(call.write, from, tenant, id)
    await moveProfile(call, before, tenant)
    await store.deleteAgent(call.write, before.tenant, before.id)
    await store.insertAgent(call.write, tenant, after)
    for (const version of versions) if (version !== undefined) await store.putVersion(call.write, tenant, version)
    const latest = versions.find((version) => version?.version === before.latestVersion)
    if (latest !== undefined) await schedules.set(call, after, (await readManifest(latest.manifestYaml)).schedule)
  }

  /**
   * An agent that is or was global is shared with the whole tenant. Its sub-agents stay in the tenant that it leaves, so they are
   * dropped.
   */
  async function moveProfile(call: Call, { tenant: from, id }: Agent, to: TenantId): Promise<void> {
    const profile = await profiles.findProfile(call.write, from, id)
    if (profile === undefined) return
    await profiles.deleteProfile(call.write, from, id)
    const sharing = { ...profile.sharing, scope: 'org' as const, teams: [] }
    await profiles.insertProfile(call.write, to, { ...profile, tenant: to, sharing, updatedAtMs: call.nowMs })
  }

  return { info, details, setScope, warnOfRuntime }
}

export const tooManyAgents = (): AppError =>
  new AppError(
    'ERR_QUOTA_EXCEEDED',
    `A tenant has at most ${limits.agentsMax} agents. Delete one with aegis.agent.delete.`,
  )
