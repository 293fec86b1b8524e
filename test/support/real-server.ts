import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { watchedEnvironment } from './answer-check.ts'
import { writeEmptyStore } from './empty-store.ts'
import { endSupervisor } from './end-supervisor.ts'
import { stopServer } from './run-node.ts'

export const castellan = resolve('bin/castellan')

export type RealServer = Readonly<{
  url: string
  pid: number
  dataDir: string
  /** The exit code, or the signal that ended it. */
  ended: Promise<number | NodeJS.Signals>
  kill(signal: NodeJS.Signals): void
  /** Ends it in order, and its workspaces with it; removes the data directory, unless it was given. */
  stop(): Promise<void>
}>

export function newDataDir(): string {
  return mkdtempSync(join(tmpdir(), 'castellan-e2e-'))
}

/** With two skills, and with a store that is migrated already, unless the store is elsewhere. */
export async function newServerDir({ env }: Pick<ServerOptions, 'env'>): Promise<string> {
  const dataDir = newDataDir()
  writeSkills(dataDir)
  if (env?.['CASTELLAN_DATABASE_URL'] === undefined) await writeEmptyStore(join(dataDir, 'castellan.db'))
  return dataDir
}

export type ServerOptions = Readonly<{
  env?: Readonly<Record<string, string>>
  args?: readonly string[]
  dataDir?: string
  /** One that is free, unless it is given. */
  port?: number
  /** The data directory, unless another is given. */
  workingDirectory?: string
}>

export const serveArguments = (dataDir: string, { args = [], port = 0 }: ServerOptions): readonly string[] => [
  ...['serve', '--port', String(port), '--json', '--data-dir', dataDir],
  ...args,
]

/** The program as people start it, on a free port, and on a data directory of its own if none is given. */
export async function startRealServer(options: ServerOptions = {}): Promise<RealServer> {
  const dataDir = options.dataDir ?? (await newServerDir(options))
  const child = spawn(castellan, serveArguments(dataDir, options), {
    stdio: ['ignore', 'pipe', 'inherit'],
    cwd: options.workingDirectory ?? dataDir,
    env: { ...process.env, ...watchedEnvironment(), CASTELLAN_LOG_LEVEL: 'warn', ...options.env },
  })
  const ended = once(child, 'exit').then(([code, signal]) => (signal ?? code) as number | NodeJS.Signals)
  const failed = ended.then((code): never => {
    throw new Error(`castellan serve ended with ${code} before it said where it listens`)
  })
  failed.catch(() => {})
  const printed = once(child.stdout, 'data').then(([chunk]) => JSON.parse(String(chunk)) as { url: string })
  const { url } = await Promise.race([printed, failed])
  return {
    url,
    pid: child.pid!,
    dataDir,
    ended,
    kill: (signal) => void child.kill(signal),
    async stop() {
      await stopServer(child)
      await endSupervisor(dataDir)
      if (options.dataDir === undefined) rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

/** Two skills, one with a folder below it and a binary file. */
export function writeSkills(root: string): void {
  const files: Record<string, string | Uint8Array> = {
    'review-notes/SKILL.md': skillText('review-notes', 'How to review notes.'),
    'review-notes/references/guide.md': '# Guide\n',
    'review-notes/assets/dot.png': Uint8Array.from([0x89, 0x50, 0x4e, 0x47, 0xff, 0xfe]),
    'write-summary/SKILL.md': skillText('write-summary', 'How to write a summary.'),
  }
  for (const [path, content] of Object.entries(files)) {
    const target = join(root, '.agents', 'skills', path)
    mkdirSync(dirname(target), { recursive: true })
    writeFileSync(target, content)
  }
}

const skillText = (name: string, description: string): string =>
  `---\nname: ${name}\ndescription: ${description}\n---\n\n# ${name}\n\nRead references/guide.md first.\n`
