import { PassThrough } from 'node:stream'
import type { JSONRPCMessage } from '@modelcontextprotocol/client'
import { describe, expect, it } from 'vitest'
import type { CommandEnd } from './ports.ts'
import { createStdioTransport } from './stdio-transport.ts'

const message = (id: number): JSONRPCMessage => ({ jsonrpc: '2.0', id, method: 'ping' })

async function started(onMessage: (message: JSONRPCMessage) => void = () => {}) {
  const [stdin, stdout] = [new PassThrough(), new PassThrough()]
  const ended = Promise.withResolvers<CommandEnd>()
  const transport = createStdioTransport({
    run: ({ onPipes }) => {
      onPipes({ stdin, stdout })
      return ended.promise
    },
    onLine: () => {},
  })
  const problems: string[] = []
  transport.onmessage = onMessage
  transport.onerror = ({ message }) => void problems.push(message)
  await transport.start()
  const arrived = (): readonly string[] => [...String(stdin.read() ?? '').matchAll(/"id":(\d+)/g)].map(([, id]) => id!)
  const end = async (): Promise<void> => {
    ended.resolve({ exitCode: 0 })
    await transport.ended
  }
  return { transport, arrived, end, stdout, problems }
}

describe('a message for a server over standard streams', () => {
  it('goes into one write with others of the same turn', async () => {
    const { transport, arrived, end } = await started()
    transport.post(message(1), false)
    transport.post(message(2), false)
    expect(arrived()).toEqual([])
    await new Promise((resolve) => setImmediate(resolve))
    expect(arrived()).toEqual(['1', '2'])
    await end()
  })

  it('is written at once if it is urgent, after what came before it', async () => {
    const { transport, arrived, end } = await started()
    transport.post(message(1), false)
    transport.post(message(2), true)
    expect(arrived()).toEqual(['1', '2'])
    transport.post(message(3), false)
    await new Promise((resolve) => setImmediate(resolve))
    expect(arrived()).toEqual(['3'])
    await end()
  })

  it('is refused after the end', async () => {
    const { transport, end } = await started()
    await end()
    expect(() => transport.post(message(1), true)).toThrow('the server has ended')
    await expect(transport.send(message(2))).rejects.toThrow('the server has ended')
  })
})

it('a message that cannot be read is a problem of its server alone', async () => {
  const received: unknown[] = []
  const { stdout, problems, end } = await started((message) => {
    received.push(message)
    if (received.length === 1) throw new TypeError('no number')
  })
  stdout.write('{"jsonrpc":"2.0","id":{"valueOf":1}}\n{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
  expect(received).toEqual([{ jsonrpc: '2.0', id: { valueOf: 1 } }, message(1)])
  expect(problems).toEqual(['a message of the server cannot be read'])
  await end()
})
