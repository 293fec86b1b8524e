import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { silentLogger } from '../../kernel/logger.ts'
import { type FlowLines, streamLines } from '../../mcp/line-transport.ts'
import type { OwnerConnection } from './attach.ts'
import { type Bridge, bridgeSession } from './bridge-session.ts'
import { createLinePair } from './line-pair.ts'

type CallContext = Readonly<{
  bridge: Bridge
  client: FlowLines
  /** What the client has received. */
  received: string[]
  /** Lets an owner appear; gives its end of the connection and what it has received. */
  ownerAppears(isLocal: boolean): Promise<{ owner: FlowLines; received: string[] }>
}>

function context(openTimeoutMs = 10_000): CallContext {
  const [client, far] = createLinePair()
  const received: string[] = []
  const available: OwnerConnection[] = []
  let taken = (): void => {}
  client.onLine((line) => received.push(line))
  const bridge = bridgeSession({
    client: far,
    hello: { transport: 'stdio' },
    isReadOnlyTool: (name) => name === 'task_get',
    logger: silentLogger,
    takeoverTimeoutMs: openTimeoutMs,
    attachment: {
      async openLines(_hello, timeoutMs) {
        await expect.poll(() => available.length, { timeout: timeoutMs, interval: 1 }).toBeGreaterThan(0)
        taken()
        return available.shift()!
      },
    },
  })
  return {
    bridge,
    client,
    received,
    async ownerAppears(isLocal) {
      const [near, owner] = createLinePair()
      const lines: string[] = []
      owner.onLine((line) => lines.push(line))
      available.push({ transport: near, isLocal, ownerPid: 7 })
      await new Promise<void>((resolve) => {
        taken = resolve
      })
      return { owner, received: lines }
    },
  }
}

const line = (message: object): string => JSON.stringify({ jsonrpc: '2.0', ...message })

test('lines sent before there is an owner wait for it, in order', async () => {
  const { client, ownerAppears } = context()
  client.send('first')
  client.send('second')
  const { received } = await ownerAppears(true)
  await expect.poll(() => received).toEqual(['first', 'second'])
})

test('an owner in the same process gets and gives lines untouched', async () => {
  const { client, received, ownerAppears } = context()
  const { owner, received: atOwner } = await ownerAppears(true)
  const odd = '{ "id" : 1, "method":"tools/call" , "jsonrpc":"2.0"}'
  client.send(odd)
  await expect.poll(() => atOwner).toEqual([odd])
  owner.send('{"castellan":"closing"}')
  expect(received).toEqual(['{"castellan":"closing"}'])
})

test('the next owner gets the handshake first, and the rest only after its answer', async () => {
  const { client, received, ownerAppears } = context()
  const first = await ownerAppears(false)
  client.send(line({ id: 1, method: 'initialize', params: {} }))
  await expect.poll(() => first.received).toHaveLength(1)
  first.owner.send(line({ id: 1, result: {} }))
  client.send(line({ method: 'notifications/initialized' }))
  client.send(line({ id: 2, method: 'tools/list' }))
  first.owner.close()
  client.send(line({ id: 3, method: 'ping' }))

  const second = await ownerAppears(false)
  await expect.poll(() => second.received.map((text) => JSON.parse(text).method)).toEqual(['initialize'])
  second.owner.send(line({ id: JSON.parse(second.received[0]!).id, result: {} }))
  await expect
    .poll(() => second.received.slice(1).map((text) => JSON.parse(text)))
    .toMatchObject([{ method: 'notifications/initialized' }, { id: 2 }, { id: 3 }])
  expect(received).toEqual([line({ id: 1, result: {} })])
})

