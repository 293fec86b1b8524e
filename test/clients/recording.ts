import { spawn } from 'node:child_process'
import { appendFileSync, readFileSync } from 'node:fs'
import { createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pathToFileURL } from 'node:url'

/**
 * Stands between a client and the server and writes down what the client sends: each message as one line of JSON. Run as a
 * program it does so on the standard streams: `node recording.ts FILE COMMAND ARGS…`.
 */
export type RecordedMessage = Readonly<{ method: string; id?: string | number; params?: Record<string, unknown> }>

/** What decides how the server answers; the rest of what clients send is noise. */
const retained: ReadonlySet<string> = new Set([
  'initialize',
  'notifications/initialized',
  'server/discover',
  'prompts/list',
  'resources/list',
  'tools/list',
  'tools/call',
])

function note(file: string, text: string): void {
  for (const line of text.split('\n')) {
    if (line.trim() !== '') appendFileSync(file, `${line}\n`)
  }
}

/** The messages of a client in order, each kind of question once; ids are numbered anew, so that nothing changes by itself. */
export function readRecording(file: string): RecordedMessage[] {
  const messages = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as RecordedMessage)
    .filter(({ method }) => retained.has(method))
  const seen = new Set<string>()
  return messages
    .filter((message) => {
      const key = JSON.stringify([message.method, message.params?.['cursor']])
      return !seen.has(key) && seen.add(key)
    })
    .map(({ method, id, params }, at) => ({
      method,
      ...(id === undefined ? {} : { id: at }),
      ...(params === undefined ? {} : { params: withoutTraces(params) }),
    }))
}

/** Ids that a program makes up for each run say nothing to a server. */
function withoutTraces(params: Record<string, unknown>): Record<string, unknown> {
  const meta = params['_meta']
  if (typeof meta !== 'object' || meta === null) return params
  const known = Object.entries(meta).filter(([key]) => key.startsWith('io.modelcontextprotocol/'))
  const { _meta: _, ...rest } = params
  return known.length === 0 ? rest : { ...rest, _meta: Object.fromEntries(known) }
}

/** An address that passes everything on to the server, and notes the bodies. */
export async function recordHttp(file: string, target: string): Promise<{ url: string; close(): Promise<void> }> {
  const to = new URL(target)
  const server = createServer((req, res) => {
    const parts: Buffer[] = []
    req.on('data', (part: Buffer) => parts.push(part))
    req.on('end', () => {
      const body = Buffer.concat(parts)
      if (req.method === 'POST') note(file, body.toString())
      const options = { host: to.hostname, port: to.port, path: req.url, method: req.method }
      const onward = httpRequest({ ...options, headers: { ...req.headers, host: to.host } }, (answer) => {
        res.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(res)
      })
      onward.on('error', () => res.destroy())
      res.on('close', () => onward.destroy())
      onward.end(body)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${to.pathname}${to.search}`,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}

function recordStandardStreams(file: string, command: string, args: readonly string[]): void {
  const child = spawn(command, args, { stdio: ['pipe', 'inherit', 'inherit'] })
  child.stdin.on('error', () => {})
  process.stdin.on('data', (part: Buffer) => {
    note(file, part.toString())
    child.stdin.write(part)
  })
  process.stdin.on('end', () => child.stdin.end())
  child.on('exit', (code) => process.exit(code ?? 1))
  process.on('SIGTERM', () => child.kill('SIGTERM'))
}

const [program, ...words] = process.argv.slice(1)
if (program !== undefined && pathToFileURL(program).href === import.meta.url) {
  const [file, command, ...args] = words
  recordStandardStreams(file!, command!, args)
}
