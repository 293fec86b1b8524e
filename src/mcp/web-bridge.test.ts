import { once } from 'node:events'
import { createServer, get, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { expect, it, onTestFinished } from 'vitest'
import type { Progress } from '../contract/call.ts'
import { limits } from '../contract/limits.ts'
import { localOwner } from '../contract/principal.ts'
import { replyOver } from '../http/exchange/reply.ts'
import { serveHttpCall } from './http-call.ts'
import { sendWebResponse } from './web-bridge.ts'
import { createWire } from './wire.ts'

const MIB = 1024 * 1024

/** The client's side of one exchange that is served so; nothing of the answer is read yet. */
async function answeredBy(serve: (res: ServerResponse) => void) {
  const server = createServer((_req, res) => serve(res)).listen(0, '127.0.0.1')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  const request = get(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
  request.on('error', () => {})
  const [answer] = await once(request, 'response')
  answer.on('error', () => {})
  return answer as NodeJS.ReadableStream
}

it('disconnects a client that does not read what others say meanwhile', async () => {
  const said = Promise.withResolvers<number>()
  await answeredBy((res) => {
    let sent = 0
    const body = new ReadableStream<Uint8Array>({
      async start(controller) {
        for (; sent < 64 && !res.destroyed; sent++) {
          controller.enqueue(new Uint8Array(MIB))
          await new Promise(setImmediate)
        }
        said.resolve(sent)
      },
      cancel: () => said.resolve(sent),
    })
    void sendWebResponse(new Response(body), res)
  })
  expect(await said.promise).toBeLessThan(64)
})

it('sends an answer of any length to a client that reads', async () => {
  const answer = await answeredBy((res) => {
    void sendWebResponse(new Response(new Uint8Array(limits.mcpUnreadBytesMax + MIB)), res)
  })
  expect(await buffer(answer)).toHaveLength(limits.mcpUnreadBytesMax + MIB)
})

it('disconnects a client that does not read the progress of its call, which is cancelled', async () => {
  const cancelled = Promise.withResolvers<void>()
  let progress: ((update: Progress) => void) | undefined
  let stream: ServerResponse | undefined
  await answeredBy((res) => {
    stream = res
    const call = { id: 1, name: 'slow', args: {}, progressToken: 1 }
    const caller = { principal: localOwner } as never
    const startCall = (...[, , , , said]: readonly unknown[]) => {
      progress = said as typeof progress
      return { cancel: () => cancelled.resolve() }
    }
    const deps = { startCall: startCall as never, wire: createWire({ name: 'here', version: '1' }) }
    const about = {
      calls: undefined,
      era: 'modern',
      sessionId: undefined,
      revision: undefined,
      acceptsEvents: true,
    } as const
    serveHttpCall(deps, replyOver(res), res, { call: call as never, caller, ...about })
    progress!({ progress: 0, message: 'begun' })
  })
  for (let count = 1; count <= 64 && !stream!.destroyed; count++) {
    progress!({ progress: count, message: 'x'.repeat(MIB) })
    await new Promise(setImmediate)
  }
  expect(stream!.destroyed).toBe(true)
  await cancelled.promise
})