test('an owner that dies during the handshake is followed by the next', async () => {
  const { client, received, ownerAppears } = context()
  const first = await ownerAppears(false)
  client.send(line({ id: 1, method: 'initialize' }))
  await expect.poll(() => first.received).toHaveLength(1)
  first.owner.send(line({ id: 1, result: {} }))
  client.send(line({ id: 2, method: 'tools/list' }))
  first.owner.close()
  const second = await ownerAppears(false)
  await expect.poll(() => second.received).toHaveLength(1)
  second.owner.close()
  const third = await ownerAppears(true)
  await expect.poll(() => third.received).toHaveLength(1)
  third.owner.send(line({ id: JSON.parse(third.received[0]!).id, result: {} }))
  await expect.poll(() => third.received.slice(1).map((text) => JSON.parse(text))).toMatchObject([{ id: 2 }])
  third.owner.send(line({ id: 2, result: { tools: [] } }))
  expect(received).toHaveLength(2)
})

test('while nobody takes over requests fail in time; afterwards the session goes on', async () => {
  const { client, received, ownerAppears } = context(20)
  client.send(line({ id: 1, method: 'tools/call', params: { name: 'task_create' } }))
  client.send(line({ id: 2, method: 'ping' }))
  await expect
    .poll(() => received.map((text) => JSON.parse(text)))
    .toMatchObject([
      { id: 1, result: { isError: true, structuredContent: { error: { code: 'ERR_OWNER_LOST' } } } },
      { id: 2, error: { data: { error: { code: 'ERR_OWNER_LOST' } } } },
    ])
  client.send(line({ id: 3, method: 'ping' }))
  await expect.poll(() => received).toHaveLength(3)
  const { received: atOwner } = await ownerAppears(false)
  const probe = (): number => {
    if (atOwner.length === 0) client.send(line({ id: 4, method: 'ping' }))
    return atOwner.length
  }
  await expect.poll(probe).toBe(1)
})

test('an owner that closes in order is told when the client holds back, and nothing is sent after that', async () => {
  const { client, ownerAppears } = context()
  const first = await ownerAppears(false)
  const created = line({ id: 1, method: 'tools/call', params: { name: 'task_create' } })
  client.send(created)
  await expect.poll(() => first.received).toEqual([created])
  first.owner.send('{"castellan":"closing"}')
  const next = line({ id: 2, method: 'tools/call', params: { name: 'task_create' } })
  client.send(next)
  expect(first.received).toEqual([created, '{"castellan":"held"}'])
  first.owner.send(line({ id: 1, result: {} }))
  first.owner.close()
  const second = await ownerAppears(true)
  await expect.poll(() => second.received).toEqual([next])
})

test('the bridge ends when the client has left and the last answer is out', async () => {
  const { bridge, client, received, ownerAppears } = context()
  const { owner, received: atOwner } = await ownerAppears(false)
  client.send(line({ id: 1, method: 'ping' }))
  await expect.poll(() => atOwner).toHaveLength(1)
  client.close()
  owner.send(line({ id: 1, result: {} }))
  await bridge.closed
  expect(received).toEqual([line({ id: 1, result: {} })])
})

test('a line over the limit is answered with its id and the limit, and the session goes on', async () => {
  const input = new PassThrough()
  const output = new PassThrough()
  const [near, far] = createLinePair()
  const owner: string[] = []
  far.onLine((text) => owner.push(text))
  bridgeSession({
    client: streamLines({ input, output, lineBytesMax: 100, pauseInputWhenFull: true }),
    attachment: { openLines: async () => ({ transport: near, isLocal: true, ownerPid: 7 }) },
    hello: { transport: 'stdio' },
    isReadOnlyTool: () => false,
    logger: silentLogger,
    lineBytesMax: 100,
  })
  input.write(`${line({ id: 5, method: 'tools/call', params: { name: 'x'.repeat(200) } })}\n`)
  input.write(`${line({ id: 6, method: 'ping' })}\n`)
  const answer = await new Promise((resolve) => output.once('data', resolve))
  expect(JSON.parse(String(answer))).toMatchObject({
    error: { code: -32600, data: { code: 'ERR_TOO_LARGE', limit: 100 } },
  })
  await expect.poll(() => owner).toEqual([line({ id: 6, method: 'ping' })])
})
