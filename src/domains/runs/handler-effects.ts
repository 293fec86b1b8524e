import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { pause } from '../../kernel/pause.ts'
import { shellWord } from '../../kernel/shell-word.ts'
import type { HttpSender } from './ports.ts'
import type { WorkspaceClient, WorkspaceNeeds } from './workspace-client.ts'

/** What output handlers do outside, for agents and for states of workflows. Each is done in one step of a journal. */
export type HandlerTime = Readonly<{ signal: AbortSignal; leftMs: number }>

/** The time of a handler of which nothing else says what it has. */
export const HANDLER_TIMEOUT_MS = 300_000
const RETRY_MS = 1_000

type Webhook = Readonly<{
  url: string
  method: string
  headers: Readonly<Record<string, string>>
  body: string
  /** Further tries after a failure that may pass. */
  retries: number
}>

/** Answers the body of the answer. */
export async function sendToWebhook(
  http: HttpSender,
  { retries, ...request }: Webhook,
  { signal, leftMs }: HandlerTime,
): Promise<string> {
  for (let tries = 0; ; tries++) {
    try {
      const { status, body } = await http.send({ ...request, timeoutMs: leftMs, signal })
      if (status < 400) return body
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
  /** Of the workspace: the same each time, so that one that a crash left behind is found. */
  name: string
  needs: WorkspaceNeeds
  image: string
  command: readonly string[]
  env: Readonly<Record<string, string>>
  stdin: string
}>

/** One command in a workspace that is made for it and goes with it. Answers what it wrote. */
export async function runInThrowaway(
  workspaces: Pick<WorkspaceClient, 'ask' | 'make' | 'destroy'>,
  { name, needs, image, command, env, stdin }: ThrowawayCommand,
  { signal, leftMs }: HandlerTime,
  interrupted: boolean,
): Promise<string> {
  // One that a crash left behind holds half a step.
  if (interrupted) await workspaces.destroy(name, signal)
  try {
    const workspace_id = await workspaces.make(needs, name, image, signal)
    const timeout_secs = Math.min(limits.execTimeoutSecsMax, Math.max(1, Math.ceil(leftMs / 1000)))
    const max_output_bytes = limits.iterationOutputBytesMax
    const line = command.map(shellWord).join(' ')
    const args = { workspace_id, command: line, stdin, env, timeout_secs, max_output_bytes }
    const { exit_code, stdout, stdout_bytes, stderr } = await workspaces.ask<Ran>('exec', args, signal)
    // A part of an output is another output.
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
