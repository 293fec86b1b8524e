import {
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  INTERNAL_ERROR,
  type InputRequests,
  type InputResponses,
  MissingRequiredClientCapabilityError,
  ProtocolError,
} from '@modelcontextprotocol/server'
import { limits } from '../contract/limits.ts'
import { type Principal, shareFor } from '../contract/principal.ts'
import { type Clock, isoTime } from '../kernel/clock.ts'
import { type Random, randomId } from '../kernel/random.ts'
import { isRecord } from './call-request.ts'
import { identityOf } from './session-identity.ts'

const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks'

type TaskStatus = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled'

/** What the work of a task can use. */
export type TaskHandle = Readonly<{
  /** Aborted when the task is cancelled, and when the transport closes. */
  signal: AbortSignal
  say(message: string): void
  /** Resolves when the client has answered all of them, one by one or together. */
  ask(requests: InputRequests): Promise<InputResponses>
}>
export type TaskWork = (handle: TaskHandle) => Promise<CallToolResult>

type TaskError = Readonly<{ code: number; message: string; data?: unknown }>

type Task = {
  readonly id: string
  readonly identity: string
  readonly principal: Principal
  readonly createdAtMs: number
  readonly controller: AbortController
  status: TaskStatus
  changedAtMs: number
  message: string | undefined
  result: CallToolResult | undefined
  error: TaskError | undefined
  pending: Record<string, unknown>
  answers: Record<string, unknown>
  onAnswered: ((answers: InputResponses) => void) | undefined
  readonly listeners: Set<() => void>
  /** Aborted when the task is removed. */
  readonly removed: AbortController
}

/**
 * Calls that are answered later (the MCP extension for tasks). A task belongs to the caller that made the call; for others it
 * does not exist. It is retained for its time to live after its last change, and lost with the process; what it waits for is not.
 */
export type TaskStore = Readonly<{
  /** The answer to the call; undefined if there are too many tasks, so that the call must be answered directly. */
  create(principal: Principal, work: TaskWork): Readonly<Record<string, unknown>> | undefined
  /** Whether this process has the task, for any caller. */
  has(id: string): boolean
  get(identity: string, id: string): Readonly<Record<string, unknown>> | undefined
  /** The session in which the call was made, if there is one. */
  sessionOf(identity: string, id: string): string | undefined
  /** The tasks of the caller, newest first. */
  list(identity: string): readonly Readonly<Record<string, unknown>>[]
  /** Resolves when the task changes; rejects when the signal is aborted. */
  changed(identity: string, id: string, signal: AbortSignal): Promise<void>
  /** Answers for unknown keys are ignored. False if there is no such task. */
  answer(identity: string, id: string, responses: Readonly<Record<string, unknown>>): boolean
  /** An ended task does not change. False if there is no such task. */
  cancel(identity: string, id: string): boolean
  /** Ends and removes the tasks of matching callers. */
  forget(isMeant: (principal: Principal) => boolean): void
  close(): void
}>

type TaskStoreDeps = Readonly<{
  clock: Clock
  random: Random
  /** Called for each task. The signal is aborted when the task is removed. */
  noteCreated?: ((principal: Principal, view: TaskView, removed: AbortSignal) => void) | undefined
  noteChanged?: ((view: TaskView) => void) | undefined
}>

