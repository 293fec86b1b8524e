import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { ErrorCode } from '../../contract/error-codes.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { createSemaphore } from '../../kernel/semaphore.ts'
import { type Core, cancelled } from './core.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { NetworkPolicy, Workspace } from './ports.ts'
import { checkName, invalid } from './rules.ts'
import type { Snapshots } from './snapshots.ts'

export type ForkInput = Readonly<{
  workspace_id: string
  snapshot_name: string
  new_name?: string | undefined
  count?: number | undefined
  name_prefix?: string | undefined
}>
export type ForkRequest = Readonly<{
  snapshotName: string
  name?: string | undefined
  /** Instead of a name: a prefix, to which the first free number is appended. */
  namePrefix?: string | undefined
  network?: NetworkPolicy | undefined
  env?: Workspace['env'] | undefined
  team?: string | null | undefined
  /** Destroyed at the next start if this server ends before `keepWorkspace`. */
  bound?: boolean | undefined
}>

type Outcome = Readonly<{ index: number; name: string }> & Readonly<{ workspace?: Workspace; error?: unknown }>

export function createForks(
  core: Core,
  parts: Readonly<{
    lifecycle: Lifecycle
    snapshots: Snapshots
    resolve(call: Call, reference: string): Promise<Workspace>
  }>,
) {
  const semaphore = createSemaphore(core.settings.concurrentForksMax)

  /**
   * A new workspace on the layers of a snapshot. It only reads its source, and its row pins the layers from its insertion on, so
   * later changes of the source do not matter. It is trusted no more than the caller that forks it.
   */
  const forkOne = async (call: Call, source: Workspace, request: ForkRequest): Promise<Workspace> => {
    const enter = (id: string) => call.enterWorkspace?.(id)
    return await semaphore.run(() =>
      parts.lifecycle.create(
        call,
        async (tx) => {
          const snapshot = await parts.snapshots.find(tx, source, request.snapshotName)
          return {
            name:
              request.namePrefix === undefined ? request.name : await freeName(tx, source.tenant, request.namePrefix),
            namePrefix: 'fork',
            image: source.image,
            resources: { vcpus: source.vcpus, memoryMb: source.memoryMb, diskGb: source.diskGb },
            network: request.network ?? source.network,
            env: request.env ?? source.env,
            layers: snapshot.layers,
            // The caller that forks may not be allowed these mounts.
            mounts: [],
            forkedFrom: { workspaceId: source.id, workspaceName: source.name, snapshotName: snapshot.name },
            team: request.team ?? null,
            bound: request.bound ?? false,
          }
        },
        enter,
      ),
    )
  }

  /** To be called in the transaction that inserts the workspace, so that no two forks get the same name. */
  async function freeName(tx: ReadTx, tenant: TenantId, prefix: string): Promise<string> {
    const taken = new Set((await core.store.listWorkspaces(tx, tenant)).map(({ name }) => name))
    for (let number = 1; ; number++) {
      const name = `${prefix}-${number}`
      if (!taken.has(name)) return checkName('name_prefix', name)
    }
  }

  async function fork(call: Call, input: ForkInput) {
    const count = input.count ?? 1
    if (input.new_name !== undefined && count > 1) {
      throw invalid('new_name', 'is only for a single fork; use name_prefix for several')
    }
    const naming = namingOf(input, count)
    const source = await parts.resolve(call, input.workspace_id)
    const { name: snapshotName } = await parts.snapshots.find(call.read, source, input.snapshot_name)
    let done = 0
    const outcomes = await Promise.all(
      Array.from({ length: count }, async (_, index): Promise<Outcome> => {
        try {
          const workspace = await forkOne(call, source, { snapshotName, ...naming })
          return { index, name: workspace.name, workspace }
        } catch (error) {
          if (!(error instanceof AppError)) core.logger.error('fork failed', { cause: String(error) })
          return { index, name: naming.name ?? naming.namePrefix ?? '', error }
        } finally {
          call.progress({ progress: ++done, total: count, message: `${done} of ${count} forks done` })
        }
      }),
    )
    const [only] = outcomes
    if (count === 1 && only?.error !== undefined) throw only.error
    if (call.signal.aborted) {
      // The caller would never learn of the forks that succeeded.
      await Promise.all(outcomes.map(({ workspace }) => workspace && parts.lifecycle.destroy(call, workspace)))
      throw cancelled()
    }
    const told = await named(call.read, source.tenant, naming.namePrefix, outcomes)
    if (told.every(({ workspace }) => workspace === undefined)) throw noneMade(told)
    return answer(call, snapshotName, source, told)
  }

  /** Failed forks have the names that they would have got, after those that succeeded. */
  async function named(tx: ReadTx, tenant: TenantId, prefix: string | undefined, outcomes: readonly Outcome[]) {
    if (prefix === undefined || outcomes.every(({ error }) => error === undefined)) return outcomes
    const taken = new Set((await core.store.listWorkspaces(tx, tenant)).map(({ name }) => name))
    let number = 0
    return outcomes.map((outcome) => {
      if (outcome.error === undefined) return outcome
      do number++
      while (taken.has(`${prefix}-${number}`))
      return { ...outcome, name: `${prefix}-${number}` }
    })
  }

  return { fork, forkOne }
}

function namingOf({ new_name, name_prefix }: ForkInput, count: number): Pick<ForkRequest, 'name' | 'namePrefix'> {
  if (count > 1 || name_prefix !== undefined) return { namePrefix: checkName('name_prefix', name_prefix ?? 'worker') }
  return new_name === undefined ? {} : { name: checkName('new_name', new_name) }
}

function noneMade(outcomes: readonly Outcome[]): AppError {
  const failures = failuresOf(outcomes)
  const { code, error } = failures[0]!
  const none = outcomes.length === 1 ? 'The fork could not' : `None of the ${outcomes.length} forks could`
  return new AppError(code, `${none} be created. ${error}`, { failures })
}

const failuresOf = (outcomes: readonly Outcome[]) =>
  outcomes.flatMap(({ index, name, error }) => (error === undefined ? [] : [{ index, name, ...reasonOf(error) }]))

function answer(call: Call, snapshotName: string, source: Workspace, outcomes: readonly Outcome[]) {
  const made = outcomes.flatMap(({ workspace }) => (workspace === undefined ? [] : [workspace]))
  const failures = failuresOf(outcomes)
  for (const { id, name } of made) {
    const body = { workspace_id: id, name, source_workspace_id: source.id, snapshot_name: snapshotName }
    call.record({ kind: 'workspace_forked', body })
  }
  const [first] = made
  const single =
    outcomes.length > 1 || first === undefined
      ? {}
      : { workspace_id: first.id, name: first.name, state: first.state, ip: first.ip }
  return {
    ...single,
    forked_from: {
      source_workspace_id: source.id,
      source_workspace_name: source.name,
      snapshot_name: snapshotName,
    },
    source_workspace_id: source.id,
    snapshot_name: snapshotName,
    requested_count: outcomes.length,
    success_count: made.length,
    failure_count: failures.length,
    workers: made.map(({ id, name, ip, state }) => ({ workspace_id: id, name, ip, state })),
    failures,
  }
}

/** The text of an unexpected error is not revealed. */
const reasonOf = (error: unknown): Readonly<{ error: string; code: ErrorCode }> =>
  error instanceof AppError
    ? { error: error.message, code: error.code }
    : { error: 'It failed because of an internal error; see the server log', code: 'ERR_INTERNAL' }
