import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { Readable, type Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AppError } from '../../contract/app-error.ts'
import { SYSTEM_PATH, type UserNamespace } from '../user-namespace.ts'

/**
 * The user namespace in which images are built, so that their files have the right owners. A `UserNamespace` is one; the
 * supervisor is inside it already, so its `enterArgv` is empty.
 */
export type BuildEnvironment = Pick<UserNamespace, 'idCount' | 'limitation' | 'owner' | 'enterArgv'>

/** The part that running a program needs. */
export type Entrance = Pick<BuildEnvironment, 'enterArgv'>

type BuildTask = Readonly<{
  argv: readonly string[]
  /** The name for messages, if it is not the first argument. */
  program?: string
  /** The working directory. Root of the namespace may lack access to its parents, so programs use relative names. */
  directory: string
  signal: AbortSignal
  environment?: Readonly<Record<string, string>>
  input?: AsyncIterable<Uint8Array>
  /** Called for each line of output. */
  onLine?(line: string): void
  /** Runs in its own mount and pid namespaces, which end with it. */
  ownMounts?: boolean
}>

const OUTPUT_CHARS_MAX = 64 * 1024
const QUOTED_CHARS_MAX = 300

/** Runs a program as root of the namespace and returns its output. It is killed if this process dies. */
export async function runInBuildEnvironment(buildEnvironment: Entrance, task: BuildTask): Promise<string> {
  const isolation = task.ownMounts === true ? ['unshare', '--mount', '--pid', '--fork', '--kill-child', '--'] : []
  const child = startProgram([...buildEnvironment.enterArgv(), ...ENDS_WITH_US, ...isolation, ...task.argv], task)
  let output = ''
  createInterface({ input: child.stdout }).on('line', (line) => {
    output = `${output}${line}\n`.slice(-OUTPUT_CHARS_MAX)
    task.onLine?.(line)
  })
  const ended = waitForEnd(child, task.program ?? task.argv[0]!, task.signal, () => output)
  // If the program exits before it has read its input, its own message says why.
  const fed = pipeline(task.input === undefined ? Readable.from([]) : Readable.from(task.input), child.stdin)
  const [fedResult, endedResult] = await Promise.allSettled([fed, ended])
  if (task.signal.aborted) throw cancelled()
  const feedProblem = fedResult.status === 'rejected' ? (fedResult.reason as NodeJS.ErrnoException) : undefined
  if (feedProblem instanceof AppError) throw feedProblem
  if (endedResult.status === 'rejected') throw endedResult.reason
  if (feedProblem !== undefined && feedProblem.code !== 'EPIPE') throw feedProblem
  return output
}

/** Starts a program whose output is an archive, inside the namespace or outside. */
export function startProducer(
  prefix: readonly string[],
  task: Pick<BuildTask, 'argv' | 'directory' | 'signal'>,
): Readonly<{ output: AsyncIterable<Uint8Array>; ended: Promise<void> }> {
  const child = startProgram([...prefix, ...ENDS_WITH_US, ...task.argv], task)
  child.stdin.end()
  const ended = waitForEnd(child, task.argv[0]!, task.signal, () => '')
  ended.catch(() => {})
  return { output: child.stdout, ended }
}

/** Comes after the change of user, which would clear the setting. */
const ENDS_WITH_US = ['setpriv', '--pdeathsig', 'KILL', '--'] as const

type Child = ChildProcessByStdio<Writable, Readable, Readable>

/** In a session of its own: Ctrl-C reaches only this process, which then ends the program. */
function startProgram(argv: readonly string[], task: Pick<BuildTask, 'directory' | 'environment' | 'signal'>): Child {
  if (task.signal.aborted) throw cancelled()
  return spawn(argv[0]!, argv.slice(1), {
    cwd: task.directory,
    env: { LANG: 'C.UTF-8', HOME: '/', ...task.environment, PATH: SYSTEM_PATH },
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  })
}

async function waitForEnd(child: Child, program: string, signal: AbortSignal, output: () => string): Promise<void> {
  let errors = ''
  child.stderr.on('data', (chunk: Buffer) => {
    errors = `${errors}${chunk.toString()}`.slice(-OUTPUT_CHARS_MAX)
  })
  const kill = (): void => void child.kill('SIGKILL')
  signal.addEventListener('abort', kill, { once: true })
  try {
    const [exitCode, endSignal] = (await once(child, 'close')) as [number | null, string | null]
    if (exitCode === 0) return
    throw stepFailed(program, exitCode ?? endSignal, errors.trim() === '' ? output() : errors)
  } catch (cause) {
    if (cause instanceof AppError) throw cause
    throw new AppError(
      'ERR_CAPABILITY_MISSING',
      `${program} could not be started. Install util-linux and ${program}.`,
      {
        program,
      },
    )
  } finally {
    signal.removeEventListener('abort', kill)
  }
}

/** The program's output is marked as text of another program. */
function stepFailed(program: string, exit: number | string | null, output: string): AppError {
  const lines = output.split('\n').filter((line) => line.trim() !== '')
  const telling = lines.findLast((line) => line.startsWith('E: ')) ?? lines[0]
  const said = telling === undefined ? 'It printed nothing.' : `It printed: "${quoted(telling)}"`
  return new AppError('ERR_INIT_FAILED', `${program} failed (${exit}). ${said}`, {
    program,
    exit,
    output: lines.slice(-20).map(quoted),
  })
}

const quoted = (line: string): string =>
  line
    .replace(/[^\x20-\x7e]/g, '?')
    .replaceAll('"', "'")
    .slice(0, QUOTED_CHARS_MAX)

const cancelled = (): AppError =>
  new AppError('ERR_CANCELLED', 'The build was cancelled. Nothing of the image is left.')
