import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { isoTime } from '../../kernel/clock.ts'
import { type Access, findVisible, visibleWorkspaces } from './access.ts'
import { isArchived } from './archive.ts'
import type { BackendCapabilities, CapabilityName, WorkspaceUsage } from './backend.ts'
import { type Core, enterAsStopped } from './core.ts'
import { summaryOf } from './jobs.ts'
import { forwardsView, policyView, refusedView } from './network.ts'
import type { Snapshot, Workspace } from './ports.ts'

export const resourcesView = ({ vcpus, memoryMb, diskGb }: Workspace) => ({
  vcpus,
  memory_mb: memoryMb,
  disk_gb: diskGb,
})

const rowView = ({ workspace, owned, orphaned }: Access) => ({
  workspace_id: workspace.id,
  name: workspace.name,
  state: workspace.state,
  ip: workspace.ip,
  owned,
  orphaned,
  owner: workspace.owner,
  team: workspace.team,
  resources: resourcesView(workspace),
  created_at: isoTime(workspace.createdAtMs),
})

/** `parent` makes the tree: the name of the snapshot that the state was derived from. */
export function snapshotViews(snapshots: readonly Snapshot[], currentId: string | null) {
  const names = new Map(snapshots.map(({ id, name }) => [id, name]))
  return snapshots
    .filter(({ state }) => state === 'ready')
    .map((snapshot) => ({
      id: snapshot.id,
      name: snapshot.name,
      has_memory: snapshot.hasMemory,
      parent: snapshot.parentId === null ? null : (names.get(snapshot.parentId) ?? null),
      bytes: snapshot.bytes,
      current: snapshot.id === currentId,
      created_at: isoTime(snapshot.createdAtMs),
      created_by: snapshot.createdBy,
    }))
}

const limitNames = {
  isolation: 'isolation',
  memory: 'memory_limit',
  cpu: 'cpu_limit',
  processes: 'process_limit',
  user_limits: 'user_limits',
  disk: 'disk_limit',
  network: 'network_policy',
} as const satisfies Record<string, CapabilityName>
type LimitName = keyof typeof limitNames

/** Which limits the machine was seen to enforce, and why not the others. */
const limitsView = ({ available, problem, capabilities }: BackendCapabilities) =>
  Object.fromEntries(
    Object.entries(limitNames).map(([limit, name]) => [
      limit,
      available ? capabilities[name] : { enforced: false, reason: problem ?? 'no back end is available' },
    ]),
  ) as Record<LimitName, Readonly<{ enforced: boolean; reason: string }>>

type ListInput = Readonly<{ state_filter?: string | undefined }>
type LogsInput = Readonly<{
  workspace_id: string
  log_type?: 'console' | 'stderr' | 'all' | undefined
  max_lines?: number | undefined
}>
const LOG_LINES_DEFAULT = 100

