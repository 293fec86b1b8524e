import {
  type CallToolResult,
  CLIENT_INFO_META_KEY,
  type InputRequests,
  ProtocolError,
  ProtocolErrorCode,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { z } from 'zod'
import {
  type CallingClient,
  type ClientAnswers,
  type ClientQuestion,
  clientCapabilitiesOf,
} from '../contract/calling-client.ts'
import { limits } from '../contract/limits.ts'
import { callerKey, type Principal } from '../contract/principal.ts'
import { sha256Hex } from '../kernel/hash.ts'
import type { ToolCaller } from '../tools/runtime/tool-host.ts'
import { type ClientSession, envelopeCapabilities } from './calling-client.ts'
import { MODERN_REVISION } from './server-facts.ts'
import { identityOf } from './session-identity.ts'
import type { SharedTasks } from './shared-tasks.ts'
import { declaresTasks, type TaskHandle, tasksNeeded } from './task-store.ts'

/**
 * The methods for tasks. In the stateless revision they are an extension, for clients that declare it. In 2025-11-25 they are part of the
 * protocol, and offered at gateways.
 */
const taskParams = z.looseObject({ taskId: z.string() })
const listParams = z.looseObject({}).optional()

const OLDER_REVISION = '2025-11-25'
const RELATED_TASK = 'io.modelcontextprotocol/related-task'

type Row = Readonly<Record<string, unknown>>
type TaskConnection = Readonly<{ isOfGateway?: boolean; caller(): ToolCaller }>

/** The kind of task that the client requests for the answer to a call; undefined if it wants the answer itself. */
export function taskKindOf(
  server: Server,
  { isOfGateway }: TaskConnection,
  params: object,
  { mcpReq }: ServerContext,
): 'newer' | 'older' | undefined {
  if (server.getNegotiatedProtocolVersion() === MODERN_REVISION) {
    return declaresTasks(mcpReq.envelope) ? 'newer' : undefined
  }
  return isOlder(server, isOfGateway) && 'task' in params && params.task !== undefined ? 'older' : undefined
}

const isOlder = (server: Server, isOfGateway: boolean | undefined): boolean =>
  isOfGateway === true && server.getNegotiatedProtocolVersion() === OLDER_REVISION

export function installTasks(server: Server, tasks: SharedTasks, connection: TaskConnection): void {
  /** Tasks whose questions are being asked: two requests for one result ask once. */
  const asking = new Set<string>()
  const principal = (): Principal => connection.caller().principal
  const isOlderHere = (): boolean => isOlder(server, connection.isOfGateway)

  function require(method: string, { mcpReq }: ServerContext): Principal {
    if (isOlderHere()) return principal()
    if (server.getNegotiatedProtocolVersion() !== MODERN_REVISION) throw methodNotFound(method)
    if (!declaresTasks(mcpReq.envelope)) throw tasksNeeded()
    return principal()
  }
  function requireOlder(method: string): Principal {
    if (!isOlderHere()) throw methodNotFound(method)
    return principal()
  }
  const known = <T>(found: T | undefined | false): T => {
    if (found !== undefined && found !== false) return found
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'taskId: you have no such task')
  }

  server.setRequestHandler('tasks/get', { params: taskParams }, async ({ taskId }, context) => {
    const found = known(await tasks.get(require('tasks/get', context), taskId, context.mcpReq.signal))
    return isOlderHere() ? olderView(found) : found
  })
  server.setRequestHandler('tasks/update', { params: taskParams }, async ({ taskId }, context) => {
    if (isOlderHere()) throw methodNotFound('tasks/update')
    const who = require('tasks/update', context)
    const { signal, inputResponses } = context.mcpReq
    // The SDK takes answers out of the parameters of every request.
    known(await tasks.answer(who, taskId, inputResponses ?? {}, signal))
    return {}
  })
  server.setRequestHandler('tasks/cancel', { params: taskParams }, async ({ taskId }, context) => {
    const who = require('tasks/cancel', context)
    const { hadEnded, task } = known(await tasks.cancel(who, taskId, context.mcpReq.signal))
    if (!isOlderHere()) return {}
    if (hadEnded) throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'taskId: this task has ended')
    return olderView(task)
  })
  server.setRequestHandler('tasks/list', { params: listParams }, async () => ({
    tasks: (await tasks.list(requireOlder('tasks/list'))).map(olderView),
  }))
  server.setRequestHandler('tasks/result', { params: taskParams }, async ({ taskId }, context) => {
    const who = requireOlder('tasks/result')
    const { signal } = context.mcpReq
    for (;;) {
      const task = known(await tasks.get(who, taskId, signal))
      if (task['status'] === 'completed') return relatedTo(taskId, task['result'] as CallToolResult)
      if (task['status'] === 'failed') {
        const { code, message, data } = task['error'] as { code: number; message: string; data?: unknown }
        throw new ProtocolError(code, message, data)
      }
      if (task['status'] === 'cancelled')
        throw new ProtocolError(ProtocolErrorCode.InvalidRequest, 'The task was cancelled.')
      if (task['status'] === 'input_required' && !asking.has(taskId)) {
        asking.add(taskId)
        try {
          await tasks.answer(who, taskId, await askIn(context, taskId, task['inputRequests'] as InputRequests), signal)
        } finally {
          asking.delete(taskId)
        }
      } else await tasks.changed(who, taskId, task, signal)
    }
  })
}

