import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { cleanEnvironment, launcher } from './castellan-client.ts'
import type { Finished } from './run-node.ts'

export type RunOptions = Readonly<{
  environment?: Readonly<Record<string, string>>
  /** What is piped into the program. */
  input?: string
  /** Told of each piece of what the program says beside its answer. */
  onStderr?: (piece: string) => void
  /** A home without anybody's configuration, and the directory the command is given in. */
  home: string
  uid?: number | undefined
  gid?: number | undefined
}>

const RUN_TIMEOUT_MS = 180_000

/** Runs `bin/castellan` to its end, as a person without any configuration would. */
export async function runCastellan(args: readonly string[], options: RunOptions): Promise<Finished> {
  const child = spawn(launcher, args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    cwd: options.home,
    ...(options.uid === undefined ? {} : { uid: options.uid, gid: options.gid }),
    timeout: RUN_TIMEOUT_MS,
    env: homeEnvironment(options.home, options.environment),
  })
  child.stdin.on('error', () => {})
  child.stdin.end(options.input ?? '')
  const { onStderr } = options
  if (onStderr !== undefined) child.stderr.setEncoding('utf8').on('data', onStderr)
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  return { code: code as number | null, stdout, stderr }
}

/** The compiled code that is kept between starts is the only thing taken from the real home. */
export function homeEnvironment(home: string, extra: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')
  const { XDG_DATA_HOME: _, XDG_CONFIG_HOME: __, ...rest } = cleanEnvironment()
  return { ...rest, HOME: home, XDG_CACHE_HOME: cache, ...extra }
}