/** `settle` repairs, where possible, rows that a crash left inconsistent before they are displayed. */
export function createViews(core: Core, settle: (call: Call, access: Access) => Promise<Access>) {
  async function list(call: Call, { state_filter }: ListInput) {
    const all = await visibleWorkspaces(core, call, call.read)
    // Archives are listed only on request.
    const accesses = all.filter(({ workspace }) => isArchived(workspace) === (state_filter === 'archived'))
    const displayed: Access[] = []
    for (const access of accesses) {
      const settled = await settle(call, access).catch(ignoreRemoved)
      if (settled !== undefined) displayed.push(settled)
    }
    const rows = (await asTheyAre(call, displayed))
      .map(rowView)
      .filter(({ state }) => state_filter === undefined || state === state_filter)
    return { workspaces: rows, count: rows.length }
  }

  async function info(call: Call, { workspace_id }: Readonly<{ workspace_id: string }>) {
    const found = await settle(call, await findVisible(core, call, call.read, workspace_id))
    const access = (await asTheyAre(call, [found]))[0]!
    const { workspace } = access
    const snapshots = await core.store.listSnapshots(call.read, workspace.tenant, workspace.id)
    const { forkedFrom } = workspace
    return {
      ...rowView(access),
      base_image: workspace.image,
      created_by: workspace.createdBy,
      node: workspace.node,
      network: {
        ...policyView(workspace),
        port_forwards: forwardsView(workspace),
        refused_connections: (await orMissing(call, () => refusedView(core, workspace))) ?? [],
      },
      mounts: workspace.mounts.map(({ root, beneath, target, readOnly }) => ({
        host_path: beneath === '.' ? root : `${root}/${beneath}`,
        path: target,
        mode: readOnly ? ('ro' as const) : ('rw' as const),
      })),
      env_names: Object.keys(workspace.env).sort(),
      snapshots: snapshotViews(snapshots, workspace.currentSnapshotId),
      forked_from:
        forkedFrom === null
          ? null
          : {
              source_workspace_id: forkedFrom.workspaceId,
              source_workspace_name: forkedFrom.workspaceName,
              snapshot_name: forkedFrom.snapshotName,
            },
      ...(await presentView(call, workspace)),
    }
  }

  /** Workspaces may have ended unnoticed, so the back end is asked which run. */
  async function asTheyAre(call: Call, accesses: readonly Access[]): Promise<readonly Access[]> {
    const mayHaveEnded = ({ workspace: { state, operation, node } }: Access): boolean =>
      state === 'running' && operation === null && node === core.node
    if (!accesses.some(mayHaveEnded)) return accesses
    const running = (await orMissing(call, () => core.backend.inventory()))?.running
    if (running === undefined) return accesses
    return await Promise.all(
      accesses.map(async (access) => {
        const { workspace } = access
        if (!mayHaveEnded(access) || running.includes(workspace.id)) return access
        if (core.isReadOnly) return { ...access, workspace: { ...workspace, state: 'stopped' } }
        await orMissing(call, () => enterAsStopped(core, recordsOf(workspace), workspace))
        const found = await core.store.findWorkspace(core.database.read, workspace.tenant, workspace.id)
        return { ...access, workspace: found ?? { ...workspace, state: 'destroying' } }
      }),
    )
  }

  /** Repairs of displayed rows are written, although displaying only reads. */
  const recordsOf = ({ tenant }: Workspace): Pick<Call, 'transact'> => ({
    transact: (work) => core.database.write(tenant, work),
  })

  /** What only the back end knows. Without a back end, the records alone are displayed. */
  async function presentView(call: Call, workspace: Workspace) {
    const isHere = workspace.node === core.node
    const capabilities = await orMissing(call, () => core.backend.capabilities())
    const askable = isHere && capabilities?.available === true
    const usage =
      askable && !isArchived(workspace) ? await orMissing(call, () => core.backend.usage(workspace.id)) : undefined
    const jobs =
      askable && workspace.state === 'running' ? await orMissing(call, () => core.backend.jobs.list(workspace.id)) : []
    // The caller that started a job wrote its command.
    if (jobs !== undefined && jobs.length > 0) call.readsFrom?.(`workspace:${workspace.id}`)
    return {
      ...usageView(usage),
      jobs: (jobs ?? []).map(summaryOf),
      limits: capabilities === undefined ? null : limitsView(capabilities),
    }
  }

  async function logs(call: Call, { workspace_id, log_type = 'all', max_lines = LOG_LINES_DEFAULT }: LogsInput) {
    const { workspace } = await findVisible(core, call, call.read, workspace_id)
    const found = await core.backend.logs(workspace.id, max_lines)
    call.readsFrom?.(`workspace:${workspace.id}`)
    return {
      workspace_id: workspace.id,
      ...(log_type === 'stderr' ? {} : { console: boundedLog(found.console) }),
      ...(log_type === 'console' ? {} : { stderr: boundedLog(found.stderr) }),
    }
  }

  return { list, info, logs }
}

const usageView = (usage: WorkspaceUsage | undefined) => ({
  disk_used_bytes: usage?.diskUsedBytes ?? null,
  disk_volsize_bytes: usage?.diskLimitBytes ?? null,
  memory_used_bytes: usage?.memoryUsedBytes ?? null,
  processes: usage?.processCount ?? null,
  memory_kills: usage?.memoryKills ?? null,
  process_refusals: usage?.processRefusals ?? null,
})

/** The end of a log matters most; an answer is bounded. */
const boundedLog = (text: string): string => text.slice(-LOG_CHARS_MAX).toWellFormed()
const LOG_CHARS_MAX = 512 * 1024

/** An answer from the records alone is better than none; a warning says what is missing. */
async function orMissing<T>(call: Call, ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask()
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    call.warn(error.message)
    return undefined
  }
}

function ignoreRemoved(error: unknown): undefined {
  if (error instanceof AppError && error.code === 'ERR_WORKSPACE_NOT_FOUND') return undefined
  throw error
}
