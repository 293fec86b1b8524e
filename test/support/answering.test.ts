import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { answering } from './answering.ts'

const left = Promise.withResolvers<unknown>()
const server = createServer(
  answering(async (request, response) => {
    const body = await text(request).catch((error: unknown) => {
      left.resolve(error)
      throw error
    })
    response.end(`read ${body}`)
  }),
)
let port: number
beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  port = (server.address() as AddressInfo).port
})
afterAll(() => void server.close())

it('answers, also after a caller that left in the middle of its request', async () => {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  const asked = once(server, 'request')
  socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf')
  await asked
  socket.destroy()
  expect(await left.promise).toMatchObject({ code: 'ECONNRESET' })
  const reply = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body: 'all' })
  expect(await reply.text()).toBe('read all')
})
