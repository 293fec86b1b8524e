import { once } from 'node:events'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setImmediate } from 'node:timers/promises'
import packageFile from '../../package.json' with { type: 'json' }
import { runProgram } from '../../src/app/commands/run-program.ts'
import { createTerminal } from '../../src/cli/terminal.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import {
  type CastellanClient,
  cleanEnvironment,
  connectPeer,
  type LaunchOptions,
  launcher,
} from './castellan-client.ts'
import { CHEAP_PASSWORDS } from './cheap-passwords.ts'
import { homeEnvironment, type RunOptions } from './run-castellan.ts'
import type { Finished } from './run-node.ts'

/**
 * The program in this process: its arguments, its configuration, its state, its exit code and all that it prints. Its passwords cost
 * less to hash than those of a process. For what a
 * command does, where the start and the end of a process are not what is tried: most of what a process takes is to load
 * the program once more.
 */
export type ProgramHere = Readonly<{
  stdin: Readable
  stdout: PassThrough
  stderr: PassThrough
  /** The exit code; never rejects. */
  ended: Promise<number>
  /** As a signal from outside: the program is asked to end. */
  signal(signal: NodeJS.Signals): void
}>

export type HereOptions = Readonly<{
  env: NodeJS.ProcessEnv
  /** Of `env`, what the test itself gave. */
  environment?: Readonly<Record<string, string>> | undefined
  workingDirectory: string
  stdin: Readable
  /** How the program was called; by default as the launcher. */
  program?: string
}>

export function startProgramHere(args: readonly string[], options: HereOptions): ProgramHere {
  const { stdin, env, workingDirectory } = options
  const ofProcess = Object.keys(options.environment ?? {}).find((name) => /^(NODE_|CASTELLAN_FAULT$)/.test(name))
  if (ofProcess !== undefined) throw new Error(`${ofProcess} is for a process: start one`)
  const [stdout, stderr] = [new PassThrough(), new PassThrough()]
  const asked = Promise.withResolvers<NodeJS.Signals>()
  const giveBack = lendVariables(options.environment ?? {})
  const ended = runProgram(args, {
    terminal: createTerminal({ out: stdout, error: stderr, clock: systemClock, noColor: true }),
    env,
    workingDirectory,
    version: packageFile.version,
    program: options.program ?? launcher,
    stdin,
    stdout,
    ended: () => asked.promise,
    passwordCost: CHEAP_PASSWORDS,
  }).finally(() => {
    giveBack()
    stdout.end()
    stderr.end()
  })
  return { stdin, stdout, stderr, ended, signal: asked.resolve }
}

const lent = new Map<string, { count: number; before: string | undefined }>()

/** What a configuration names by `env:NAME` is read from the process itself, and is there while a process runs. */
function lendVariables(environment: Readonly<Record<string, string>>): () => void {
  const given = Object.entries(environment).filter(([name]) => !/^(CASTELLAN_|XDG_|HOME$)/.test(name))
  for (const [name, value] of given) {
    const loan = lent.get(name)
    if (loan !== undefined && process.env[name] !== value) throw new Error(`${name} has another value here now`)
    lent.set(name, { count: (loan?.count ?? 0) + 1, before: loan === undefined ? process.env[name] : loan.before })
    process.env[name] = value
  }
  return () => {
    for (const [name] of given) {
      const { count, before } = lent.get(name)!
      if (count > 1) lent.set(name, { count: count - 1, before })
      else {
        lent.delete(name)
        if (before === undefined) delete process.env[name]
        else process.env[name] = before
      }
    }
  }
}

/** `runCastellan` without a process. */
export async function runCastellanHere(
  args: readonly string[],
  { home, environment, input, onStderr }: Omit<RunOptions, 'uid' | 'gid'>,
): Promise<Finished> {
  const stdin = Readable.from(input === undefined || input === '' ? [] : [Buffer.from(input)])
  const env = homeEnvironment(home, environment)
  const program = startProgramHere(args, { env, environment, workingDirectory: home, stdin })
  if (onStderr !== undefined) program.stderr.on('data', (piece: Buffer) => onStderr(piece.toString('utf8')))
  const [stdout, stderr, code] = await Promise.all([text(program.stdout), text(program.stderr), program.ended])
  return { code, stdout, stderr }
}

/** `startClient` without a process: it can be asked to end, but not be killed. */
export async function startClientHere({ dataDir, args = [], environment }: LaunchOptions): Promise<CastellanClient> {
  const stdin = new PassThrough()
  const env = cleanEnvironment(environment)
  const all = ['mcp', '--tools', 'full', '--data-dir', dataDir, ...args]
  const program = startProgramHere(all, { env, environment, workingDirectory: process.cwd(), stdin })
  const closed = Promise.all([program.ended, once(program.stdout, 'close'), once(program.stderr, 'close')])
  const client = await connectPeer({
    stdin,
    stdout: program.stdout,
    stderr: program.stderr,
    pid: process.pid,
    quickest: 'SIGTERM',
    ended: closed.then(([code]) => code),
    kill(signal) {
      if (signal === 'SIGKILL') throw new Error('a program that runs in the process of its test cannot be killed')
      program.signal(signal)
    },
  })
  // Asking again and again would leave no turn to sockets and timers: a call need not come to any of them.
  const call: CastellanClient['call'] = async (tool, toolArguments) => {
    await setImmediate()
    return await client.call(tool, toolArguments)
  }
  return { ...client, call }
}
