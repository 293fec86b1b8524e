import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import { type AddressInfo, connect, Socket } from 'node:net'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { readPlainHead } from './plain-request.ts'

/** Whatever is accepted as plain, `node:http` reads as one request, and as the same one. */
type Seen = { url: string | undefined; method: string | undefined; headers: IncomingHttpHeaders; body: string }
const seen: Seen[] = []
const server = createServer((req, res) => {
  let body = ''
  req.setEncoding('latin1').on('data', (chunk: string) => {
    body += chunk
  })
  req.on('end', () => {
    seen.push({ url: req.url, method: req.method, headers: req.headers, body })
    res.end()
  })
})
beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
})
afterAll(() => server.close())

/** The status lines that the server answers until it ends the connection. */
async function answersTo(bytes: string): Promise<string[]> {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  socket.on('error', () => {})
  let text = ''
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk
  })
  // The second request ends the connection, so that everything that came of the first is known.
  socket.write(`${bytes}GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`, 'latin1')
  await once(socket, 'close')
  return text.match(/HTTP\/1\.1 \d+/g) ?? []
}

const socket = new Socket()
const isPlain = (text: string): boolean => {
  const head = readPlainHead(text, socket)
  return head !== undefined && text.length === head.text.length + head.bodyBytes
}

const field = fc.oneof(
  fc.constantFrom(
    ...[
      'Host: x',
      'Accept: a, b',
      'content-length: 2',
      'Content-Length: 2',
      'Content-Length: +2',
      'content-length: 02',
    ],
    ...['Transfer-Encoding: chunked', 'transfer-encoding : chunked', 'Connection: close', 'Connection: keep-alive'],
    ...['Upgrade: h2c', 'Expect: 100-continue', ' folded: x', 'no colon', ': empty', 'a:', 'A:\tx\t', '__proto__: x'],
    ...['constructor: x', 'Origin: http://x', 'X-Long: \u00e9', 'X-Null: \u0000', 'X-Lf: a\nHost: y', 'X-Cr: a\rb'],
  ),
  fc.stringMatching(/^[A-Za-z-]{1,8}: ?[ -~]{0,12}$/),
)
const mostly = <Value>(usual: Value, ...others: readonly Value[]): fc.Arbitrary<Value> =>
  fc.oneof({ weight: 4, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: fc.constantFrom(...others) })
const request = fc
  .record({
    line: mostly(
      'POST /mcp HTTP/1.1',
      ...['POST /mcp/a?b=c HTTP/1.1', 'POST /mcp HTTP/1.0', 'POST  /mcp HTTP/1.1', 'GET /mcp HTTP/1.1'],
      ...[
        'POST /mcpx HTTP/1.1',
        'POST /v1/a/b?c=d HTTP/1.1',
        'POST /v1 HTTP/1.1',
        'POST /mcp# HTTP/1.1',
        'POST /mcp/\u00e9 HTTP/1.1',
        'POST http://x/mcp HTTP/1.1',
      ],
    ),
    fields: fc.array(field, { maxLength: 4 }),
    body: mostly('{}', '{', '{}x', ''),
    length: mostly('Content-Length: 2', 'Content-Length: 3', ''),
  })
  .map(({ line, fields, body, length }) => {
    const lines = [line, 'Host: x', ...fields, ...(length === '' ? [] : [length])]
    return `${lines.join('\r\n')}\r\n\r\n${body}`
  })
const spliced = fc
  .tuple(request, fc.nat(), fc.nat(2), fc.stringMatching(/^[\r\n :A-Za-z0-9]{0,2}$/))
  .map(([text, at, removed, put]) => {
    const start = at % text.length
    return text.slice(0, start) + put + text.slice(start + removed)
  })

it('agrees with node:http on every request that it accepts', async () => {
  let accepted = 0
  await fc.assert(
    fc.asyncProperty(fc.oneof(request, spliced), async (text) => {
      if (!isPlain(text)) return
      accepted++
      const head = readPlainHead(text, socket)!
      seen.length = 0
      expect(await answersTo(text)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 200'])
      expect(seen[0]).toEqual({
        ...{ url: head.url, method: 'POST', headers: head.headers },
        body: text.slice(head.text.length),
      })
      expect(seen[1]?.url).toBe('/last')
    }),
    { numRuns: 1_000 },
  )
  expect(accepted).toBeGreaterThan(20)
})

const plain = 'POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}'

it('accepts what clients send', () => {
  expect(isPlain(plain)).toBe(true)
  expect(isPlain(plain.replace('/mcp', '/v1/openai/chat/completions'))).toBe(true)
  expect(isPlain(plain.replace('Host', 'Authorization: Bearer cst_x\r\nMcp-Session-Id: y\r\nHost'))).toBe(true)
})

it.each([
  ['more than one request', `${plain}${plain}`],
  ['a part of one', plain.slice(0, -1)],
  ['a repeated field', plain.replace('Host: x', 'Host: x\r\nHost: y')],
  ['a repeated length', plain.replace('Content-Length: 2', 'Content-Length: 2\r\ncontent-length: 2')],
  ['a length that is no number', plain.replace(': 2', ': 0x2')],
  ['another framing', plain.replace('Host: x', 'Transfer-Encoding: identity')],
  ['an upgrade', plain.replace('Host: x', 'Upgrade: websocket')],
  ['the end of a connection', plain.replace('Host: x', 'Connection: close')],
  ['a page', plain.replace('Host: x', 'Origin: http://x')],
  ['a session of a browser', plain.replace('Host: x', 'Cookie: a=b')],
  ['a folded field', plain.replace('Host: x', 'Host: x\r\n y: z')],
  ['a bare line feed', plain.replace('Host: x', 'Host: x\nA: b')],
  ['another address', plain.replace('/mcp', '/health')],
  ['HTTP/1.0', plain.replace('HTTP/1.1', 'HTTP/1.0')],
])('leaves %s to node:http', (_, text) => {
  expect(isPlain(text)).toBe(false)
})
