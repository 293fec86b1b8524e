import { limits } from '../contract/limits.ts'
import type { Principal } from '../contract/principal.ts'
import { type AnswerForwarding, pause } from './forward-answers.ts'
import type { ListedTasks } from './listed-tasks.ts'
import { identityOf } from './session-identity.ts'
import type { TaskStore, TaskView, TaskWork } from './task-store.ts'

type Row = Readonly<Record<string, unknown>>

/** A task that was cancelled, or that had ended before. */
type CancelledTask = Readonly<{ hadEnded: boolean; task: Row }>

/**
 * The tasks of a caller at all processes that share a store. A request for a task of another process is forwarded to that
 * process. A task that no process lists does not exist.
 */
export type SharedTasks = Readonly<{
  /** The answer to the call; undefined if there are too many tasks. From then on every process knows the task. */
  create(principal: Principal, work: TaskWork): Promise<Row | undefined>
  /** Newest first. */
  list(principal: Principal): Promise<readonly Row[]>
  get(principal: Principal, id: string, signal: AbortSignal): Promise<Row | undefined>
  /** Resolves when the task may differ from what was seen of it; rejects when the signal is aborted. */
  changed(principal: Principal, id: string, seen: Row, signal: AbortSignal): Promise<void>
  answer(principal: Principal, id: string, responses: Row, signal: AbortSignal): Promise<boolean>
  cancel(principal: Principal, id: string, signal: AbortSignal): Promise<CancelledTask | undefined>
}>

type TaskRequest = Readonly<
  { identity: string; id: string } & ({ do: 'get' | 'cancel' } | { do: 'answer'; responses: Row })
>
/** The session of the call, in what the processes tell each other of a task. */
const SESSION = 'castellan/session'
/** In JSON, what undefined is in the store. */
const NONE = 'null'
const keyOf = (id: string): string => `task ${id}`

/** Access to the tasks of other processes. */
type OtherTasks = Readonly<{ passing: AnswerForwarding; listed: ListedTasks }>

/** Lists a task for other processes and serves their requests about it until it is removed. */
export function shareTask(
  { passing, listed }: OtherTasks,
  store: () => TaskStore,
): (principal: Principal, view: TaskView, removed: AbortSignal) => void {
  const serve = async (text: string): Promise<string> =>
    JSON.stringify(answerHere(store(), JSON.parse(text) as TaskRequest)) ?? NONE
  return (principal, view, removed) => {
    listed.add(principal, view, removed)
    passing.receive(principal.tenant, keyOf(view.taskId), serve, removed, limits.mcpTaskPollMs)
  }
}

function answerHere(store: TaskStore, request: TaskRequest): Row | boolean | undefined {
  const { identity, id } = request
  if (request.do === 'answer') return store.answer(identity, id, request.responses)
  const found = store.get(identity, id)
  if (found === undefined) return undefined
  const session = store.sessionOf(identity, id)
  if (request.do === 'get') return { ...found, [SESSION]: session }
  store.cancel(identity, id)
  return { hadEnded: hasEnded(found['status']), task: { ...store.get(identity, id), [SESSION]: session } }
}

const hasEnded = (status: unknown): boolean => ['completed', 'failed', 'cancelled'].includes(String(status))

/**
 * A caller can read a task over each of its connections. One that did not make the call is then no more trusted than the one that
 * did: `readsFrom` records it before the task is shown.
 */
export function createSharedTasks(
  store: TaskStore,
  others: OtherTasks | undefined,
  readsFrom: (reader: Principal, writer: Principal) => Promise<void> = async () => {},
): SharedTasks {
  async function read(reader: Principal, { [SESSION]: session, ...task }: Row): Promise<Row> {
    if (session !== reader.mcpSessionId) {
      const { mcpSessionId: _, ...caller } = reader
      await readsFrom(reader, { ...caller, ...(typeof session === 'string' && { mcpSessionId: session }) })
    }
    return task
  }

  async function answer(principal: Principal, request: TaskRequest, signal: AbortSignal): Promise<unknown> {
    if (store.has(request.id)) return answerHere(store, request)
    if (others === undefined || !(await others.listed.isListed(principal, request.id))) return undefined
    const outcome = await others.passing.send(principal.tenant, keyOf(request.id), JSON.stringify(request), signal)
    return outcome === undefined || outcome === NONE ? undefined : JSON.parse(outcome)
  }
  return {
    async create(principal, work) {
      const created = store.create(principal, work)
      if (created !== undefined) await others?.listed.whenListed(String(created['taskId']))
      return created
    },
    async list(principal) {
      const here = store.list(identityOf(principal))
      const elsewhere = (await others?.listed.elsewhere(principal)) ?? []
      // What a server said of a task is read with the task.
      const all = [...here, ...elsewhere].map(({ statusMessage: _, ...task }) => task)
      return all.sort((a, b) => (String(a['createdAt']) < String(b['createdAt']) ? 1 : -1))
    },
    async get(principal, id, signal) {
      const found = await answer(principal, { do: 'get', identity: identityOf(principal), id }, signal)
      return found === undefined ? undefined : await read(principal, found as Row)
    },
    async changed(principal, id, seen, signal) {
      if (!store.has(id)) {
        await pause(signal, limits.mcpTaskPollMs)
        return signal.throwIfAborted()
      }
      const identity = identityOf(principal)
      // The task may have changed since the caller last saw it.
      const isSame = JSON.stringify(store.get(identity, id)) === JSON.stringify(seen)
      if (isSame) await store.changed(identity, id, signal)
    },
    async answer(principal, id, responses, signal) {
      return (
        (await answer(principal, { do: 'answer', identity: identityOf(principal), id, responses }, signal)) === true
      )
    },
    async cancel(principal, id, signal) {
      const request: TaskRequest = { do: 'cancel', identity: identityOf(principal), id }
      const found = (await answer(principal, request, signal)) as CancelledTask | undefined
      return found && { ...found, task: await read(principal, found.task) }
    },
  }
}
