import { limits } from '../contract/limits.ts'
import type { Principal, TenantId } from '../contract/principal.ts'
import type { ProcessNames, TaskDirectory } from '../contract/task-directory.ts'
import type { Clock } from '../kernel/clock.ts'
import { sha256Hex } from '../kernel/hash.ts'
import type { Logger } from '../kernel/logger.ts'
import { identityOf } from './session-identity.ts'

type Row = Readonly<Record<string, unknown>>

/**
 * Lists the tasks of this process for the other processes on the store, and finds theirs. A process renews its entry every few
 * seconds. Without a renewal its tasks count as lost, and at once if the process is known to have ended.
 */
export type ListedTasks = Readonly<{
  /** Lists the task until the signal is aborted. */
  add(principal: Principal, view: Row, removed: AbortSignal): void
  /** Resolves when other processes can find the task. */
  whenListed(id: string): Promise<void>
  /** A new status is listed at once, a new message within the interval at which clients are told to ask. */
  change(view: Row): void
  isListed(principal: Principal, id: string): Promise<boolean>
  /** The tasks of the caller at other processes. */
  elsewhere(principal: Principal): Promise<readonly Row[]>
  readonly states: ListedStates
  /** Resolves when removed tasks are no longer listed. */
  close(): Promise<void>
}>

/** The states of calls that wait for their client, listed like tasks but shown to nobody. */
export type ListedStates = Readonly<{
  /** Lists the state until the signal is aborted. Resolves when other processes can find it; never rejects. */
  add(principal: Principal, state: string, removed: AbortSignal): Promise<void>
  has(principal: Principal, state: string): Promise<boolean>
}>

type Own = {
  readonly tenant: TenantId
  readonly identity: string
  view: Row
  timer: NodeJS.Timeout | undefined
  isRemoved: boolean
  /** One write at a time, so that the newest state is the last one written. */
  writing: Promise<void> | undefined
  isStale: boolean
}
type Deps = Readonly<{
  directory(): Promise<TaskDirectory | undefined>
  clock: Clock
  processes: ProcessNames
  logger: Logger
}>

const idOf = (view: Row): string => String(view['taskId'])
/** A state is its client's secret. No task has such an id. */
const idOfState = (state: string): string => `state ${sha256Hex(state)}`
/** The identity of no caller. */
const NOBODY = ''

export function createListedTasks({ directory, clock, processes, logger }: Deps): ListedTasks {
  const process = processes.own
  const own = new Map<string, Own>()
  let noting: NodeJS.Timeout | undefined

  async function writeNewest(task: Own): Promise<void> {
    const store = await directory()
    do {
      task.isStale = false
      const { tenant, identity, view } = task
      if (task.isRemoved) await store?.remove(tenant, idOf(view))
      else await store?.put(tenant, { id: idOf(view), identity, process, view: JSON.stringify(view) }, clock.nowMs())
    } while (task.isStale)
  }
  function write(task: Own): Promise<void> {
    clearTimeout(task.timer)
    task.timer = undefined
    task.isStale = true
    task.writing ??= writeNewest(task)
      .catch((error: unknown) => logger.warn('task could not be listed for other processes', { cause: String(error) }))
      .finally(() => {
        task.writing = undefined
        if (task.isStale) void write(task)
        else if (task.isRemoved) own.delete(idOf(task.view))
        if (own.size === 0) noteNothing()
      })
    return task.writing
  }

  function noteProcess(): void {
    for (const tenant of new Set([...own.values()].map((task) => task.tenant))) {
      directory()
        .then((store) => store?.noteProcess(tenant, process, clock.nowMs()))
        .catch((error: unknown) => logger.warn('tasks could not be noted as present', { cause: String(error) }))
    }
  }
  function noteNothing(): void {
    clearInterval(noting)
    noting = undefined
  }
  const sinceMs = (): number => clock.nowMs() - limits.mcpTaskProcessSilentMs

  function add(tenant: TenantId, identity: string, view: Row, removed: AbortSignal): void {
    const state = { timer: undefined, isRemoved: false, writing: undefined, isStale: false }
    const task: Own = { tenant, identity, view, ...state }
    own.set(idOf(view), task)
    noting ??= setInterval(noteProcess, limits.mcpTaskProcessMs).unref()
    const remove = (): void => {
      task.isRemoved = true
      void write(task)
    }
    removed.addEventListener('abort', remove, { once: true })
    void write(task)
  }
  async function whenListed(id: string): Promise<void> {
    await own.get(id)?.writing
  }
  const isListed: ListedTasks['isListed'] = async ({ tenant }, id) => {
    const holder = await (await directory())?.processOf(tenant, id, sinceMs())
    return holder !== undefined && !processes.hasEnded(holder)
  }

  return {
    add: (principal, view, removed) => add(principal.tenant, identityOf(principal), view, removed),
    whenListed,
    states: {
      async add({ tenant }, state, removed) {
        const taskId = idOfState(state)
        add(tenant, NOBODY, { taskId }, removed)
        await whenListed(taskId)
      },
      has: (principal, state) => isListed(principal, idOfState(state)),
    },
    change(view) {
      const task = own.get(idOf(view))
      if (task === undefined || task.isRemoved) return
      const isNewStatus = task.view['status'] !== view['status']
      task.view = view
      if (isNewStatus) void write(task)
      else task.timer ??= setTimeout(() => void write(task), limits.mcpTaskPollMs).unref()
    },
    isListed,
    async elsewhere(principal) {
      const store = await directory()
      const rows = await store?.listElsewhere(principal.tenant, identityOf(principal), process, sinceMs())
      return (rows ?? []).flatMap((row) => (processes.hasEnded(row.process) ? [] : [JSON.parse(row.view) as Row]))
    },
    async close() {
      noteNothing()
      await Promise.all([...own.values()].map(({ writing }) => writing))
    },
  }
}
