import {
  type Client,
  type ClientCapabilities,
  type InputRequiredResult,
  ProtocolError,
} from '@modelcontextprotocol/client'
import { AppError } from '../contract/app-error.ts'
import type { CallingClientCapabilities } from '../contract/calling-client.ts'
import { limits } from '../contract/limits.ts'
import type { UpstreamCallOptions } from '../contract/upstream-tools.ts'
import type { ListedTool } from '../domains/mcp-servers/runtime.ts'
import { pause } from '../kernel/pause.ts'
import type { ClientLink } from './client-link.ts'
import { type Connection, declared } from './handshake.ts'
import { resultOf } from './plain-calls.ts'
import { TASK_META_KEY } from './raw-requests.ts'
import { cannotAsk, questionsIn } from './send-in-rounds.ts'

type ForeignObject = Readonly<Record<string, unknown>>

const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks'
/** Declared with each call in the newer revision: the server may answer with a task. */
const taskCapabilities = { extensions: { [TASKS_EXTENSION]: {} } }

/** Whether the server may answer calls with tasks, in the newer revision. */
export const offersTasks = (client: Client): boolean =>
  client.getProtocolEra() === 'modern' && client.getServerCapabilities()?.extensions?.[TASKS_EXTENSION] !== undefined

/** Whether tools of the server can be called as tasks, in the older revision. */
const takesTasks = (client: Client): boolean =>
  client.getProtocolEra() !== 'modern' && client.getServerCapabilities()?.tasks?.requests?.tools?.call !== undefined

/** In the newer revision the server decides for each call. */
export function taskSupportOf(client: Client, tool: ListedTool): ListedTool['taskSupport'] {
  if (offersTasks(client)) return 'optional'
  const { execution } = tool as { execution?: { taskSupport?: unknown } }
  const support = execution?.taskSupport
  return takesTasks(client) && (support === 'optional' || support === 'required') ? support : undefined
}

/** The capabilities that are declared with a request of the newer revision. */
export const declaredTo = (
  client: Client,
  capabilities: CallingClientCapabilities | undefined,
): ClientCapabilities => ({
  ...(capabilities && declared(capabilities)),
  ...(offersTasks(client) && taskCapabilities),
})

/** Calls a tool as a task, in the older revision. Undefined if the tool must be called without one. */
export async function callAsTask(
  connection: Connection,
  clientLink: ClientLink | undefined,
  name: string,
  args: ForeignObject,
  options: UpstreamCallOptions,
  timeoutMs: number,
): Promise<ForeignObject | undefined> {
  if (options.asTask !== true || !takesTasks(connection.client)) return undefined
  const { signal } = options
  const params = { name, arguments: args, task: { ttl: limits.mcpUpstreamTaskMs } }
  const answer = await connection.request('tools/call', params, { signal, timeoutMs })
  const { task } = answer
  // A server may answer at once although its list says otherwise.
  return isObject(task) ? await finishTask(connection, clientLink, task, options) : await resultOf(answer)
}

/** In the newer revision the answer to a call may be a task, which is then followed to its end. */
export async function finished(
  connection: Connection,
  clientLink: ClientLink | undefined,
  answer: ForeignObject,
  options: UpstreamCallOptions,
): Promise<ForeignObject> {
  const meta = answer['_meta']
  const task = isObject(meta) ? meta[TASK_META_KEY] : undefined
  return isObject(task) ? await finishTask(connection, clientLink, task, options) : answer
}

/**
 * The final answer of a task. Its status messages become progress, and its questions go to the client of the call. Cancelling
 * the call cancels the task.
 */
async function finishTask(
  connection: Connection,
  clientLink: ClientLink | undefined,
  task: ForeignObject,
  { signal, onProgress }: UpstreamCallOptions,
): Promise<ForeignObject> {
  const { taskId } = task
  if (typeof taskId !== 'string') throw brokenTask()
  const isModern = connection.client.getProtocolEra() === 'modern'
  const deadline = AbortSignal.timeout(limits.mcpUpstreamTaskMs)
  const until = AbortSignal.any([signal, deadline])
  const capabilities = declaredTo(connection.client, clientLink?.capabilities)
  const ask = (method: string, params: ForeignObject = {}, timeoutMs: number = limits.mcpConnectMs, by = until) =>
    connection.request(method, { taskId, ...params }, { signal: by, timeoutMs, capabilities })
  async function answerQuestions(known: ForeignObject): Promise<void> {
    if (clientLink === undefined) throw cannotAsk()
    const questions = questionsIn(known as unknown as InputRequiredResult)
    await ask('tasks/update', { inputResponses: await clientLink.ask(connection.server, questions, until) })
  }
  let steps = 0
  let said: unknown
  try {
    for (let known = task; ; known = await ask('tasks/get')) {
      const { status, statusMessage } = known
      if (typeof statusMessage === 'string' && statusMessage !== said) {
        said = statusMessage
        onProgress?.({ progress: ++steps, message: statusMessage.slice(0, limits.mcpErrorCharsMax) })
      }
      if (status === 'cancelled') throw cancelledTask()
      if (status === 'working') await pause(pollMs(known), until)
      // In the older revision a task asks its questions while its result is awaited.
      else if (!isModern) return await resultOf(await ask('tasks/result', {}, limits.mcpUpstreamTaskMs))
      else if (known === task) continue
      else if (status === 'completed') return await resultOf(known['result'])
      else if (status === 'failed') throw failedTask(known['error'])
      else if (status === 'input_required') await answerQuestions(known)
      else throw brokenTask()
    }
  } catch (error) {
    const isOver = ProtocolError.isInstance(error) || error instanceof CancelledTask
    // The task may no longer exist, and the call has failed in any case.
    if (!isOver) await ask('tasks/cancel', {}, CANCEL_MS, AbortSignal.timeout(CANCEL_MS)).catch(() => {})
    if (!signal.aborted && deadline.aborted) throw lateTask(error)
    throw error
  }
}

const CANCEL_MS = 2_000

/** The interval that the server requests, within bounds. */
function pollMs({ pollInterval, pollIntervalMs }: ForeignObject): number {
  const requested = Number(pollIntervalMs ?? pollInterval ?? limits.mcpTaskPollMs)
  return Math.min(
    Math.max(Number.isFinite(requested) ? requested : 0, limits.mcpTaskPollMsMin),
    limits.mcpTaskPollMsMax,
  )
}

class CancelledTask extends AppError {}

const cancelledTask = (): AppError =>
  new CancelledTask('ERR_UPSTREAM_UNAVAILABLE', 'The MCP server cancelled the task of this call.')
const brokenTask = (): AppError =>
  new AppError('ERR_UPSTREAM_UNAVAILABLE', 'The MCP server answered with a task that does not follow the protocol.')
const lateTask = (cause: unknown): AppError =>
  new AppError('ERR_TIMED_OUT', 'The task at the MCP server did not end in time.', {}, { cause })

function failedTask(error: unknown): Error {
  if (!isObject(error) || typeof error['code'] !== 'number') return brokenTask()
  return ProtocolError.fromError(error['code'], String(error['message']), error['data'])
}

const isObject = (value: unknown): value is ForeignObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