/** While the client of a session waits for a result, it is asked by requests of ours. */
async function askIn({ mcpReq }: ServerContext, taskId: string, questions: InputRequests): Promise<Row> {
  const options = { signal: mcpReq.signal, timeout: limits.mcpAnswerMs }
  const inputRequests = Object.entries(questions as Readonly<Record<string, { method: string; params?: object }>>)
  const answers = await Promise.all(
    inputRequests.map(async ([key, { method, params }]) => {
      const known = method as ClientQuestion['method']
      const request = { method: known, params: { ...params, _meta: relatedMeta(taskId) } }
      return [key, await mcpReq.send(request as never, options)]
    }),
  )
  return Object.fromEntries(answers) as Row
}

/** The calling program, for a server's questions during its task: the questions wait with the task. */
export function clientOfTask(
  server: Server,
  session: ClientSession | undefined,
  principal: Principal,
  { mcpReq }: ServerContext,
  handle: TaskHandle,
): CallingClient | undefined {
  const envelope = mcpReq.envelope as Row | undefined
  const isNewer = server.getNegotiatedProtocolVersion() === MODERN_REVISION
  const capabilities = isNewer ? envelopeCapabilities(envelope) : clientCapabilitiesOf(server.getClientCapabilities())
  if (capabilities === undefined) return undefined
  const known = [identityOf(principal), envelope?.[CLIENT_INFO_META_KEY] ?? 0, session?.id ?? 0, capabilities]
  return {
    id: `task ${sha256Hex(JSON.stringify(known))}`,
    owner: callerKey(principal),
    isSession: false,
    capabilities: capabilities,
    ask: (questions, signal) =>
      new Promise<ClientAnswers>((resolve, reject) => {
        const until = AbortSignal.any([signal, handle.signal])
        until.throwIfAborted()
        until.addEventListener('abort', () => reject(until.reason), { once: true })
        handle.ask(questions as unknown as InputRequests).then((answers) => resolve(answers as ClientAnswers), reject)
      }),
    tell() {},
  }
}

/** The answer to a call in the format of 2025-11-25. */
export const olderAnswer = (created: Row): Row => ({ task: olderView(created), content: [] })

const olderView = ({ taskId, status, statusMessage, createdAt, lastUpdatedAt, ttlMs, pollIntervalMs }: Row): Row => ({
  taskId,
  status,
  ...(statusMessage === undefined ? {} : { statusMessage }),
  createdAt,
  lastUpdatedAt,
  ttl: ttlMs,
  pollInterval: pollIntervalMs,
})

const relatedMeta = (taskId: string): Row => ({ [RELATED_TASK]: { taskId } })
const relatedTo = (taskId: string, result: CallToolResult): CallToolResult => ({
  ...result,
  _meta: { ...result._meta, ...relatedMeta(taskId) },
})

export const noTaskFor = (tool: string): ProtocolError =>
  new ProtocolError(ProtocolErrorCode.MethodNotFound, `task: '${tool}' cannot be called as a task. Leave task out.`)
export const tooManyTasks = (): ProtocolError =>
  new ProtocolError(
    ProtocolErrorCode.InternalError,
    'task: you have too many tasks. Wait for one to end, or leave task out.',
  )
const methodNotFound = (method: string): ProtocolError =>
  new ProtocolError(ProtocolErrorCode.MethodNotFound, `Method not found: ${method}`)
