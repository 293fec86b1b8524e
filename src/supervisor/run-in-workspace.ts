import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { AppError } from '../contract/app-error.ts'
import { systemClock } from '../kernel/clock.ts'
import type { Fifos } from './fifos.ts'
import type { EnterRequest, Launcher } from './launcher.ts'
import type { CommandEnd } from './perl-process.ts'
import { refusedProcess } from './process-limit.ts'
import { signalFamily } from './processes.ts'

/** The part of a command that does not depend on its workspace. */
export type Command = Readonly<{
  argv: readonly string[]
  workdir: string
  env: Readonly<Record<string, string>>
  stdin?: Readable | undefined
  /** Passes the names of the FIFOs for standard input and output to the client. Resolves when the client has opened them. */
  lend?: ((pipes: Readonly<{ stdin: string; stdout: string }>) => Promise<void>) | undefined
  /** A returned promise applies back-pressure: nothing more is read from the stream until it settles. */
  onOutput(stream: 'stdout' | 'stderr', chunk: Buffer): void | Promise<void>
}>
/** The part of a command that is the same for every command of a workspace. */
export type Entry = Pick<
  EnterRequest,
  'namespacePid' | 'capabilities' | 'processesMax' | 'filesMax' | 'seccompFilter' | 'cgroups' | 'processors'
>
export type RunningCommand = Readonly<{
  pid: number
  /** Resolves when the command has ended and its output has arrived. */
  ended: Promise<CommandEnd>
  /** Signals the command and its descendants. */
  signal(number: number): void
}>

/**
 * After a command has ended, its output is complete at end-of-file. But a process that it left in the background may hold the
 * pipe open for ever, so output also counts as complete after this long without data.
 */
const QUIET_MS = 25

type Deps = Readonly<{ launcher: Launcher; fifos: Fifos }>

export async function runInWorkspace(deps: Deps, entry: Entry, command: Command): Promise<RunningCommand> {
  if (command.lend !== undefined) return await runLending(deps, entry, command, command.lend)
  const { launcher, fifos } = deps
  const [stdout, stderr, stdin] = await Promise.all([
    fifos.reader(),
    fifos.reader(),
    command.stdin === undefined ? undefined : fifos.writer(),
  ])
  const drained = Promise.all([
    drain(stdout.stream, (chunk) => command.onOutput('stdout', chunk)),
    drain(stderr.stream, (chunk) => command.onOutput('stderr', chunk)),
  ])
  let entered: Awaited<ReturnType<Launcher['enter']>>
  try {
    entered = await launcher.enter({
      ...entry,
      stdin: stdin?.path ?? '/dev/null',
      stdout: stdout.path,
      stderr: stderr.path,
      workdir: command.workdir,
      argv: command.argv,
      env: command.env,
    })
  } catch (error) {
    stdout.stream.destroy()
    stderr.stream.destroy()
    await Promise.all([stdout.opened(), stderr.opened(), stdin?.abandon()])
    throw refusedWorkdir(error, command.workdir) ?? refusedProgram(error) ?? refusedProcess(error) ?? error
  }
  await Promise.all([stdout.opened(), stderr.opened()])
  if (stdin !== undefined) feed(await stdin.opened(), command.stdin!)
  const ended = entered.ended.then(async (end) => {
    const [out, err] = await drained
    await Promise.all([out.complete(), err.complete()])
    return end
  })
  return { pid: entered.pid, ended, signal: (number) => signalFamily(entered.pid, number) }
}

/** The client reads standard output itself; only standard error arrives here. */
async function runLending(
  { launcher, fifos }: Deps,
  entry: Entry,
  { workdir, argv, env, onOutput }: Command,
  lend: NonNullable<Command['lend']>,
): Promise<RunningCommand> {
  const [stdin, stdout, stderr] = await Promise.all([fifos.lent(), fifos.lent(), fifos.reader()])
  const drained = drain(stderr.stream, (chunk) => onOutput('stderr', chunk))
  const letGo = (): Promise<unknown> => Promise.all([stdin.taken(), stdout.taken()])
  let entered: Awaited<ReturnType<Launcher['enter']>>
  try {
    const paths = { stdin: stdin.path, stdout: stdout.path, stderr: stderr.path }
    entered = await launcher.enter({ ...entry, ...paths, workdir, argv, env })
  } catch (error) {
    stderr.stream.destroy()
    await Promise.all([letGo(), stderr.opened()])
    throw refusedWorkdir(error, workdir) ?? refusedProgram(error) ?? refusedProcess(error) ?? error
  }
  await stderr.opened()
  const lent = lend({ stdin: stdin.name, stdout: stdout.name }).finally(letGo)
  const ended = entered.ended.then(async (end) => {
    await Promise.all([lent, (await drained).complete()])
    return end
  })
  return { pid: entered.pid, ended, signal: (number) => signalFamily(entered.pid, number) }
}

/** Maps the launcher's message about a missing working directory to an error that the caller can act on. */
function refusedWorkdir(error: unknown, workdir: string): AppError | undefined {
  if (!(error instanceof Error) || !error.message.startsWith('workdir ')) return undefined
  return new AppError(
    'ERR_INVALID_INPUT',
    `'workdir' must be a folder in the workspace: ${error.message}. Create it first.`,
    {
      field: 'workdir',
      workdir,
    },
  )
}

/** Maps a missing or unusable program to an error with the exit code that a shell would give. */
function refusedProgram(error: unknown): AppError | undefined {
  if (!(error instanceof Error) || !error.message.startsWith('run ')) return undefined
  const isMissing = error.message.endsWith('No such file or directory')
  const reason = isMissing ? 'not found' : 'cannot be run'
  return new AppError('ERR_COMMAND_FAILED', `The program was ${reason} in the workspace. Name one that exists.`, {
    reason,
    exit_code: isMissing ? 127 : 126,
  })
}

async function drain(
  stream: Socket,
  onChunk: (chunk: Buffer) => void | Promise<void>,
): Promise<{ complete(): Promise<void> }> {
  let lastMs = 0
  let held: Promise<void> | undefined
  let isClosed = false
  const closed = new Promise<void>((resolve) => {
    stream
      .on('end', resolve)
      .on('close', resolve)
      .on('error', () => resolve())
  }).then(() => {
    isClosed = true
    stream.destroy()
  })
  stream.on('data', (chunk: Buffer) => {
    lastMs = systemClock.monotonicMs()
    const taken = onChunk(chunk)
    if (taken === undefined) return
    stream.pause()
    held = taken.then(() => {
      held = undefined
      lastMs = systemClock.monotonicMs()
      stream.resume()
    })
  })
  return {
    async complete() {
      lastMs = systemClock.monotonicMs()
      while (!isClosed) {
        if (held !== undefined) {
          await held
          continue
        }
        const waitMs = lastMs + QUIET_MS - systemClock.monotonicMs()
        if (waitMs <= 0) break
        // A turn that was late runs its timers before it reads, so what has arrived is read first.
        await Promise.race([closed, new Promise((resolve) => setTimeout(() => setImmediate(resolve), waitMs))])
      }
      stream.destroy()
    },
  }
}

/** A command that ends without reading all of its input has not failed. */
function feed(target: Socket, source: Readable): void {
  target.on('error', () => source.destroy())
  source.on('error', () => target.destroy())
  source.pipe(target)
}
