import { spawn } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { agentPrograms } from '../clients/agent-programs.ts'
import { type GatewayStage, openGatewayStage, SAID } from '../clients/gateway-stage.ts'
import type { RecordedMessage } from '../clients/recording.ts'
import { watchedEnvironment } from '../support/answer-check.ts'
import { castellan, newDataDir, type RealServer, startRealServer } from '../support/real-server.ts'

/**
 * What real agent programs sent (npm run test:clients -- --record), sent again to the real server: each gets a list that a model
 * takes, and its call goes through, also at the address of a gateway.
 */
type Answer = Readonly<{ result?: Record<string, unknown>; error?: unknown }>
type Send = (message: RecordedMessage) => Promise<Answer | undefined>

const folder = new URL('../clients/recordings/', import.meta.url)
const recordings = readdirSync(folder).map((file) => {
  const [program = '', transport = ''] = file.split('.')
  return { program, transport, messages: JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as RecordedMessage[] }
})

let http: RealServer
let gateway: GatewayStage
const [dataDir, served] = [newDataDir(), newDataDir()]
beforeAll(async () => {
  writeFileSync(join(served, 'castellan.yaml'), 'web: { allow_private_addresses: ["127.0.0.1"] }\n')
  http = await startRealServer({ dataDir: served })
  gateway = await openGatewayStage(new URL(http.url).origin, served, 'full')
})
afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await http.stop()
  for (const folder of [dataDir, served]) rmSync(folder, { recursive: true, force: true })
})

async function overStdio(work: (send: Send) => Promise<void>): Promise<void> {
  const child = spawn(castellan, ['mcp', '--tools', 'full', '--data-dir', dataDir], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, ...watchedEnvironment(), CASTELLAN_LOG_LEVEL: 'error' },
  })
  child.stdin.on('error', () => {})
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  try {
    await work(async (message) => {
      child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
      if (message.id === undefined) return undefined
      for (;;) {
        const answer = JSON.parse(String((await lines.next()).value)) as Answer & { id?: unknown }
        if (answer.id === message.id) return answer
      }
    })
  } finally {
    child.stdin.end()
    await new Promise((resolve) => child.once('exit', resolve))
  }
}

async function overHttp(
  url: string,
  headers: Record<string, string>,
  work: (send: Send) => Promise<void>,
): Promise<void> {
  let session: Record<string, string> = {}
  await work(async (message) => {
    const version = (message.params?.['_meta'] as Record<string, string> | undefined)?.[
      'io.modelcontextprotocol/protocolVersion'
    ]
    const name = message.params?.['name']
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        ...headers,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...(version === undefined ? session : { 'mcp-protocol-version': version, 'mcp-method': message.method }),
        ...(version !== undefined && typeof name === 'string' ? { 'mcp-name': name } : {}),
      },
      body: JSON.stringify({ jsonrpc: '2.0', ...message }),
    })
    const id = response.headers.get('mcp-session-id')
    if (id !== null) session = { 'mcp-session-id': id }
    const text = await response.text()
    if (message.id === undefined) return undefined
    return JSON.parse(text.startsWith('{') ? text : /^data: (.+)$/m.exec(text)![1]!) as Answer
  })
}

describe('the recordings', () => {
  it('are of every program, over both transports and at a gateway, with a list and a call', () => {
    const expected = agentPrograms.flatMap(({ name }) => [`${name}.gateway`, `${name}.http`, `${name}.stdio`])
    expect(recordings.map(({ program, transport }) => `${program}.${transport}`).sort()).toEqual(expected.sort())
    for (const { messages } of recordings) {
      expect(messages.map(({ method }) => method)).toEqual(expect.arrayContaining(['tools/list', 'tools/call']))
    }
  })
})

const runners: Readonly<Record<string, (work: (send: Send) => Promise<void>) => Promise<void>>> = {
  stdio: overStdio,
  http: (work) => overHttp(`${http.url}?tools=full`, {}, work),
  gateway: (work) => overHttp(gateway.url, { authorization: `Bearer ${gateway.key}` }, work),
}

describe.each(recordings)('$program over $transport', ({ transport, messages }) => {
  it('gets tools that its model takes, and an answer to its call', async () => {
    const answers = new Map<string, Answer>()
    await runners[transport]!(async (send) => {
      for (const message of messages) {
        const answer = await send(message)
        if (answer === undefined) continue
        // Some ask for what this server does not have at /mcp, and take no for an answer.
        if (transport === 'gateway' || message.method.startsWith('tools/')) {
          expect(answer.error, message.method).toBeUndefined()
        }
        answers.set(message.method, answer)
      }
    })
    const { tools } = answers.get('tools/list')!.result as { tools: { name: string; description: string }[] }
    const names = tools.map(({ name }) => name)
    const [mark, expected] =
      transport === 'gateway' ? [SAID, ['up__echo', 'up__sum']] : ['matchCount', ['search_tools', 'fs_read']]
    expect(names).toEqual(expect.arrayContaining(expected))
    expect(names.filter((name) => !/^[a-zA-Z0-9_-]{1,64}$/.test(name))).toEqual([])
    expect(new Set(names).size).toBe(names.length)
    expect(tools.filter(({ description }) => /\b(aegis|fs|cmd|web|zaru)\.[a-z]+/.test(description))).toEqual([])
    const called = answers.get('tools/call')!
    expect(called.result!['isError']).toBeUndefined()
    expect(JSON.stringify(called.result!['content'])).toContain(mark)
    if (transport === 'gateway') expect(await gateway.faultsOfRecord()).toEqual([])
  })
})
