import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
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
export type ForkWish = Readonly<{
  snapshotName: string
  name?: string | undefined
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
  const gate = createGate(core.settings.concurrentForksMax)

  /**
   * A new workspace on the layers of a snapshot. It only reads its source, and holds the layers from the moment that it is
   * entered, so nothing that happens to the source afterwards matters.
   */
  const forkOne = (call: Call, source: Workspace, wish: ForkWish): Promise<Workspace> =>
    gate(() =>
      parts.lifecycle.create(call, async (unit) => {
        const snapshot = await parts.snapshots.find(unit, source, wish.snapshotName)
        return {
          name: wish.name,
          namePrefix: 'fork',
          image: source.image,
          resources: { vcpus: source.vcpus, memoryMb: source.memoryMb, diskGb: source.diskGb },
          network: wish.network ?? source.network,
          env: wish.env ?? source.env,
          layers: snapshot.layers,
          forkedFrom: { workspaceId: source.id, workspaceName: source.name, snapshotName: snapshot.name },
          team: wish.team ?? null,
          bound: wish.bound ?? false,
        }
      }),
    )

  async function fork(call: Call, input: ForkInput) {
    const count = input.count ?? 1
    if (input.new_name !== undefined && count > 1) {
      throw invalid('new_name', 'is for one fork; use name_prefix for several')
    }
    const names = namesFor(input, count)
    const source = await parts.resolve(call, input.workspace_id)
    await parts.snapshots.find(call.read, source, input.snapshot_name)
    let done = 0
    const outcomes = await Promise.all(
      names.map(async (name, index): Promise<Outcome> => {
        try {
          const workspace = await forkOne(call, source, { snapshotName: input.snapshot_name, name })
          return { index, name: workspace.name, workspace }
        } catch (error) {
          if (!(error instanceof AppError)) core.logger.error('a fork failed', { cause: String(error) })
          return { index, name: name ?? '', error }
        } finally {
          call.progress({ progress: ++done, total: count, message: `${done} of ${count} forks done` })
        }
      }),
    )
    const [only] = outcomes
    if (count === 1 && only?.error !== undefined) throw only.error
    if (call.signal.aborted) {
      // Nobody would learn of those that were made.
      await Promise.all(outcomes.map(({ workspace }) => workspace && parts.lifecycle.destroy(call, workspace)))
      throw cancelled()
    }
    return answer(call, input, source, outcomes)
  }

  return { fork, forkOne }
}

function namesFor({ new_name, name_prefix }: ForkInput, count: number): readonly (string | undefined)[] {
  if (count === 1 && name_prefix === undefined) {
    return [new_name === undefined ? undefined : checkName('new_name', new_name)]
  }
  const prefix = checkName('name_prefix', name_prefix ?? 'worker')
  return Array.from({ length: count }, (_, index) => checkName('name_prefix', `${prefix}-${index + 1}`))
}

function answer(call: Call, input: ForkInput, source: Workspace, outcomes: readonly Outcome[]) {
  const made = outcomes.flatMap(({ workspace }) => (workspace === undefined ? [] : [workspace]))
  const failures = outcomes.flatMap(({ index, name, error }) =>
    error === undefined ? [] : [{ index, name, ...reasonOf(error) }],
  )
  for (const { id, name } of made) {
    const body = { workspace_id: id, name, source_workspace_id: source.id, snapshot_name: input.snapshot_name }
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
      snapshot_name: input.snapshot_name,
    },
    source_workspace_id: source.id,
    snapshot_name: input.snapshot_name,
    requested_count: outcomes.length,
    success_count: made.length,
    failure_count: failures.length,
    workers: made.map(({ id, name, ip, state }) => ({ workspace_id: id, name, ip, state })),
    failures,
  }
}

/** Of an error that is not ours nothing is told. */
const reasonOf = (error: unknown): Readonly<{ error: string; code: string }> =>
  error instanceof AppError
    ? { error: error.message, code: error.code }
    : { error: 'It failed inside Castellan; see the server log', code: 'ERR_INTERNAL' }

/** At most so many at once; the others wait in the order they came. */
function createGate(max: number) {
  let free = max
  const waiting: (() => void)[] = []
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (free > 0) free--
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) free++
      else next()
    }
  }
}
