import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { requireOwnTenant } from '../../contract/own-tenant.ts'
import { administers } from '../../contract/permissions.ts'
import { identityOf, type Principal } from '../../contract/principal.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { AgentSearch, SearchInput } from '../agents/search.ts'
import { latestOf, newestFirst } from '../manifests/versions.ts'
import { createApprovals } from './approvals.ts'
import { type AuthoringDeps, createAuthoring } from './authoring.ts'
import { createExecutions, type ExecutionDeps } from './executions.ts'
import { readStoredManifest } from './manifest.ts'
import { isPlatform } from './platform-workflows.ts'
import type { WorkflowVersion } from './ports.ts'
import { notFound, type WorkflowRegistry } from './registry.ts'
import { suggestionOf, workflowView } from './views.ts'

type WorkflowDeps = Omit<ExecutionDeps, 'registry'> &
  Omit<AuthoringDeps, 'registry'> &
  Readonly<{ registry: WorkflowRegistry; search: AgentSearch }>

export type WorkflowService = ReturnType<typeof createWorkflowService>

export function createWorkflowService(deps: WorkflowDeps) {
  const { registry, search } = deps
  const withHint = createSearchHints()

  async function list(
    call: Call,
    input: Readonly<{
      tenant_id?: string | undefined
      scope?: 'global' | 'visible' | undefined
      user_id?: string | undefined
    }>,
  ) {
    requireOwnTenant(call.principal, input.tenant_id)
    const owner = ownerFor(call.principal, input.user_id)
    const found = await registry.list(call.read, call.principal, input.scope ?? 'all', owner)
    return { workflows: found.map(workflowView) }
  }

  async function exportManifest(call: Call, input: Readonly<{ name: string; version?: string | undefined }>) {
    const { version } = await registry.resolve(call.read, call.principal, input.name, input.version)
    return { manifest_yaml: version.manifestText, id: version.id, name: version.name, version: version.version }
  }

  /** Highest version first. */
  async function info(call: Call, input: Readonly<{ name: string }>) {
    const versions = await registry.versionsFor(call.read, call.principal, input.name)
    const order = newestFirst(versions.map(({ version }) => version))
    const latestVersion = latestOf(order)
    const latest = versions.find(({ version }) => version === latestVersion)
    if (latest === undefined) throw notFound(input.name)
    return {
      ...workflowView(latest),
      schedule: await registry.scheduleOf(call.read, latest),
      suggested_schedule: suggestionOf(readStoredManifest(latest.manifestText).manifest),
      versions: versions
        .toSorted((one, other) => order.indexOf(one.version) - order.indexOf(other.version))
        .map(({ version, createdAtMs, changedAtMs, createdBy }) => ({
          version,
          created_at: isPlatform(latest) ? null : isoTime(createdAtMs),
          updated_at: isPlatform(latest) ? null : isoTime(changedAtMs),
          created_by: isPlatform(latest) ? null : createdBy,
          latest: version === latest.version,
        })),
    }
  }

  async function remove(call: Call, input: Readonly<{ name: string }>) {
    const { id } = await registry.remove(call, input.name)
    return { workflow_id: id, deleted: true }
  }

  type ScopeInput<Scope> = Readonly<{
    name: string
    target_scope: Scope
    tenant_id?: string | undefined
    user_id?: string | undefined
  }>

  async function promote(call: Call, input: ScopeInput<'tenant' | 'global'>) {
    requireOwnTenant(call.principal, input.tenant_id)
    const { id, name } = await registry.changeScope(call, input.name, input.target_scope, 'promote', '')
    return { workflow_id: id, name, promoted: true, target_scope: input.target_scope }
  }

  async function demote(call: Call, input: ScopeInput<'tenant' | 'user'>) {
    requireOwnTenant(call.principal, input.tenant_id)
    const owner = input.target_scope === 'user' ? ownerFor(call.principal, input.user_id) : ''
    const { id, name } = await registry.changeScope(call, input.name, input.target_scope, 'demote', owner)
    return { workflow_id: id, name, demoted: true, target_scope: input.target_scope }
  }

  async function find(call: Call, input: Omit<SearchInput, 'status'>) {
    const seen = await registry.list(call.read, call.principal, 'visible', identityOf(call.principal))
    const rows = seen.filter((one) => input.include_platform_templates || !isPlatform(one))
    const { mode: _, ...found } = await search.search(call, rows.map(withHint), input)
    return { tool: 'aegis.workflow.search' as const, ...found }
  }

  return {
    ...createAuthoring(deps),
    executions: createExecutions(deps),
    approvals: createApprovals(deps),
    list,
    export: exportManifest,
    info,
    remove,
    promote,
    demote,
    search: find,
  }
}

/** The owner of the requested workflows; a bare name is a user's. Admins may name other owners. */
function ownerFor(principal: Principal, supplied: string | undefined): string {
  const own = identityOf(principal)
  if (supplied === undefined) return own
  const owner = supplied === own || supplied.includes(':') ? supplied : `user:${supplied}`
  if (owner === own || supplied === own || administers(principal, 'workflow')) return owner
  throw new AppError(
    'ERR_PERMISSION_DENIED',
    'user_id: only administrators may name another identity; omit it to use your own.',
    {
      field: 'user_id',
    },
  )
}

const HINT_CHARS_MAX = 2_000

/** Keywords from the states of workflows that have no description. Parsed once per text, in a bounded cache. */
function createSearchHints() {
  const hints = new Map<string, string>()

  function hintOf({ tenant, id, version, changedAtMs, manifestText }: WorkflowVersion): string {
    const key = JSON.stringify([tenant, id, version, changedAtMs])
    const hint = hints.get(key) ?? stateWords(manifestText)
    hints.set(key, hint)
    while (hints.size > limits.embeddingsCachedMax) hints.delete(hints.keys().next().value!)
    return hint
  }

  return <Row extends WorkflowVersion>(row: Row) => (row.description === '' ? { ...row, hint: hintOf(row) } : row)
}

function stateWords(text: string): string {
  try {
    const names = [...readStoredManifest(text).manifest.states.keys()]
    return names
      .map((name) => name.replaceAll(/[_-]+/g, ' ').toLowerCase())
      .join(', ')
      .slice(0, HINT_CHARS_MAX)
      .toWellFormed()
  } catch (error) {
    // A text that an earlier version accepted is still found by its name.
    if (error instanceof AppError) return ''
    throw error
  }
}
