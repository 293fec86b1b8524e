import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import type { LimitName } from './backend.ts'
import type { Core } from './core.ts'
import { wholeCharacters } from './file-rules.ts'
import { decodeText } from './output-text.ts'
import type { Workspace } from './ports.ts'
import { invalid } from './rules.ts'
import { createOutputEnd, type Runner, type RunResult, tickProgress } from './run.ts'

type ExecInput = Readonly<{
  workspace_id: string
  command: string
  timeout_secs?: number | undefined
  workdir?: string | undefined
  env?: Readonly<Record<string, string>> | undefined
  stdin?: string | undefined
  max_output_bytes?: number | undefined
}>
type ExecParallelInput = Readonly<{
  workspace_ids: readonly string[]
  commands: string | readonly string[]
  timeout_secs?: number | undefined
  workdir?: string | undefined
  env?: Readonly<Record<string, string>> | undefined
  max_output_bytes?: number | undefined
}>

type Resolve = (call: Call, reference: string) => Promise<Workspace>
export const shellArgv = (command: string): readonly string[] => ['/bin/sh', '-c', command]

/** How much of a cancelled command's output is reported. */
const TAIL_BYTES = 4_000
const tailOf = (bytes: Uint8Array): string =>
  decodeText(wholeCharacters(bytes, { startsInside: bytes.length === TAIL_BYTES, endsInside: true }))

const outcomeOf = (result: RunResult) => ({
  exit_code: result.exitCode,
  signal: result.signal,
  stdout: result.stdout.text,
  stderr: result.stderr.text,
  stdout_bytes: result.stdout.totalBytes,
  stderr_bytes: result.stderr.totalBytes,
  truncated: result.stdout.truncated || result.stderr.truncated,
  timed_out: result.timedOut,
  limits_hit: [...result.limitsHit],
  duration_ms: result.durationMs,
})

/** A model that sees truncated output must see how to read the rest. */
function warnIfCut(call: Pick<Call, 'warn'>, outcomes: readonly Readonly<{ truncated: boolean }>[]): void {
  if (!outcomes.some(({ truncated }) => truncated)) return
  call.warn(
    `Output was cut in the middle. To read all of it, send it to a file (command > /tmp/out 2>&1) and page through that with file_read, or ask for more with max_output_bytes, at most ${limits.execOutputBytesMax}.`,
  )
}

/** Also as sentences: a killed program prints nothing itself. */
const hitText: Readonly<Record<LimitName, (workspace: Workspace) => string>> = {
  memory: ({ memoryMb }) =>
    `The kernel killed a process because the workspace ran out of memory: its limit is ${memoryMb} MiB. Use less at once, or raise the limit with workspace_resize.`,
  processes: () =>
    'The workspace reached its limit of processes and could not start another one. End some; see workspace_info. A process that keeps trying is killed; see workspace_logs.',
}

export function createExec(core: Core, { resolve, runner }: Readonly<{ resolve: Resolve; runner: Runner }>) {
  async function exec(call: Call, input: ExecInput) {
    const workspace = await resolve(call, input.workspace_id)
    const ticker = tickProgress(core, call)
    const printed = { stdout: createOutputEnd(TAIL_BYTES), stderr: createOutputEnd(TAIL_BYTES) }
    try {
      const result = await runner.run(call, workspace, {
        argv: shellArgv(input.command),
        workdir: input.workdir,
        env: input.env,
        stdin: input.stdin,
        timeoutMs: (input.timeout_secs ?? limits.execTimeoutDefaultSecs) * 1000,
        outputBytesMax: input.max_output_bytes,
        onOutput(stream, chunk) {
          ticker.note(chunk)
          printed[stream].add(chunk)
        },
      })
      call.record({
        kind: 'workspace_exec',
        body: { workspace_id: workspace.id, exit_code: result.exitCode, timed_out: result.timedOut },
      })
      for (const limit of result.limitsHit) call.warn(hitText[limit](workspace))
      const outcome = outcomeOf(result)
      warnIfCut(call, [outcome])
      return outcome
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'ERR_CANCELLED') throw error
      const tails = { stdout_tail: tailOf(printed.stdout.bytes()), stderr_tail: tailOf(printed.stderr.bytes()) }
      throw new AppError('ERR_CANCELLED', error.message, { ...error.details, ...tails }, { cause: error })
    } finally {
      ticker.stop()
    }
  }

  /** Concurrently, each in its own workspace. A command that cannot run is a result and does not end the others. */
  async function execParallel(call: Call, input: ExecParallelInput) {
    const { workspace_ids: references, commands } = input
    if (typeof commands !== 'string' && commands.length !== references.length) {
      throw invalid(
        'commands',
        `must be one command for all, or a list of ${references.length} commands, one for each workspace`,
      )
    }
    const startedMs = core.clock.monotonicMs()
    let done = 0
    const results = await Promise.all(
      references.map(async (reference, index) => {
        const command = typeof commands === 'string' ? commands : commands[index]!
        const result = await runOne(call, reference, command, input, references.length)
        call.progress({ progress: ++done, total: references.length, message: `${done} of ${references.length} ended` })
        return result
      }),
    )
    call.record({
      kind: 'workspace_exec_parallel',
      body: { runs: results.map(({ workspace_id, exit_code }) => ({ workspace_id, exit_code })) },
    })
    warnIfCut(call, results)
    const succeeded = results.filter((result) => result.exit_code === 0).length
    return {
      results,
      summary: {
        total: results.length,
        succeeded,
        failed: results.length - succeeded,
        timed_out: results.filter((result) => result.timed_out).length,
        elapsed_ms: Math.round(core.clock.monotonicMs() - startedMs),
      },
    }
  }

  async function runOne(call: Call, reference: string, command: string, input: ExecParallelInput, answers: number) {
    let workspace: Workspace | undefined
    try {
      workspace = await resolve(call, reference)
      const result = await runner.run(
        call,
        workspace,
        {
          argv: shellArgv(command),
          workdir: input.workdir,
          env: input.env,
          timeoutMs: (input.timeout_secs ?? limits.execParallelTimeoutDefaultSecs) * 1000,
          outputBytesMax: input.max_output_bytes,
        },
        answers,
      )
      return { workspace_id: workspace.id, workspace_name: workspace.name, ...outcomeOf(result), error: null }
    } catch (error) {
      if (!(error instanceof AppError) || error.code === 'ERR_CANCELLED') throw error
      return notRun(reference, workspace, error)
    }
  }

  return { exec, execParallel }
}

/** The published tool's result for a command that did not run: exit code -1, with the reason in stderr. */
const notRun = (reference: string, workspace: Workspace | undefined, error: AppError) => ({
  workspace_id: workspace?.id ?? reference,
  workspace_name: workspace?.name ?? reference,
  exit_code: -1,
  signal: null,
  stdout: '',
  stderr: error.message,
  stdout_bytes: 0,
  stderr_bytes: 0,
  truncated: false,
  timed_out: false,
  limits_hit: [],
  duration_ms: 0,
  error: { code: error.code, message: error.message },
})
