import { AppError } from '../../contract/app-error.ts'
import { nameTaken } from '../../contract/name-taken.ts'
import { administers } from '../../contract/permissions.ts'
import { identityOf, isPlatformOperator, type Principal } from '../../contract/principal.ts'
import type { ScheduleView, Timing } from '../../contract/timing.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { ChangingCall } from '../../engine/ports.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { quoted } from '../manifests/findings.ts'
import { requireNoSecrets, valuesInHandler } from '../manifests/named-secrets.ts'
import { findVersion, latestOf, newestFirst, nextVersion } from '../manifests/versions.ts'
import { readStoredManifest, type WorkflowManifest } from './manifest.ts'
import { platformWorkflows } from './platform-workflows.ts'
import type { WorkflowScope, WorkflowStore, WorkflowVersion } from './ports.ts'

/** A workflow as resolved for one caller: the selected version with its manifest. */
export type ResolvedWorkflow = Readonly<{ version: WorkflowVersion; manifest: WorkflowManifest }>
export type WorkflowRegistry = ReturnType<typeof createRegistry>

type Tx = ReadTx | WriteTx
const width: Readonly<Record<WorkflowScope, number>> = { user: 0, tenant: 1, global: 2 }
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export const notFound = (reference: string, more = ''): AppError =>
  new AppError(
    'ERR_WORKFLOW_NOT_FOUND',
    `There is no workflow ${quoted(reference)}${more}; use aegis.workflow.list to see the existing ones.`,
    { workflow: reference.slice(0, 128) },
  )

export type RegistryDeps = Readonly<{
  store: WorkflowStore
  newId(): string
  /** Called in the transaction that changes a workflow. The schedule of its latest version applies. */
  schedules: Readonly<{
    set(call: ChangingCall, workflow: ScheduledWorkflow, timing: Timing | null): Promise<void>
    remove(call: ChangingCall, workflow: ScheduledWorkflow): Promise<void>
    /** The schedule in force; null if nothing starts the workflow automatically. */
    find(tx: Tx, workflow: ScheduledWorkflow): Promise<ScheduleView | null>
  }>
}>
type ScheduledWorkflow = Pick<WorkflowVersion, 'tenant' | 'id'>

