import { spawn } from 'node:child_process'
import { createReadStream } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { GitRunner, WorkspaceReference } from '../../src/domains/git/ports.ts'
import type { ExecRequest, ExecResult, RetainedOutput } from '../../src/domains/workspaces/backend.ts'

/**
 * The other side of git's port, with real programs: a workspace is a temporary directory, and `/workspace` in arguments
 * means the folder of that name in it. Nothing of the machine's own git settings is seen.
 */
export type LocalGit = Readonly<{
  runner: GitRunner
  /** Every request, with the workspace it went to. */
  requests: Readonly<{ workspaceId: string; request: ExecRequest }>[]
  /** The folder that the workspace sees as `/workspace`; it is made when asked for first. */
  folder(workspaceId: string): Promise<string>
  /** Git in that folder, as a user of the workspace would run it; answers standard output. */
  git(workspaceId: string, ...args: string[]): Promise<string>
  remove(): Promise<void>
}>

const plainEnvironment = (home: string): Record<string, string> => ({
  PATH: process.env['PATH'] ?? '',
  HOME: home,
  GIT_CONFIG_NOSYSTEM: '1',
  TZ: 'UTC',
})

export async function createLocalGit(): Promise<LocalGit> {
  const root = await mkdtemp(join(tmpdir(), 'castellan-git-'))
  const requests: { workspaceId: string; request: ExecRequest }[] = []
  const homeOf = (workspaceId: string): string => join(root, workspaceId)
  const toLocal = (workspaceId: string, argument: string): string =>
    /^\/workspace(?=\/|$)/.test(argument) ? join(homeOf(workspaceId), argument) : argument

  async function folder(workspaceId: string): Promise<string> {
    const path = join(homeOf(workspaceId), 'workspace')
    await mkdir(path, { recursive: true })
    return path
  }

  async function run({ id: workspaceId }: WorkspaceReference, request: ExecRequest): Promise<ExecResult> {
    requests.push({ workspaceId, request })
    await folder(workspaceId)
    const argv = request.argv.map((argument) => toLocal(workspaceId, argument))
    return runLocally({ ...request, argv }, homeOf(workspaceId))
  }

  async function git(workspaceId: string, ...args: string[]): Promise<string> {
    const result = await runLocally(
      {
        argv: ['git', '-C', await folder(workspaceId), ...args],
        env: { GIT_EDITOR: ':' },
        timeoutMs: 60_000,
        outputBytesMax: 64 * 1024 * 1024,
        signal: new AbortController().signal,
      },
      homeOf(workspaceId),
    )
    if (result.exitCode === 0) return Buffer.from(result.stdout.head).toString('utf8').replace(/\n$/, '')
    throw new Error(`git ${args.join(' ')}: ${Buffer.from(result.stderr.head).toString('utf8')}`)
  }

  return {
    runner: { run, readFile: async ({ id }, path) => createReadStream(toLocal(id, path)) },
    requests,
    folder,
    git,
    remove: () => rm(root, { recursive: true, force: true }),
  }
}

async function runLocally(request: ExecRequest, home: string): Promise<ExecResult> {
  const [program = '', ...args] = request.argv
  const child = spawn(program, args, { cwd: home, env: { ...plainEnvironment(home), ...request.env }, detached: true })
  let ended: ExecResult['ended'] = 'exit'
  const end = (how: ExecResult['ended']) => (): void => {
    ended = how
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
  }
  const cancel = end('cancelled')
  const timer = setTimeout(end('timeout'), request.timeoutMs)
  request.signal.addEventListener('abort', cancel)
  const output = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].on('data', (chunk: Buffer) => {
      output[name].push(chunk)
      request.onOutput?.(name, chunk)
    })
  }
  const closed = new Promise<{ exitCode: number | null; signal: string | null }>((resolve) => {
    child.once('error', () => resolve({ exitCode: 127, signal: null }))
    child.once('close', (exitCode, signal) => resolve({ exitCode, signal }))
  })
  if (request.signal.aborted) cancel()
  const { stdin = '' } = request
  // A program may end before it has read everything; its exit code says what happened.
  const fed = pipeline(stdin instanceof Readable ? stdin : Readable.from([Buffer.from(stdin)]), child.stdin)
  const [result] = await Promise.all([closed, fed.catch(() => undefined)])
  clearTimeout(timer)
  request.signal.removeEventListener('abort', cancel)
  const keep = (chunks: Buffer[]): RetainedOutput => retainedOutput(Buffer.concat(chunks), request.outputBytesMax)
  return { ...result, stdout: keep(output.stdout), stderr: keep(output.stderr), durationMs: 0, ended, limitsHit: [] }
}

function retainedOutput(all: Buffer, bytesMax: number): RetainedOutput {
  if (all.length <= bytesMax) return { head: all, tail: Buffer.alloc(0), totalBytes: all.length, omittedBytes: 0 }
  const half = Math.floor(bytesMax / 2)
  return {
    head: all.subarray(0, half),
    tail: all.subarray(all.length - half),
    totalBytes: all.length,
    omittedBytes: all.length - 2 * half,
  }
}
