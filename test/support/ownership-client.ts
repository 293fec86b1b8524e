import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const script = fileURLToPath(new URL('./ownership-process.ts', import.meta.url))

export type Answer = Readonly<{
  id?: unknown
  method?: string
  result?: { structuredContent?: Record<string, unknown>; isError?: boolean; content?: { text: string }[] } & Record<
    string,
    unknown
  >
  error?: { code: number; message: string }
}>

/** A client with its own stdio process, as an editor has. */
export type StdioClient = Readonly<{
  pid: number
  /** Resolves to undefined when the process ends before it answers. */
  request(method: string, params?: object): Promise<Answer | undefined>
  call(tool: string, args?: object): Promise<Answer | undefined>
  notify(method: string): void
  /** Lines that belong to no request. */
  stray: readonly Answer[]
  stderr(): string
  kill(signal: NodeJS.Signals): void
  endInput(): void
  exited: Promise<number | null>
}>

export async function startStdioClient(dataDir: string): Promise<StdioClient> {
  const child = spawn(process.execPath, [script, 'stdio', dataDir], { stdio: ['pipe', 'pipe', 'pipe'] })
  const waiting = new Map<number, (answer: Answer | undefined) => void>()
  const stray: Answer[] = []
  const errors: string[] = []
  let lastId = 0
  child.stdin.on('error', () => {})
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk.toString('utf8')))
  createInterface({ input: child.stdout }).on('line', (line) => {
    const answer = JSON.parse(line) as Answer
    const resolve = waiting.get(answer.id as number)
    if (resolve === undefined) stray.push(answer)
    waiting.delete(answer.id as number)
    resolve?.(answer)
  })
  const exited = new Promise<number | null>((resolve) => {
    child.on('close', (code) => {
      for (const answer of waiting.values()) answer(undefined)
      waiting.clear()
      resolve(code)
    })
  })
  const send = (message: object): void => void child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  const request: StdioClient['request'] = (method, params = {}) =>
    new Promise((resolve) => {
      if (child.exitCode !== null || child.signalCode !== null) {
        resolve(undefined)
        return
      }
      const id = ++lastId
      waiting.set(id, resolve)
      send({ id, method, params })
    })
  const client: StdioClient = {
    pid: child.pid!,
    request,
    call: (name, args = {}) => request('tools/call', { name, arguments: args }),
    notify: (method) => send({ method }),
    stray,
    stderr: () => errors.join(''),
    kill: (signal) => void child.kill(signal),
    endInput: () => void child.stdin.end(),
    exited,
  }
  await request('initialize', { protocolVersion: '2025-11-25' })
  client.notify('notifications/initialized')
  return client
}

export type ServeProcess = Readonly<{
  pid: number
  url: string
  kill(signal: NodeJS.Signals): void
  exited: Promise<void>
}>

export async function startServeProcess(dataDir: string): Promise<ServeProcess> {
  const child: ChildProcess = spawn(process.execPath, [script, 'serve', dataDir], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const exited = new Promise<void>((resolve) => child.on('close', () => resolve()))
  const port = await new Promise<number>((resolve, reject) => {
    child.on('close', () => reject(new Error('the process ended before it listened')))
    createInterface({ input: child.stdout! }).once('line', (line) =>
      resolve((JSON.parse(line) as { port: number }).port),
    )
  })
  return { pid: child.pid!, url: `http://127.0.0.1:${port}`, kill: (signal) => void child.kill(signal), exited }
}
