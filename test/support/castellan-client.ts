import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { watchedEnvironment } from './answer-check.ts'

export const launcher = fileURLToPath(new URL('../../bin/castellan', import.meta.url))

/** What came of a call: its answer, its failure, or nothing because the process ended. */
export type Outcome =
  | Readonly<{ kind: 'done'; answer: Record<string, unknown>; warnings?: readonly string[] }>
  | Readonly<{ kind: 'failed'; code: string; isUnknown: boolean; message: string }>
  | Readonly<{ kind: 'gone' }>

/** A client with a `castellan mcp` of its own, as an editor has. */
export type CastellanClient = Readonly<{
  pid: number
  call(tool: string, args?: object): Promise<Outcome>
  stderr(): string
  kill(signal: NodeJS.Signals): void
  /** Ends it as quickly as it can be ended; resolves when it is gone. */
  leave(): Promise<void>
  endInput(): void
  /** The signal or the exit code. */
  ended: Promise<NodeJS.Signals | number | null>
}>

export type LaunchOptions = Readonly<{
  dataDir: string
  args?: readonly string[]
  environment?: Readonly<Record<string, string>>
}>

/** The configuration of the user who runs the tests must not reach the program under test. */
export function cleanEnvironment(extra: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(CASTELLAN_|VITEST|NODE_OPTIONS)/.test(name))
  return { ...Object.fromEntries(inherited), ...watchedEnvironment(), ...extra }
}

/** Starts a process and shakes hands; the process may be gone at any time, then `call` says so. */
export async function startClient({ dataDir, args = [], environment }: LaunchOptions): Promise<CastellanClient> {
  const all = ['mcp', '--tools', 'full', '--data-dir', dataDir, ...args]
  return await connectClient(
    spawn(launcher, all, { stdio: ['pipe', 'pipe', 'pipe'], env: cleanEnvironment(environment) }),
  )
}

export async function connectClient(child: ChildProcess): Promise<CastellanClient> {
  const ended = once(child, 'close').then(([code, signal]) => (signal ?? code) as NodeJS.Signals | number | null)
  const [stdin, stdout, stderr] = [child.stdin!, child.stdout!, child.stderr!]
  const kill = (signal: NodeJS.Signals): void => void child.kill(signal)
  return await connectPeer({ stdin, stdout, stderr, pid: child.pid!, ended, kill, quickest: 'SIGKILL' })
}

/** The answer of a call that must succeed. */
export async function ask<T = Record<string, unknown>>(
  client: CastellanClient,
  tool: string,
  args: object = {},
): Promise<T> {
  const outcome = await client.call(tool, args)
  if (outcome.kind !== 'done') throw new Error(`${tool}: ${JSON.stringify(outcome)} ${client.stderr()}`)
  return outcome.answer as T
}

/** A program that serves one client by its three streams, wherever it runs. */
export type StdioPeer = Pick<CastellanClient, 'pid' | 'kill' | 'ended'> &
  Readonly<{
    stdin: Writable
    stdout: Readable
    stderr: Readable
    /** What ends it at once. */
    quickest: NodeJS.Signals
  }>

export async function connectPeer({ stdin, stdout, stderr, ...peer }: StdioPeer): Promise<CastellanClient> {
  const waiting = new Map<number, (message: Message | undefined) => void>()
  const errors: string[] = []
  let lastId = 0
  let isRevoked = false
  stdin.on('error', () => {})
  stderr.on('data', (chunk: Buffer) => errors.push(chunk.toString('utf8')))
  createInterface({ input: stdout }).on('line', (line) => {
    const message = JSON.parse(line) as Message
    waiting.get(message.id)?.(message)
    waiting.delete(message.id)
  })
  const ended = peer.ended.then((end) => {
    isRevoked = true
    for (const resolve of waiting.values()) resolve(undefined)
    waiting.clear()
    return end
  })
  const send = (message: object): void => void stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  const request = (method: string, params: object): Promise<Message | undefined> =>
    new Promise((resolve) => {
      if (isRevoked) {
        resolve(undefined)
        return
      }
      waiting.set(++lastId, resolve)
      send({ id: lastId, method, params })
    })
  const clientInfo = { name: 'fault-test', version: '1' }
  await request('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo })
  send({ method: 'notifications/initialized' })
  return {
    pid: peer.pid,
    call: async (name, args = {}) => toOutcome(await request('tools/call', { name, arguments: args })),
    stderr: () => errors.join(''),
    kill: peer.kill,
    async leave() {
      peer.kill(peer.quickest)
      await ended
    },
    endInput: () => void stdin.end(),
    ended,
  }
}

type Envelope = Readonly<{ error: { code: string; message: string; details: { outcome?: string } } }>
type Message = Readonly<{
  id: number
  result?: { structuredContent?: unknown; isError?: boolean; content?: readonly { text?: string }[] }
  error?: { message: string; data?: Partial<Envelope> }
}>

function toOutcome(message: Message | undefined): Outcome {
  if (message === undefined) return { kind: 'gone' }
  const { result, error } = message
  if (result !== undefined && result.isError !== true) {
    const { warnings, ...answer } = (result.structuredContent ?? {}) as Record<string, unknown> & {
      warnings?: string[]
    }
    return { kind: 'done', answer, ...(warnings !== undefined && { warnings }) }
  }
  const envelope = (result?.structuredContent ?? error?.data) as Partial<Envelope> | undefined
  return {
    kind: 'failed',
    code: envelope?.error?.code ?? 'protocol error',
    isUnknown: envelope?.error?.details.outcome === 'unknown',
    message: envelope?.error?.message ?? error?.message ?? '',
  }
}
