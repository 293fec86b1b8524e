import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { createSampleHost } from '../../test/support/sample-host.ts'
import { createSampleSkills } from '../../test/support/sample-skills.ts'
import { localOwner } from '../contract/principal.ts'
import { silentLogger } from '../kernel/logger.ts'
import { createMcpDoor } from './create-mcp-door.ts'
import { answerEarly, sessionRevisions, withoutAnswer } from './early-answer.ts'
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
  const door = createMcpDoor({
    host: createSampleHost(),
    version: '9',
    logger: silentLogger,
    skills: createSampleSkills(),
  })
  const early = () => answerEarly({ input, output, version: '9', waitMs: 1_000 })
  const serve = (id: string | number | undefined) =>
    door.serveLines(withoutAnswer(stdioLines(input, output), id), { principal: localOwner, exposure: 'full' })
  return { input, output, early, serve }
}

describe('the early answer', () => {
  it.each([...sessionRevisions, '1999-01-01'])(
    'to a client of revision %s is what the session would say',
    async (revision) => {
      const late = connect([initialize(revision)])
      late.serve(undefined)
      const early = connect([initialize(revision)])
      await early.early()
      expect(await firstLine(early.output)).toEqual(await firstLine(late.output))
    },
  )

  it('is given once, and the session goes on from there', async () => {
    const { input, output, early, serve } = connect([initialize('2025-11-25', 'a')])
    const id = await early()
    expect(id).toBe('a')
    expect(await firstLine(output)).toMatchObject({ id: 'a', result: { serverInfo: { name: 'castellan' } } })
    serve(id)
    input.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n{"jsonrpc":"2.0","id":"b","method":"ping"}\n')
    expect(await firstLine(output)).toEqual({ jsonrpc: '2.0', id: 'b', result: {} })
  })

  it.each([
    ['another method', { jsonrpc: '2.0', id: 1, method: 'server/discover', params: {} }],
    ['an id that is not one', initialize('2025-11-25', null)],
    ['a stateless envelope', initialize('2026-07-28', 1, { _meta: {} })],
    ['no client', { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: 'x', capabilities: {} } }],
  ])('is left to the session for %s', async (_what, line) => {
    const { input, output, early } = connect([line])
    expect(await early()).toBeUndefined()
    expect(output.readableLength).toBe(0)
    expect(JSON.parse(String(input.read()))).toEqual(line)
  })

  it('is not waited for when the client is silent or gone', async () => {
    const input = new PassThrough()
    const output = new PassThrough()
    expect(await answerEarly({ input, output, version: '9', waitMs: 1 })).toBeUndefined()
    input.end()
    expect(await answerEarly({ input, output, version: '9', waitMs: 60_000 })).toBeUndefined()
  })
})
