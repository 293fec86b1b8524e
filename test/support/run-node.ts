import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'

export type Finished = Readonly<{ code: number | null; stdout: string; stderr: string }>

/** Runs a program with this Node to its end. */
export async function runNode(args: readonly string[], timeoutMs: number): Promise<Finished> {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'], timeout: timeoutMs })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (chunk: Buffer) => {
    stdout += chunk.toString()
  })
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString()
  })
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stdout, stderr }
}

/** Starts a server that prints its address as its first line. */
export async function startServer(
  command: string,
  args: readonly string[],
): Promise<{ url: string; child: ChildProcess }> {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const printed = once(child.stdout, 'data').then(([chunk]) => String(chunk).trim())
  const failed = once(child, 'exit').then(([code]): never => {
    throw new Error(`The server ended with ${String(code)} before it printed its address`)
  })
  failed.catch(() => {})
  return { url: await Promise.race([printed, failed]), child }
}

export async function stopServer(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  await ended
}