export function createTaskStore({ clock, random, noteCreated, noteChanged }: TaskStoreDeps): TaskStore {
  const tasks = new Map<string, Task>()

  function change(task: Task, next: Partial<Pick<Task, 'status' | 'message' | 'result' | 'error'>>): void {
    if (hasEnded(task)) return
    Object.assign(task, next)
    task.changedAtMs = clock.nowMs()
    tell(task)
    noteChanged?.(viewOf(task))
    if (noteCreated !== undefined && hasEnded(task)) setTimeout(forgetOld, limits.mcpTaskTtlMs + 1).unref()
  }

  function remove(task: Task): void {
    tasks.delete(task.id)
    task.removed.abort()
  }

  function tell({ listeners }: Task): void {
    const told = [...listeners]
    listeners.clear()
    for (const listener of told) listener()
  }

  function forgetOld(): void {
    const before = clock.nowMs() - limits.mcpTaskTtlMs
    for (const task of tasks.values()) if (hasEnded(task) && task.changedAtMs < before) remove(task)
  }

  function hasSpace(principal: Principal, identity: string): boolean {
    if (tasks.size >= shareFor(principal, limits.mcpTasksMax, limits.mcpTasksReserved)) return false
    let own = 0
    for (const task of tasks.values()) if (task.identity === identity) own++
    return own < limits.mcpTasksPerIdentityMax
  }

  const handleOf = (task: Task): TaskHandle => ({
    signal: task.controller.signal,
    say: (message) => change(task, { message }),
    ask(requests) {
      const { promise, resolve } = Promise.withResolvers<InputResponses>()
      task.pending = { ...requests }
      task.answers = {}
      task.onAnswered = resolve
      change(task, { status: 'input_required' })
      return promise
    },
  })

  const find = (identity: string, id: string): Task | undefined => {
    const task = tasks.get(id)
    return task?.identity === identity ? task : undefined
  }

  return {
    create(principal, work) {
      forgetOld()
      const identity = identityOf(principal)
      if (!hasSpace(principal, identity)) return undefined
      const nowMs = clock.nowMs()
      const task: Task = {
        id: randomId(random, 'task'),
        identity,
        principal,
        createdAtMs: nowMs,
        controller: new AbortController(),
        status: 'working',
        changedAtMs: nowMs,
        message: undefined,
        result: undefined,
        error: undefined,
        pending: {},
        answers: {},
        onAnswered: undefined,
        listeners: new Set(),
        removed: new AbortController(),
      }
      tasks.set(task.id, task)
      noteCreated?.(principal, viewOf(task), task.removed.signal)
      const created = { resultType: 'task', ...viewOf(task) }
      Promise.resolve()
        .then(() => work(handleOf(task)))
        .then(
          (result) => change(task, { status: 'completed', result }),
          (error: unknown) => change(task, { status: 'failed', error: errorOf(error) }),
        )
      return created
    },
    has: (id) => tasks.has(id),
    get(identity, id) {
      const task = find(identity, id)
      return task === undefined ? undefined : { ...viewOf(task), ...outcomeOf(task) }
    },
    sessionOf: (identity, id) => find(identity, id)?.principal.mcpSessionId,
    list(identity) {
      forgetOld()
      const own = [...tasks.values()].filter((task) => task.identity === identity)
      return own.reverse().map(viewOf)
    },
    changed(identity, id, signal) {
      const task = find(identity, id)
      return new Promise((resolve, reject) => {
        signal.throwIfAborted()
        if (task === undefined) return resolve()
        const stop = (): void => {
          task.listeners.delete(done)
          reject(signal.reason)
        }
        const done = (): void => {
          signal.removeEventListener('abort', stop)
          resolve()
        }
        signal.addEventListener('abort', stop, { once: true })
        task.listeners.add(done)
      })
    },
    answer(identity, id, responses) {
      const task = find(identity, id)
      if (task === undefined) return false
      for (const [key, response] of Object.entries(responses)) {
        if (!Object.hasOwn(task.pending, key)) continue
        delete task.pending[key]
        task.answers[key] = response
      }
      if (task.status === 'input_required' && Object.keys(task.pending).length === 0) {
        change(task, { status: 'working' })
        task.onAnswered?.(task.answers as InputResponses)
      }
      return true
    },
    cancel(identity, id) {
      const task = find(identity, id)
      if (task === undefined) return false
      change(task, { status: 'cancelled' })
      task.controller.abort()
      return true
    },
    forget(isMeant) {
      for (const task of tasks.values()) {
        if (!isMeant(task.principal)) continue
        remove(task)
        task.controller.abort()
        tell(task)
      }
    },
    close() {
      for (const task of [...tasks.values()]) {
        remove(task)
        task.controller.abort()
        tell(task)
      }
    },
  }
}

const hasEnded = ({ status }: Task): boolean => status === 'completed' || status === 'failed' || status === 'cancelled'

export type TaskView = ReturnType<typeof viewOf>

const viewOf = (task: Task) => ({
  taskId: task.id,
  status: task.status,
  ...(task.message === undefined ? {} : { statusMessage: task.message }),
  createdAt: isoTime(task.createdAtMs),
  lastUpdatedAt: isoTime(task.changedAtMs),
  ttlMs: limits.mcpTaskTtlMs,
  pollIntervalMs: limits.mcpTaskPollMs,
})

function outcomeOf({ status, result, error, pending }: Task): Readonly<Record<string, unknown>> {
  if (status === 'completed') return { result }
  if (status === 'failed') return { error }
  return status === 'input_required' ? { inputRequests: pending } : {}
}

const errorOf = (error: unknown): TaskError =>
  error instanceof ProtocolError
    ? { code: error.code, message: error.message, ...(error.data === undefined ? {} : { data: error.data }) }
    : { code: INTERNAL_ERROR, message: 'Something failed inside the server.' }

/** Whether the request of a context, or a message's `_meta`, declares that the client knows tasks. */
export function declaresTasks(envelope: Readonly<Record<string, unknown>> | undefined): boolean {
  const capabilities = envelope?.[CLIENT_CAPABILITIES_META_KEY]
  const extensions = isRecord(capabilities) ? capabilities['extensions'] : undefined
  return isRecord(extensions) && extensions[TASKS_EXTENSION] !== undefined
}

export const tasksNeeded = (): MissingRequiredClientCapabilityError =>
  new MissingRequiredClientCapabilityError({ requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } } })
