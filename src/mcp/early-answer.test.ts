import { PassThrough, Writable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { createSampleHost } from '../../test/support/sample-host.ts'
import { createSampleSkills } from '../../test/support/sample-skills.ts'
import { localOwner } from '../contract/principal.ts'
import { silentLogger } from '../kernel/logger.ts'
import { createMcpTransport } from './create-mcp-transport.ts'
import { answerEarly, type EarlySession, type EarlyTools, sessionRevisions, withoutAnswers } from './early-answer.ts'
import { stdioLines } from './line-transport.ts'

const initialize = (protocolVersion: string, id: unknown = 1, more: object = {}) => ({
  jsonrpc: '2.0',
  id,
  method: 'initialize',
  params: { protocolVersion, capabilities: {}, clientInfo: { name: 'test', version: '1' }, ...more },
})

const firstLine = async (output: PassThrough): Promise<unknown> => {
  for await (const chunk of output.iterator({ destroyOnReturn: false }))
    return JSON.parse(String(chunk).split('\n')[0]!)
}

function connect(lines: readonly object[]) {
  const input = new PassThrough()
  const output = new PassThrough()
  for (const line of lines) input.write(`${JSON.stringify(line)}\n`)
  const host = createSampleHost()
  const sampleTools = host.list({ principal: localOwner, transport: 'stdio', exposure: 'full', safeNames: false })
  const transport = createMcpTransport({
    host,
    version: '9',
    logger: silentLogger,
    skills: createSampleSkills(),
  })
  const early = (tools?: EarlyTools) =>
    answerEarly({ input, output, version: '9', waitMs: 1_000, ...(tools === undefined ? {} : { tools }) })
  const serve = (session: EarlySession | undefined) => {
    const { input: rest, answered } = session?.stop() ?? { input, answered: new Set<string>() }
    return transport.serveLines(withoutAnswers(stdioLines(rest, output), answered), {
      principal: localOwner,
      exposure: 'full',
    })
  }
  return { input, output, early, serve, tools: sampleTools }
}

const envelope = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
}
const discover = { jsonrpc: '2.0', id: 0, method: 'server/discover', params: { _meta: envelope } }
const statelessList = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: envelope } }
const list = { jsonrpc: '2.0', id: 'list', method: 'tools/list' }

const lines = async (output: PassThrough, count: number): Promise<unknown[]> => {
  let text = ''
  for await (const chunk of output.iterator({ destroyOnReturn: false })) {
    text += String(chunk)
    const whole = text.split('\n').slice(0, -1)
    if (whole.length >= count) return whole.map((line) => JSON.parse(line))
  }
  return []
}

describe('the early answer', () => {
  it.each([...sessionRevisions, '1999-01-01'])(
    'to a client of revision %s is what the session would say',
    async (revision) => {
      const late = connect([initialize(revision)])
      late.serve(undefined)
      const early = connect([initialize(revision)])
      early.early()
      expect(await firstLine(early.output)).toEqual(await firstLine(late.output))
    },
  )

  it.each([
    ['with a handshake', [initialize('2025-11-25', 'a'), list]],
    ['without sessions', [discover, statelessList]],
  ])('to a list %s is what the session would say', async (_what, questions) => {
    const late = connect(questions)
    late.serve(undefined)
    const early = connect(questions)
    early.early(async (name) => (name === 'test' ? early.tools : undefined))
    expect(await lines(early.output, 2)).toEqual(await lines(late.output, 2))
  })

  it('is given once, and the session goes on from there', async () => {
    const { input, output, early, serve, tools } = connect([initialize('2025-11-25', 'a'), list])
    const session = early(async () => tools)
    await session.settled
    expect(await lines(output, 2)).toMatchObject([{ id: 'a' }, { id: 'list' }])
    serve(session)
    input.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n{"jsonrpc":"2.0","id":"b","method":"ping"}\n')
    expect(await firstLine(output)).toEqual({ jsonrpc: '2.0', id: 'b', result: {} })
  })

  it.each([
    [
      'asked for before something else',
      [initialize('2025-11-25', 'a'), list, { jsonrpc: '2.0', id: 'b', method: 'prompts/list' }],
    ],
    [
      'asked for after something else',
      [initialize('2025-11-25', 'a'), { jsonrpc: '2.0', id: 'b', method: 'prompts/list' }, list],
    ],
    ['asked for beside what cannot be answered', [initialize('2025-11-25', 'a'), { id: 'b', method: 'ping' }, list]],
  ])('has the list before the rest is loaded, %s', async (_what, questions) => {
    const { output, early, tools } = connect(questions)
    const known = Promise.withResolvers<void>()
    const session = early(() => known.promise.then(() => tools))
    await firstLine(output)
    setImmediate(known.resolve)
    expect([...(await answered(session))]).toEqual(['a', 'list'])
  })

  it('leaves a list that is not known in time to the session', async () => {
    const { output, early, serve } = connect([initialize('2025-11-25', 'a'), list])
    const known = Promise.withResolvers<undefined>()
    const session = early(() => known.promise)
    expect(await firstLine(output)).toMatchObject({ id: 'a' })
    serve(session)
    expect(await firstLine(output)).toMatchObject({ id: 'list', result: { tools: expect.any(Array) } })
    known.resolve(undefined)
  })

  it('reaches a client that says everything at once and leaves', async () => {
    const { input, output, early, serve, tools } = connect([initialize('2025-11-25', 'a'), list])
    const session = early(async () => tools)
    input.end('{"jsonrpc":"2.0","id":"b","method":"ping"}\n')
    await session.settled
    await lines(output, 2)
    serve(session)
    expect(await firstLine(output)).toEqual({ jsonrpc: '2.0', id: 'b', result: {} })
  })

  it.each([
    ['another method', { jsonrpc: '2.0', id: 1, method: 'server/discover', params: {} }],
    ['an id that is not one', initialize('2025-11-25', null)],
    ['a stateless envelope', initialize('2026-07-28', 1, { _meta: {} })],
    ['no client', { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: 'x', capabilities: {} } }],
    ['a list before the handshake', list],
    ['a later page', { ...statelessList, params: { _meta: envelope, cursor: 'x' } }],
    ['an envelope with more in it', { ...statelessList, params: { _meta: { ...envelope, more: 1 } } }],
  ])('is left to the session for %s', async (_what, line) => {
    const { output, early, tools } = connect([line])
    const session = answered(early(async () => tools))
    expect([...(await session)]).toEqual([])
    expect(output.readableLength).toBe(0)
  })

  it('is with the client whole before the rest is loaded, which would hold it up', async () => {
    const input = new PassThrough()
    let take = (): void => {}
    const output = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        if (String(chunk).includes('"id":"list"')) take = done
        else done()
      },
    })
    const session = answerEarly({ input, output, version: '9', waitMs: 60_000, tools: async () => [] })
    const settled = session.settled.then(() => 'settled')
    for (const line of [initialize('2025-11-25', 'a'), list]) input.write(`${JSON.stringify(line)}\n`)
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(await Promise.race([settled, 'waiting'])).toBe('waiting')
    take()
    expect(await settled).toBe('settled')
  })

  it('is not waited for when the client does not read', async () => {
    const output = new Writable({ write: () => {} })
    const input = new PassThrough()
    const session = answerEarly({ input, output, version: '9', waitMs: 5, tools: async () => [] })
    for (const line of [initialize('2025-11-25', 'a'), list]) input.write(`${JSON.stringify(line)}\n`)
    expect([...(await answered(session))]).toEqual(['a', 'list'])
  })

  it('is not waited for when the client is silent or gone', async () => {
    const input = new PassThrough()
    const output = new PassThrough()
    expect([...(await answered(answerEarly({ input, output, version: '9', waitMs: 1 })))]).toEqual([])
    const gone = answerEarly({ input, output, version: '9', waitMs: 60_000 })
    input.end()
    expect([...(await answered(gone))]).toEqual([])
  })
})

async function answered(session: EarlySession): Promise<ReadonlySet<string | number>> {
  await session.settled
  return session.stop().answered
}
