import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { AppError } from '../contract/app-error.ts'
import { systemClock } from '../kernel/clock.ts'
import type { Fifos } from './fifos.ts'
import type { EnterRequest, Launcher } from './launcher.ts'
import type { CommandEnd } from './perl-process.ts'
import { signalFamily } from './processes.ts'

/** The parts of a command that do not depend on the workspace it runs in. */
export type Command = Readonly<{
  argv: readonly string[]
  workdir: string
  env: Readonly<Record<string, string>>
  stdin?: Readable | undefined
  /** Gives the client the other ends of its standard input and output, by the names of the pipes; resolves when it has them. */
  lend?: ((pipes: Readonly<{ stdin: string; stdout: string }>) => Promise<void>) | undefined
  /** A promise holds the stream until it settles, and with it, in time, the command. */
  onOutput(stream: 'stdout' | 'stderr', chunk: Buffer): void | Promise<void>
}>
/** Where and how it runs; the same for every command of a workspace. */
export type Entry = Pick<
  EnterRequest,
  'namespacePid' | 'capabilities' | 'processesMax' | 'filesMax' | 'seccompFilter' | 'cgroups' | 'processors'
>
export type RunningCommand = Readonly<{
  pid: number
  /** Resolves when the command has ended and what it printed has arrived. */
  ended: Promise<CommandEnd>
  /** To the command and everything it started. */
  signal(number: number): void
}>

/**
 * After its end, a command's output is complete when the pipe is; but a process that it left behind may hold the pipe
 * for ever. Then output counts as complete once this long nothing came.
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
    throw refusedWorkdir(error, command.workdir) ?? refusedProgram(error) ?? error
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

/** Only what it says on its standard error comes here. */
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
    throw refusedWorkdir(error, workdir) ?? refusedProgram(error) ?? error
  }
  await stderr.opened()
  const lent = lend({ stdin: stdin.name, stdout: stdout.name }).finally(letGo)
  const ended = entered.ended.then(async (end) => {
    await Promise.all([lent, (await drained).complete()])
    return end
  })
  return { pid: entered.pid, ended, signal: (number) => signalFamily(entered.pid, number) }
}

/** The launcher says what it could not do; a folder that is not there is the caller's to mend. */
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

/** A program that is not there, or cannot be one, with the exit code that a shell gives for it. */
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
        await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, waitMs))])
      }
      stream.destroy()
    },
  }
}

/** A command that ends without reading all of its input is no failure. */
function feed(target: Socket, source: Readable): void {
  target.on('error', () => source.destroy())
  source.on('error', () => target.destroy())
  source.pipe(target)
}
