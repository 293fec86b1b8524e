import { rmSync } from 'node:fs'
import { Readable, Writable } from 'node:stream'
import { command } from '../../src/app/commands/serve.ts'
import { parseCommand } from '../../src/cli/command.ts'
import { createTerminal } from '../../src/cli/terminal.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import { endSupervisor } from './end-supervisor.ts'
import { castellan, newDataDir, type RealServer, writeSkills } from './real-server.ts'

export type ServerHere = Pick<RealServer, 'url' | 'dataDir' | 'stop'>

/**
 * `castellan serve`, run in this process: the command itself with its configuration, its state and its port. For what a
 * setting changes, where the start and the end of a process are not what is tried.
 */
export async function startServerHere(
  options: { env?: Record<string, string>; dataDir?: string } = {},
): Promise<ServerHere> {
  const dataDir = options.dataDir ?? newDataDir()
  if (options.dataDir === undefined) writeSkills(dataDir)
  const asked = Promise.withResolvers<NodeJS.Signals>()
  const printed = Promise.withResolvers<{ url: string }>()
  const discard = { write: () => true }
  const args = ['--port', '0', '--json', '--data-dir', dataDir]
  const running = command.run({
    spec: command.spec,
    parsed: parseCommand(command.spec, args),
    terminal: createTerminal({
      out: { write: (text: string) => printed.resolve(JSON.parse(text) as { url: string }) },
      error: discard,
      clock: systemClock,
      noColor: true,
    }),
    json: true,
    env: { ...process.env, CASTELLAN_LOG_LEVEL: 'error', ...options.env },
    workingDirectory: dataDir,
    version: '0.0.0-test',
    program: castellan,
    stdin: Readable.from([]),
    stdout: new Writable({ write: (_chunk, _encoding, done) => done() }),
    ended: asked.promise,
  })
  const failed = running.then(
    (code): never => {
      throw new Error(`castellan serve ended with ${code} before it said where it listens`)
    },
    (error: Error): never => {
      throw new Error(`castellan serve ended: ${error.message}`)
    },
  )
  failed.catch(() => {})
  const { url } = await Promise.race([printed.promise, failed])
  return {
    url,
    dataDir,
    async stop() {
      asked.resolve('SIGTERM')
      await running
      await endSupervisor(dataDir)
      if (options.dataDir === undefined) rmSync(dataDir, { recursive: true, force: true })
    },
  }
}
