import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { Readable } from 'node:stream'
import { startProgramHere } from './castellan-here.ts'
import { endSupervisor } from './end-supervisor.ts'
import { newServerDir, type RealServer, type ServerOptions, serveArguments } from './real-server.ts'

export type ServerHere = Pick<RealServer, 'url' | 'dataDir' | 'stop'>

/**
 * `castellan serve`, run in this process: the command itself with its configuration, its state and its port. For what a
 * server does, where the start and the end of a process are not what is tried.
 */
export async function startServerHere(options: ServerOptions = {}): Promise<ServerHere> {
  const dataDir = options.dataDir ?? (await newServerDir(options))
  const program = startProgramHere(serveArguments(dataDir, options), {
    env: { ...process.env, CASTELLAN_LOG_LEVEL: 'error', ...options.env },
    environment: options.env,
    workingDirectory: options.workingDirectory ?? dataDir,
    stdin: Readable.from([]),
  })
  let said = ''
  program.stderr.on('data', (piece: Buffer) => {
    said += piece.toString('utf8')
  })
  const failed = program.ended.then((code): never => {
    throw new Error(`castellan serve ended with ${code} before it said where it listens: ${said}`)
  })
  failed.catch(() => {})
  const printed = once(program.stdout, 'data').then(([chunk]) => JSON.parse(String(chunk)) as { url: string })
  const { url } = await Promise.race([printed, failed])
  return {
    url,
    dataDir,
    async stop() {
      program.signal('SIGTERM')
      await program.ended
      await endSupervisor(dataDir)
      if (options.dataDir === undefined) rmSync(dataDir, { recursive: true, force: true })
    },
  }
}
