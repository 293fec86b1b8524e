import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import { failureOf, type ToolInvoker } from '../../contract/tool-invoker.ts'
import { WEBHOOK_TOOL } from '../../contract/tool-policies.ts'
import { pause } from '../../kernel/pause.ts'
import { shellWord } from '../../kernel/shell-word.ts'
import type { HttpSender } from './ports.ts'
import type { WorkspaceClient, WorkspaceNeeds } from './workspace-client.ts'

/** External effects of output handlers, for agents and for workflow states. Each is one step of a journal. */
export type HandlerTime = Readonly<{ signal: AbortSignal; leftMs: number }>

/** The time-out of a handler that sets none. */
export const HANDLER_TIMEOUT_MS = 300_000
const RETRY_MS = 1_000

type Webhook = Readonly<{
  url: string
  method: string
  headers: Readonly<Record<string, string>>
  body: string
  /** Retries after a temporary failure. */
  retries: number
}>

/** Who sends: every delivery is judged and recorded as a call of the principal. */
export type WebhookSender = Readonly<{ invoker: Pick<ToolInvoker, 'call'>; http: HttpSender; principal: Principal }>

/** Returns the answer of the address: its body, or only its status if `isRead` is false. Any status below 400 is a success. */
export async function sendToWebhook(
  { invoker, http, principal }: WebhookSender,
  webhook: Webhook,
  time: HandlerTime,
  isRead: boolean,
): Promise<string> {
  const { url, method } = webhook
  const body = webhook.body.toWellFormed()
  const send = async (): Promise<string> => {
    const answer = await sendWithRetries(http, { ...webhook, body }, time)
    return isRead ? answer.body : String(answer.status)
  }
  const { signal } = time
  const options = { signal, transport: 'engine', webhook: { send, isRead } } as const
  const answer = await invoker.call(principal, WEBHOOK_TOOL, { url, method, body }, options)
  if (answer.code === 'ERR_CANCELLED') signal.throwIfAborted()
  if (answer.isError) throw failureOf(answer)
  return answer.text
}

async function sendWithRetries(http: HttpSender, { retries, ...request }: Webhook, { signal, leftMs }: HandlerTime) {
  for (let tries = 0; ; tries++) {
    try {
      const answer = await http.send({ ...request, timeoutMs: leftMs, signal })
      const { status } = answer
      if (status < 400) return answer
      if (status < 500 || tries >= retries) {
        throw new AppError('ERR_OUTPUT_HANDLER_FAILED', `the address answered ${status}`, { status })
      }
    } catch (error) {
      const mayPass = error instanceof AppError && (error.code === 'ERR_WEB_FAILED' || error.code === 'ERR_TIMED_OUT')
      if (signal.aborted || !mayPass || tries >= retries) throw error
    }
    await pause(RETRY_MS * 2 ** tries, signal)
  }
}

type ThrowawayCommand = Readonly<{
  /** The name of the workspace. It is the same on every attempt, so that a workspace left by a crash is found. */
  name: string
  needs: WorkspaceNeeds
  image: string
  command: readonly string[]
  env: Readonly<Record<string, string>>
  stdin: string
}>

/** One command in a temporary workspace. Returns its output. */
export async function runInThrowaway(
  workspaces: Pick<WorkspaceClient, 'ask' | 'make' | 'destroy'>,
  { name, needs, image, command, env, stdin }: ThrowawayCommand,
  { signal, leftMs }: HandlerTime,
  interrupted: boolean,
): Promise<string> {
  // A workspace that a crash left behind contains half a step.
  if (interrupted) await workspaces.destroy(name, signal)
  try {
    const workspace_id = await workspaces.make(needs, name, image, signal)
    const timeout_secs = Math.min(limits.execTimeoutSecsMax, Math.max(1, Math.ceil(leftMs / 1000)))
    const max_output_bytes = limits.iterationOutputBytesMax
    const line = command.map(shellWord).join(' ')
    const args = { workspace_id, command: line, stdin, env, timeout_secs, max_output_bytes }
    const { exit_code, stdout, stdout_bytes, stderr } = await workspaces.ask<Ran>('exec', args, signal)
    // Truncated output would be passed on as a different output, so it is refused.
    if (exit_code === 0 && stdout_bytes > max_output_bytes) {
      const problem = `the command wrote more than ${max_output_bytes} bytes; let it write less`
      throw new AppError('ERR_OUTPUT_HANDLER_FAILED', problem, { stdout_bytes })
    }
    if (exit_code === 0) return stdout
    const details = { exit_code, stderr: stderr.slice(-2_000) }
    throw new AppError('ERR_OUTPUT_HANDLER_FAILED', `the command exited with code ${exit_code}`, details)
  } finally {
    await workspaces.destroy(name, new AbortController().signal)
  }
}

type Ran = Readonly<{ exit_code: number; stdout: string; stdout_bytes: number; stderr: string }>
