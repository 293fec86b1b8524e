import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterEach, describe, expect, it } from 'vitest'
import { createCheckedFetch } from './checked-fetch.ts'

const MAX = 64 * 1024
const { fetch } = createCheckedFetch({ allowedNetworks: ['127.0.0.1'], messageBytesMax: MAX })
const ends: (() => void)[] = []
afterEach(() => {
  for (const end of ends.splice(0)) end()
})

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  ends.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

/** Answers with the same piece until nobody reads any more. */
const endless =
  (type: string, piece: string): RequestListener =>
  (_req, res) => {
    res.writeHead(200, { 'content-type': type })
    const more = (): void => {
      while (!res.destroyed && res.write(piece));
    }
    res.on('drain', more)
    more()
  }

describe('an answer of a third-party server', () => {
  it.each([
    ['lines in one document', 'application/json', '\n'.repeat(1_000)],
    ['lines in one event', 'text/event-stream', 'data: x\n'],
    ['lines in one event, ended as on other systems', 'text/event-stream; charset=utf-8', 'data: x\r\n'],
    ['carriage returns', 'text/event-stream', 'data: x\r'],
    ['a page of an error', 'text/html', '<p>\n'],
  ])('ends where it holds more than a message: %s', async (_, type, piece) => {
    const response = await fetch(await serve(endless(type, piece)))
    await expect(response.text()).rejects.toThrow(`more than ${MAX} bytes`)
  })

  it('ends also where pieces are cut so that a line looks empty', async () => {
    const url = await serve(async (req, res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      res.socket!.setNoDelay(true)
      for (let index = 0; index < 8 && !req.socket.destroyed; index++) {
        res.write(`data: ${'x'.repeat(MAX / 4)}\nx`)
        await new Promise((resolve) => setTimeout(resolve, 50))
        res.write('\n')
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
      res.end()
    })
    await expect((await fetch(url)).text()).rejects.toThrow(`more than ${MAX} bytes`)
  })

  it('ends where it was packed small', async () => {
    const packed = gzipSync('\n'.repeat(10 * MAX))
    const url = await serve((_req, res) => {
      res.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' }).end(packed)
    })
    await expect((await fetch(url)).text()).rejects.toThrow(`more than ${MAX} bytes`)
  })

  it.each(['\n\n', '\r\n\r\n'])('may have any number of events (%j)', async (end) => {
    const count = 3_000
    const url = await serve((_req, res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      for (let index = 0; index < count; index++) res.write(`data: ${'x'.repeat(50)}${end}`)
      res.end()
    })
    expect((await (await fetch(url)).text()).length).toBe(count * (56 + end.length))
  })

  it.each([99, 600, 999])(
    'with a status that there is not (%i) is an error, and its connection ends',
    async (status) => {
      let closed = false
      const url = await serve((req, res) => {
        req.socket.on('close', () => {
          closed = true
        })
        res.socket!.write(`HTTP/1.1 ${status} Odd\r\ncontent-length: 100000\r\n\r\nx`)
      })
      await expect(fetch(url)).rejects.toThrow()
      await expect.poll(() => closed).toBe(true)
    },
  )
})