/** Stores workflows, decides who sees them, and resolves names. */
export function createRegistry({ store, newId, schedules }: RegistryDeps) {
  const isVisible = (principal: Principal, { scope, owner, tenant }: WorkflowVersion): boolean =>
    scope === 'global' ||
    (tenant === principal.tenant &&
      (scope === 'tenant' || owner === identityOf(principal) || administers(principal, 'workflow')))

  /** Every version that the reference means. For a name, those in the narrowest scope, the caller's own before others'. */
  async function versionsFor(tx: Tx, principal: Principal, reference: string): Promise<readonly WorkflowVersion[]> {
    const { tenant } = principal
    const isId = UUID.test(reference)
    const found = isId
      ? [
          ...(await store.versionsOf(tx, tenant, reference.toLowerCase())),
          ...(await store.globalVersionsOf(tx, reference.toLowerCase())),
        ]
      : [...(await store.versionsNamed(tx, tenant, reference)), ...(await store.globalVersionsNamed(tx, reference))]
    const shipped = platformWorkflows().filter(({ id, name }) =>
      isId ? id === reference.toLowerCase() : name === reference,
    )
    const visible = [...found, ...shipped].filter((version) => isVisible(principal, version))
    // An admin sees private workflows of others, but a name resolves to a shared workflow first.
    const distance = ({ scope, owner }: WorkflowVersion): number =>
      scope === 'user' && owner !== identityOf(principal) ? 3 : width[scope]
    const first = visible.toSorted((a, b) => distance(a) - distance(b))[0]
    if (first === undefined) return []
    return [
      ...new Map(visible.filter(({ id }) => id === first.id).map((version) => [version.version, version])).values(),
    ]
  }

  async function resolve(
    tx: Tx,
    principal: Principal,
    reference: string,
    requested?: string,
  ): Promise<ResolvedWorkflow> {
    const versions = await versionsFor(tx, principal, reference)
    if (versions.length === 0) throw notFound(reference)
    const isLatest = requested === undefined || requested === 'latest'
    const version = isLatest ? latest(versions) : versionNamed(versions, requested)
    if (version === undefined) {
      const there = namesOf(versions).slice(0, 10).toReversed().join(', ')
      throw notFound(reference, ` in version ${quoted(requested)}; it has ${there}`)
    }
    return { version, manifest: readStoredManifest(version.manifestText).manifest }
  }

  /** Adds a version. With `force`, replaces an existing one. */
  async function register(
    call: ChangingCall,
    text: string,
    manifest: WorkflowManifest,
    force: boolean,
  ): Promise<WorkflowVersion> {
    const { tenant, newNamesOnly } = call.principal
    const named = await store.versionsNamed(call.write, tenant, manifest.name)
    if (newNamesOnly) requireNoSecrets(valuesInStates(manifest))
    if (newNamesOnly && (await isShared(call, named, manifest.name))) throw nameTaken('workflow')
    return await keep(
      call,
      text,
      manifest,
      force,
      named.filter(({ scope }) => scope === 'tenant'),
      'tenant',
      '',
    )
  }

  /** Whether the name already means something to other callers. */
  const isShared = async (call: ChangingCall, named: readonly WorkflowVersion[], name: string): Promise<boolean> =>
    named.some(({ scope }) => scope === 'tenant') ||
    (await store.globalVersionsNamed(call.write, name)).length > 0 ||
    platformWorkflows().some((one) => one.name === name)

  /** Updates an existing workflow, which keeps its scope. */
  async function update(
    call: ChangingCall,
    text: string,
    manifest: WorkflowManifest,
    force: boolean,
  ): Promise<WorkflowVersion> {
    const own = await ownVersions(call, manifest.name)
    const [first] = own
    if (first === undefined) throw notFound(manifest.name, '; create it with aegis.workflow.create')
    return await keep(call, text, manifest, force, own, first.scope, first.owner)
  }

  async function keep(
    call: ChangingCall,
    text: string,
    manifest: WorkflowManifest,
    force: boolean,
    there: readonly WorkflowVersion[],
    scope: WorkflowScope,
    owner: string,
  ): Promise<WorkflowVersion> {
    const { principal, nowMs, write } = call
    const same = there.find((one) => one.version === manifest.version)
    if (same !== undefined && !force) throw alreadyThere(manifest, there)
    const retained: WorkflowVersion = {
      tenant: principal.tenant,
      id: there[0]?.id ?? newId(),
      scope,
      owner,
      name: manifest.name,
      version: manifest.version,
      description: manifest.description,
      labels: manifest.labels,
      initialState: manifest.initialState,
      manifestText: text,
      createdAtMs: same?.createdAtMs ?? nowMs,
      createdBy: same?.createdBy ?? principal.actor,
      changedAtMs: nowMs,
    }
    if (same === undefined) await store.insertVersion(write, principal.tenant, retained)
    else await store.replaceVersion(write, principal.tenant, retained)
    call.record({
      kind: 'workflow_registered',
      body: { ...effectOf(retained), replaced: same !== undefined, manifest: text },
    })
    const isLatest = latest([...there, retained])?.version === retained.version
    if (isLatest) await schedules.set(call, retained, manifest.defaultSchedule)
    return retained
  }

  /** The versions of that name in the caller's tenant that the caller may change, narrowest scope first. */
  async function ownVersions(call: ChangingCall, reference: string): Promise<readonly WorkflowVersion[]> {
    const versions = await versionsFor(call.write, call.principal, reference)
    const own = versions.filter(({ tenant }) => tenant === call.principal.tenant)
    if (own.length === 0 && versions.length > 0) throw notYours(reference)
    if (own.some(({ scope }) => scope === 'global')) requireOperator(call.principal)
    return own
  }

  async function remove(call: ChangingCall, reference: string): Promise<WorkflowVersion> {
    const [first] = await ownVersions(call, reference)
    if (first === undefined) throw notFound(reference)
    await store.deleteWorkflow(call.write, first.tenant, first.id)
    await schedules.remove(call, first)
    call.record({ kind: 'workflow_removed', body: effectOf(first) })
    return first
  }

  async function changeScope(
    call: ChangingCall,
    reference: string,
    target: WorkflowScope,
    direction: 'promote' | 'demote',
    owner: string,
  ): Promise<WorkflowVersion> {
    if (target === 'global') requireOperator(call.principal)
    const own = await ownVersions(call, reference)
    const [first] = own
    if (first === undefined) throw notFound(reference)
    const isWider = width[target] - width[first.scope]
    if (direction === 'promote' ? isWider <= 0 : isWider >= 0) {
      throw new AppError(
        'ERR_INVALID_TRANSITION',
        `target_scope: ${quoted(first.name)} has the scope ${first.scope} and cannot be ${direction}d to ${target}.`,
        { field: 'target_scope', scope: first.scope },
      )
    }
    await requireSpace(call, first, target, owner)
    await store.setScope(call.write, first.tenant, first.id, { scope: target, owner, atMs: call.nowMs })
    call.record({
      kind: 'workflow_scope_changed',
      body: { ...effectOf(first), previous_scope: first.scope, scope: target, owner },
    })
    return first
  }

  async function requireSpace(
    call: ChangingCall,
    { id, name, tenant }: WorkflowVersion,
    target: WorkflowScope,
    owner: string,
  ): Promise<void> {
    const there =
      target === 'global'
        ? [
            ...(await store.globalVersionsNamed(call.write, name)),
            ...platformWorkflows().filter((one) => one.name === name),
          ]
        : (await store.versionsNamed(call.write, tenant, name)).filter(
            (one) => one.scope === target && one.owner === owner,
          )
    if (there.every((one) => one.id === id)) return
    throw new AppError(
      'ERR_ALREADY_EXISTS',
      `name: there is another workflow ${quoted(name)} in the scope ${target}; register this one under another name.`,
      { field: 'name', scope: target },
    )
  }

  /** The newest version of each workflow that the caller sees, in the requested scopes. */
  async function list(tx: ReadTx, principal: Principal, filter: 'all' | 'visible' | 'global', owner: string) {
    const tenants = filter === 'global' ? [] : await store.listVersions(tx, principal.tenant)
    const globals = filter === 'all' ? [] : [...(await store.listGlobalVersions(tx)), ...platformWorkflows()]
    const mine = tenants.filter(
      (version) =>
        isVisible(principal, version) &&
        (filter === 'all' || (version.scope !== 'user' ? true : version.owner === owner)),
    )
    const byId = Map.groupBy([...mine, ...globals], ({ id }) => id)
    return [...byId.values()].map((versions) => latest(versions)!)
  }

  return { resolve, register, update, remove, changeScope, list, versionsFor, scheduleOf: schedules.find }
}

