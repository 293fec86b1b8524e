import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type CastellanClient, launcher, startClient } from '../support/castellan-client.ts'
import { endSupervisor } from '../support/end-supervisor.ts'
import { homeEnvironment, runCastellan } from '../support/run-castellan.ts'

/** Ctrl-C during `castellan call`: the call is cancelled as a client of the protocol cancels it, and what is known is said. */
let home = ''
let dataDir = ''

beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'castellan-cancel-'))
  dataDir = join(home, 'state')
  expect((await call('workspace_create', 'name=w')).code).toBe(0)
})
afterAll(async () => {
  await endSupervisor(dataDir)
  rmSync(home, { recursive: true, force: true })
})

const call = (...args: string[]) => runCastellan(['call', ...args, '--data-dir', dataDir], { home })

type Started = Readonly<{
  child: ChildProcess
  stdout: Promise<string>
  stderr: Promise<string>
  code: Promise<unknown>
}>
function start(stdin: 'ignore' | 'pipe', ...args: string[]): Started {
  const child = spawn(launcher, ['call', ...args, '--data-dir', dataDir], {
    cwd: home,
    env: homeEnvironment(home),
    stdio: [stdin, 'pipe', 'pipe'],
  })
  const code = once(child, 'close').then(([exit, signal]) => exit ?? signal)
  return { child, stdout: text(child.stdout!), stderr: text(child.stderr!), code }
}

/** Commands that run anywhere on this machine, by a word of their own. */
const running = (word: string): string[] =>
  readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'latin1').startsWith(`sleep\0${word}`)
    } catch {
      return false
    }
  })
const until = (check: () => boolean) => vi.waitFor(() => expect(check()).toBe(true), { timeout: 180_000, interval: 10 })

/** One bit for each signal that the process handles itself, that of signal 1 lowest. */
const caughtSignals = (pid: number): bigint =>
  BigInt(`0x${/^SigCgt:\s*(\w+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]}`)

let wordCount = 0
/** A time to sleep that nobody else sleeps. */
const newWord = (): string => `${7_000 + (process.pid % 1_000)}.${++wordCount}`

describe.each([
  ['that owns the state', false],
  ['beside a server', true],
] as const)('a call %s', (_, hasServer) => {
  let server: CastellanClient | undefined
  beforeAll(async () => {
    if (hasServer) server = await startClient({ dataDir })
  })
  afterAll(async () => {
    server?.endInput()
    await server?.ended
  })

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('is cancelled by %s: its group dies, what was printed is shown', async (signal, code) => {
    const word = newWord()
    const command = `echo begun; (sleep ${word} & sleep ${word}; wait)`
    const started = start('ignore', 'exec', 'workspace_id=w', `command=${command}`)
    await until(() => running(word).length === 2)
    started.child.kill(signal)
    expect(await started.code).toBe(code)
    expect(await started.stdout).toBe('')
    expect(await started.stderr).toBe('error: The call was cancelled. (ERR_CANCELLED)\nstdout_tail:\n  begun\n')
    await until(() => running(word).length === 0)
    if (hasServer) expect(await server!.call('server_ping')).toMatchObject({ kind: 'done' })
  })

  it('that makes something leaves nothing half done', async () => {
    const word = newWord()
    const setup = JSON.stringify({ name: 'golden', setup_commands: [`sleep ${word}`] })
    const started = start('ignore', 'workspace_prepare', '--args', setup, '--json')
    await until(() => running(word).length === 1)
    started.child.kill('SIGINT')
    expect(await started.code).toBe(130)
    expect(JSON.parse(await started.stderr)).toMatchObject({ error: { code: 'ERR_CANCELLED' } })
    const { workspaces } = JSON.parse((await call('workspace_list', '--json')).stdout) as { workspaces: object[] }
    expect(workspaces).toMatchObject([{ name: 'w', state: 'running' }])
  })
})

it('a call ends at once at the second signal, whichever it is, though the server does not answer', async () => {
  const server = await startClient({ dataDir })
  const word = newWord()
  const started = start('ignore', 'exec', 'workspace_id=w', `command=sleep ${word}`)
  await until(() => running(word).length === 1)
  server.kill('SIGSTOP')
  started.child.kill('SIGINT')
  started.child.kill('SIGTERM')
  expect([130, 143]).toContain(await started.code)
  server.kill('SIGCONT')
  server.endInput()
  await server.ended
  await until(() => running(word).length === 0)
})

it('a call whose arguments have not come yet ends at the first signal', async () => {
  const started = start('pipe', 'server_ping', '--args', '-')
  started.child.stdin!.on('error', () => {}).write('{')
  // Node itself handles the others from its first moment; SIGHUP is the last that we do.
  await until(() => (caughtSignals(started.child.pid!) & 1n) !== 0n)
  started.child.kill('SIGTERM')
  expect(await started.code).toBe(143)
  expect(await started.stderr).toContain('ERR_CANCELLED')
})
