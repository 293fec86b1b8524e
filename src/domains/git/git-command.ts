import type { Readable } from 'node:stream'
import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { ExecResult, RetainedOutput } from '../workspaces/backend.ts'
import type { GitRunner, WorkspaceReference } from './ports.ts'
import { redact } from './redact.ts'

type GitOptions = Readonly<{
  stdin?: string | Uint8Array | Readable
  env?: Readonly<Record<string, string>>
  /** Settings for this command alone, as `name=value`. */
  config?: readonly string[]
  timeoutMs?: number
  /** How much of standard output to return, from its beginning. */
  outputBytesMax?: number
  /** Runs to its end even if the call is cancelled: for steps that must not be left half done. */
  uninterrupted?: boolean
  onStderr?(chunk: Uint8Array): void
}>

export type GitOutput = Readonly<{
  exitCode: number
  stdout: Buffer
  /** Standard output is longer than `stdout`. */
  truncated: boolean
  /** Without secrets, and shortened. */
  stderr: string
}>

/** Git in one directory of one workspace, for the time of one call. */
export type Git = Readonly<{
  workspace: WorkspaceReference
  path: string
  /** Returns any exit code. Throws if git is missing, was killed, or found no repository at the path. */
  run(args: readonly string[], options?: GitOptions): Promise<GitOutput>
  /** Standard output without its last newline; any exit code but 0 is ERR_GIT_FAILED. */
  text(args: readonly string[], options?: GitOptions): Promise<string>
  /** Another program of the workspace, without a shell. */
  program(argv: readonly string[], options?: GitOptions): Promise<GitOutput>
  /** The same repository, with commands that its hooks and the image's settings cannot change. */
  plumbing: Pick<Git, 'run' | 'text'>
}>

/**
 * Applies to every command. Git may not prompt, page, open an editor, run maintenance in the background, or start a
 * program that an address names. A repository may belong to any user of the workspace: all of it is the caller's.
 */
const settings: readonly string[] = [
  'safe.directory=*',
  'core.quotePath=false',
  'core.fsmonitor=false',
  'color.ui=false',
  'gc.auto=0',
  'maintenance.auto=false',
  'submodule.recurse=false',
  'protocol.ext.allow=never',
  'protocol.fd.allow=never',
  'protocol.file.allow=user',
]
const plumbingSettings: readonly string[] = ['core.hooksPath=/dev/null', 'merge.verifySignatures=false']

const environment: Readonly<Record<string, string>> = {
  GIT_TERMINAL_PROMPT: '0',
  GIT_PAGER: 'cat',
  GIT_EDITOR: ':',
  GIT_MERGE_AUTOEDIT: 'no',
  GIT_OPTIONAL_LOCKS: '0',
  LC_ALL: 'C.UTF-8',
  LANGUAGE: '',
}

const STDERR_BYTES_MAX = 16 * 1024
const neverAborted = new AbortController().signal

