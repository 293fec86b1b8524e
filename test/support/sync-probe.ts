import { execFileSync, spawn } from 'node:child_process'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type CastellanClient, cleanEnvironment, connectClient, launcher } from './castellan-client.ts'

/** What a process told its disk and its client, in order: `synced PATH`, `failed PATH`, `answered`. */
export type Probed = Readonly<{ client: CastellanClient; events(): readonly string[] }>

const source = fileURLToPath(new URL('./sync-probe.c', import.meta.url))
const mcpArguments = (dataDir: string): string[] => ['mcp', '--tools', 'full', '--data-dir', dataDir]

const answers = (program: string, ...args: readonly string[]): boolean => {
  try {
    execFileSync(program, args, { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

export type Witness = 'a preloaded library' | 'strace'

/** Who can watch system calls here. Without any of them the check cannot be made, and that is a failure. */
export function findWitnesses(): readonly Witness[] {
  const found: Witness[] = []
  if (answers('cc', '--version')) found.push('a preloaded library')
  if (answers('strace', '-e', 'trace=none', 'true')) found.push('strace')
  if (found.length === 0) throw new Error('Watching syncs needs a C compiler or strace: apt-get install -y gcc')
  return found
}

export async function startProbed(witness: Witness, dataDir: string, workDir: string): Promise<Probed> {
  return witness === 'strace' ? await startTraced(dataDir, workDir) : await startPreloaded(dataDir, workDir)
}

const failFile = (workDir: string): string => join(workDir, 'fail-syncs')
export const failSyncs = (workDir: string): void => writeFileSync(failFile(workDir), '')
export const passSyncs = (workDir: string): void => rmSync(failFile(workDir))

async function startPreloaded(dataDir: string, workDir: string): Promise<Probed> {
  const library = join(workDir, 'sync-probe.so')
  const log = join(workDir, 'sync-probe.log')
  execFileSync('cc', ['-O1', '-shared', '-fPIC', '-o', library, source, '-ldl'], { stdio: 'pipe' })
  const environment = { LD_PRELOAD: library, SYNC_PROBE_LOG: log, SYNC_PROBE_FAIL: failFile(workDir) }
  const child = spawn(launcher, mcpArguments(dataDir), { stdio: 'pipe', env: cleanEnvironment(environment) })
  const client = await connectClient(child)
  return { client, events: () => linesOf(log).map((line) => line.trim()) }
}

async function startTraced(dataDir: string, workDir: string): Promise<Probed> {
  const log = join(workDir, 'strace.log')
  const options = ['-f', '-y', '-s', '0', '-e', 'trace=fsync,fdatasync,write,writev', '-o', log]
  const args = [...options, launcher, ...mcpArguments(dataDir)]
  const client = await connectClient(spawn('strace', args, { stdio: 'pipe', env: cleanEnvironment() }))
  return { client, events: () => linesOf(log).flatMap(tracedEvent) }
}

const linesOf = (path: string): string[] =>
  existsSync(path)
    ? readFileSync(path, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
    : []

/** strace writes a line when a call returns; one that another thread interrupts comes in two, and the second counts. */
function tracedEvent(line: string): string[] {
  const sync = /f(?:data)?sync\(\d+<([^>]+)>\)\s+= (-?\d+)/.exec(line)
  if (sync !== null) return [`${sync[2] === '0' ? 'synced' : 'failed'} ${sync[1]}`]
  return /\bwritev?\(1<[^>]*>/.test(line) ? ['answered'] : []
}