function requireOperator(principal: Principal): void {
  if (isPlatformOperator(principal)) return
  const { tier, tenant } = principal
  throw new AppError(
    'ERR_PERMISSION_DENIED',
    'Global workflows can be changed only by operators of the installation (tenant local, tier operator); ask one of them.',
    { tier, tenant },
  )
}

/** Workflows of the platform, and global workflows of another tenant, are visible to all, but this tenant cannot change them. */
const notYours = (reference: string): AppError =>
  new AppError(
    'ERR_PERMISSION_DENIED',
    `name: the workflow ${quoted(reference)} belongs to another tenant and cannot be changed here; export it with aegis.workflow.export and register it as your own with aegis.workflow.create.`,
    { field: 'name' },
  )

type Versions = readonly WorkflowVersion[]

/** Newest first. */
const namesOf = (versions: Versions): readonly string[] => newestFirst(versions.map(({ version }) => version))

const versionNamed = (versions: Versions, requested: string): WorkflowVersion | undefined => {
  const found = findVersion(requested, namesOf(versions))
  return versions.find(({ version }) => version === found)
}

const latest = (versions: Versions): WorkflowVersion | undefined => {
  const found = latestOf(namesOf(versions))
  return versions.find(({ version }) => version === found)
}

function alreadyThere({ name, version }: WorkflowManifest, there: readonly WorkflowVersion[]): AppError {
  const newest = namesOf(there)[0] ?? version
  return new AppError(
    'ERR_ALREADY_EXISTS',
    `metadata.version: ${quoted(name)} already has the version ${version}. Raise the version, for example to ${nextVersion(newest)}, or set force: true to replace it.`,
    { field: 'metadata.version', version, suggested_version: nextVersion(newest) },
  )
}

const effectOf = ({ id, name, version, scope, owner }: WorkflowVersion): Record<string, Json> => ({
  workflow_id: id,
  name,
  version,
  scope,
  owner,
})

const valuesInStates = ({ states }: WorkflowManifest) =>
  [...states].flatMap(([name, state]) =>
    valuesInHandler(`spec.states.${name}.output_handler`, 'outputHandler' in state ? state.outputHandler : null),
  )