export function createGit(runner: GitRunner, workspace: WorkspaceReference, path: string, signal: AbortSignal): Git {
  async function program(argv: readonly string[], options: GitOptions = {}): Promise<GitOutput> {
    const outputBytesMax = options.outputBytesMax ?? limits.gitOutputBytesMax
    const timeoutMs = options.timeoutMs ?? limits.gitCommandTimeoutMs
    const name = argv[0] ?? ''
    const result = await runner.run(workspace, {
      argv,
      env: { ...environment, ...options.env },
      ...(options.stdin === undefined ? {} : { stdin: options.stdin }),
      timeoutMs,
      // Beyond the bound a runner keeps half from the beginning and half from the end; only the beginning is used here.
      outputBytesMax: Math.max(2 * outputBytesMax, STDERR_BYTES_MAX),
      signal: options.uninterrupted === true ? neverAborted : signal,
      ...(options.onStderr === undefined ? {} : { onOutput: onlyStderr(options.onStderr) }),
    })
    if (result.ended === 'cancelled') throw new AppError('ERR_CANCELLED', 'The call was cancelled.')
    const stderr = errorText(result.stderr)
    if (result.ended === 'timeout' || result.exitCode === null) throw endedFromOutside(name, result, timeoutMs, stderr)
    const whole = wholeOutput(result.stdout)
    const stdout = (whole ?? Buffer.from(result.stdout.head)).subarray(0, outputBytesMax)
    return { exitCode: result.exitCode, stdout, truncated: result.stdout.totalBytes > stdout.length, stderr }
  }

  const withSettings = (more: readonly string[], moreEnv: Readonly<Record<string, string>>) => {
    const run = async (args: readonly string[], options: GitOptions = {}): Promise<GitOutput> => {
      const config = [...settings, ...more, ...(options.config ?? [])].flatMap((setting) => ['-c', setting])
      const env = { ...moreEnv, ...options.env }
      const output = await program(['git', '-C', path, ...config, ...args], { ...options, env })
      requireRepository(output, path)
      return output
    }
    const text = async (args: readonly string[], options?: GitOptions): Promise<string> => {
      const output = await run(args, options)
      if (output.exitCode !== 0) throw gitFailed(args[0] ?? '', output)
      if (output.truncated) throw new AppError('ERR_TOO_LARGE', `git ${args[0]} printed more output than can be read.`)
      return output.stdout.toString('utf8').replace(/\n$/, '')
    }
    return { run, text }
  }

  return {
    workspace,
    path,
    program,
    ...withSettings([], {}),
    plumbing: withSettings(plumbingSettings, { GIT_CONFIG_NOSYSTEM: '1' }),
  }
}

const onlyStderr = (listener: (chunk: Uint8Array) => void) => (stream: 'stdout' | 'stderr', chunk: Uint8Array) => {
  if (stream === 'stderr') listener(chunk)
}

const wholeOutput = ({ head, tail, omittedBytes }: RetainedOutput): Buffer | undefined =>
  omittedBytes === 0 ? Buffer.concat([head, tail]) : undefined

function errorText(output: RetainedOutput): string {
  const bytes = wholeOutput(output) ?? Buffer.concat([output.head, Buffer.from('\n[...]\n'), output.tail])
  const text = redact(bytes.toString('utf8')).trim()
  return text.length <= STDERR_BYTES_MAX
    ? text
    : `${text.slice(0, STDERR_BYTES_MAX / 2)}\n[...]\n${text.slice(-STDERR_BYTES_MAX / 2)}`
}

function endedFromOutside(name: string, result: ExecResult, timeoutMs: number, stderr: string): AppError {
  const reason =
    result.ended === 'timeout'
      ? `did not finish within ${Math.round(timeoutMs / 1000)} s`
      : 'was killed by a signal, perhaps because the workspace ran out of memory'
  return new AppError('ERR_GIT_FAILED', `${name} ${reason}.`, { signal: result.signal, git_output: stderr })
}

function requireRepository(output: GitOutput, path: string): void {
  if (output.exitCode === 127) {
    throw new AppError('ERR_GIT_FAILED', 'git is not installed in this workspace; use an image that has it.')
  }
  if (output.exitCode !== 128) return
  if (/^fatal: not a git repository/m.test(output.stderr)) {
    throw new AppError('ERR_NOT_A_REPOSITORY', 'path: there is no git repository here or above; git_clone makes one', {
      field: 'path',
      path: redact(path),
    })
  }
  if (/^fatal: cannot change to /m.test(output.stderr)) {
    throw new AppError('ERR_NOT_FOUND', 'path: there is no such directory in the workspace; file_list shows what is', {
      field: 'path',
      path: redact(path),
    })
  }
}

/** `hint` is ours; git's message is included as data, without secrets. */
export function gitFailed(
  command: string,
  output: Pick<GitOutput, 'exitCode' | 'stderr' | 'stdout'>,
  hint?: string,
): AppError {
  const said =
    output.stderr === '' ? redact(output.stdout.subarray(0, STDERR_BYTES_MAX).toString('utf8')) : output.stderr
  const message = `git ${command} failed${hint === undefined ? '' : `: ${hint}`}. What git said is in git_output.`
  return new AppError('ERR_GIT_FAILED', message, { exit_code: output.exitCode, git_output: said })
}
