import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { requireWorkspacePath, WORKSPACE_FOLDER } from '../../contract/workspace-path.ts'
import type { PersonalWorkspaces } from '../workspaces/personal.ts'
import type { RunResult } from '../workspaces/run.ts'
import type { WorkspaceService } from '../workspaces/service.ts'

/** Prefixes of variables that hold the operator's credentials, whether set_env or an image set them. */
const SECRET_PREFIXES = ['AWS_', 'AZURE_', 'GCP_', 'GOOGLE_', 'CI_'] as const
const SECRET_NAMES = new Set([
  'GITHUB_TOKEN',
  'AEGIS_SECRET',
  'AEGIS_TOKEN',
  'OPENAI_API_KEY',
  'ANTHROPIC_API_KEY',
  'CASTELLAN_KEY',
])
/** Variables that an agent's command does not get. The server's own environment is never passed on. */
const isSecretName = (name: string): boolean =>
  SECRET_NAMES.has(name) || SECRET_PREFIXES.some((prefix) => name.startsWith(prefix))

type CommandSettings = Readonly<{ timeoutSecs: number; timeoutCeilingSecs: number; outputBytesMax: number }>
type CommandServiceDeps = Readonly<{
  workspaces: Pick<WorkspaceService, 'run'>
  personalWorkspaces: PersonalWorkspaces
  settings: CommandSettings
}>
type RunInput = Readonly<{
  command: string
  args?: readonly string[] | undefined
  cwd?: string | undefined
  timeout_secs?: number | undefined
}>
export type CommandService = ReturnType<typeof createCommandService>

/** Runs one command in the caller's workspace: with arguments a program, without them a shell line. */
export function createCommandService({ workspaces, personalWorkspaces, settings }: CommandServiceDeps) {
  const { timeoutCeilingSecs, outputBytesMax } = settings

  async function run(call: Call, input: RunInput) {
    const { command, args } = input
    if (command.trim() === '') throw emptyCommand()
    const timeoutSecs = input.timeout_secs ?? Math.min(settings.timeoutSecs, timeoutCeilingSecs)
    if (timeoutSecs > timeoutCeilingSecs) throw overCeiling(timeoutCeilingSecs)
    const workdir = input.cwd === undefined ? WORKSPACE_FOLDER : requireWorkspacePath('cwd', input.cwd)
    const workspace = await personalWorkspaces.of(call)
    const tooMuch = new AbortController()
    let printed = 0
    const outcome = await workspaces
      .run(
        { signal: AbortSignal.any([call.signal, tooMuch.signal]), transact: (work) => call.transact(work) },
        workspace,
        {
          argv: args === undefined ? ['/bin/sh', '-c', command] : [command, ...args],
          workdir,
          env: call.environment?.(),
          isHidden: isSecretName,
          timeoutMs: timeoutSecs * 1000,
          outputBytesMax,
          onOutput(_stream, chunk) {
            printed += chunk.length
            if (printed > outputBytesMax) tooMuch.abort()
          },
        },
      )
      .catch((error: unknown) => {
        if (tooMuch.signal.aborted && !call.signal.aborted) throw tooMuchOutput(outputBytesMax)
        if (error instanceof AppError && error.details['field'] === 'workdir') throw noSuchFolder(workdir)
        return notRun(command, error)
      })
    if (outcome.stdout.totalBytes + outcome.stderr.totalBytes > outputBytesMax) throw tooMuchOutput(outputBytesMax)
    if (outcome.timedOut) throw ranTooLong(timeoutSecs, timeoutCeilingSecs)
    const { exitCode, stdout, stderr } = outcome
    call.record({ kind: 'workspace_exec', body: { workspace_id: workspace.id, exit_code: exitCode, timed_out: false } })
    return { stdout: stdout.text, stderr: stderr.text, exit_code: exitCode }
  }

  return { run }
}

/** Like a shell's exit code for a missing program: the agent interprets it like any other. */
function notRun(command: string, error: unknown): RunResult {
  const { exit_code: exitCode, reason } = error instanceof AppError ? error.details : {}
  if (typeof exitCode !== 'number') throw error
  const text = `${command}: ${String(reason)}\n`
  const stderr = { text, totalBytes: Buffer.byteLength(text), truncated: false }
  const stdout = { text: '', totalBytes: 0, truncated: false }
  return { exitCode, signal: null, timedOut: false, durationMs: 0, stdout, stderr, limitsHit: [] }
}

const emptyCommand = (): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    "'command' must be a non-empty string: the program to run, or a line for a shell.",
    {
      field: 'command',
      constraint: 'not empty',
    },
  )

const noSuchFolder = (cwd: string): AppError =>
  new AppError('ERR_INVALID_INPUT', "'cwd' must be a folder of the workspace. Make it first with fs.create_dir.", {
    field: 'cwd',
    constraint: 'an existing folder',
    cwd,
  })

const overCeiling = (ceiling: number): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    `ExecTimeoutCeilingExceeded: 'timeout_secs' must be at most ${ceiling}. Use a smaller value, or do the work in parts.`,
    { violation: 'ExecTimeoutCeilingExceeded', field: 'timeout_secs', constraint: `at most ${ceiling}` },
  )

const ranTooLong = (secs: number, ceiling: number): AppError =>
  new AppError(
    'ERR_TIMED_OUT',
    `ExecTimeoutCeilingExceeded: the command was ended after ${secs} s. ${
      secs < ceiling ? `Set timeout_secs, at most ${ceiling}, or do` : 'Do'
    } the work in parts.`,
    { violation: 'ExecTimeoutCeilingExceeded', timeout_secs: secs, timeout_ceiling_secs: ceiling },
  )

const tooMuchOutput = (max: number): AppError =>
  new AppError(
    'ERR_TOO_LARGE',
    `OutputSizeLimitExceeded: the command printed more than ${max} bytes and was ended. Redirect its output to a file and read parts of it.`,
    { violation: 'OutputSizeLimitExceeded', rule: `at most ${max} bytes` },
  )
