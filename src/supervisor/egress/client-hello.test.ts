import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { connect } from 'node:tls'
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { HELLO_BYTES_MAX, readFirstBytes } from './client-hello.ts'

/** The ClientHello of Node's own TLS client. */
async function realHello(servername: string): Promise<Buffer> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const accepted = once(server, 'connection')
  const client = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', servername })
  client.on('error', () => {})
  const [socket] = await accepted
  socket.on('error', () => {})
  let bytes = Buffer.alloc(0)
  while (readFirstBytes(bytes).kind === 'more') {
    const [chunk] = (await once(socket, 'data')) as [Buffer]
    bytes = Buffer.concat([bytes, chunk])
  }
  client.destroy()
  socket.destroy()
  server.close()
  return bytes
}

let hello: Buffer
beforeAll(async () => {
  hello = await realHello('www.example.org')
})

const asRecords = (handshake: Buffer, size: number): Buffer => {
  const records: Buffer[] = []
  for (let at = 0; at < handshake.length; at += size) {
    const part = handshake.subarray(at, at + size)
    records.push(Buffer.from([22, 3, 1, part.length >> 8, part.length & 255]), part)
  }
  return Buffer.concat(records)
}

describe('readFirstBytes', () => {
  it('finds the name in a real hello, and that there is none', async () => {
    expect(readFirstBytes(hello)).toEqual({ kind: 'hello', serverName: 'www.example.org', hidesName: false })
    const nameless = readFirstBytes(await realHello(''))
    expect(nameless).toEqual({ kind: 'hello', serverName: undefined, hidesName: false })
  })

  it('wants more until the last byte is there', () => {
    for (let length = 0; length < hello.length; length++) {
      expect(readFirstBytes(hello.subarray(0, length)).kind, `${length}`).toBe('more')
    }
  })

  it('reads a hello that is spread over records of any size', () => {
    const handshake = hello.subarray(5)
    for (const size of [1, 2, 3, 5, 37, 100]) {
      expect(readFirstBytes(asRecords(handshake, size)), `${size}`).toMatchObject({ serverName: 'www.example.org' })
    }
  })

  it('takes other first bytes for something that is not TLS', () => {
    for (const text of ['GET / HTTP/1.1\r\n', 'SSH-2.0-x', '\u0000']) {
      expect(readFirstBytes(Buffer.from(text, 'latin1')).kind).toBe('plain')
    }
  })

  it.each([
    ['another handshake message', [22, 3, 1, 0, 4, 2, 0, 0, 0]],
    ['an empty record', [22, 3, 1, 0, 0]],
    ['another version of records', [22, 2, 1, 0, 4, 1, 0, 0, 0]],
    ['a record that is too long', [22, 3, 1, 0x40, 1]],
    ['a hello that is too long', [22, 3, 1, 0, 4, 1, 1, 0, 0]],
    ['a hello with nothing in it', [22, 3, 1, 0, 4, 1, 0, 0, 0]],
  ])('does not accept %s', (_, bytes) => {
    expect(readFirstBytes(Buffer.from(bytes)).kind).toBe('malformed')
  })

  it('does not accept two server names, in one list or in two', () => {
    const build = (extensions: readonly (readonly [number, Buffer])[]): Buffer => {
      const parts = extensions.map(([type, content]) =>
        Buffer.concat([Buffer.from([type >> 8, type & 255, content.length >> 8, content.length & 255]), content]),
      )
      const all = Buffer.concat(parts)
      const body = Buffer.concat([
        Buffer.alloc(34, 3),
        Buffer.from([0, 0, 2, 0x13, 1, 1, 0, all.length >> 8, all.length & 255]),
        all,
      ])
      return asRecords(Buffer.concat([Buffer.from([1, 0, body.length >> 8, body.length & 255]), body]), 10_000)
    }
    const list = (...names: readonly string[]): Buffer => {
      const entries = Buffer.concat(
        names.map((name) => Buffer.from(`\0\0${String.fromCharCode(name.length)}${name}`, 'latin1')),
      )
      return Buffer.concat([Buffer.from([0, entries.length]), entries])
    }
    expect(readFirstBytes(build([[0, list('a.test')]]))).toMatchObject({ kind: 'hello', serverName: 'a.test' })
    expect(readFirstBytes(build([[0xfe0d, Buffer.alloc(3)]]))).toMatchObject({ kind: 'hello', hidesName: true })
    expect(readFirstBytes(build([[0, list('a.test', 'b.test')]])).kind).toBe('malformed')
    expect(
      readFirstBytes(
        build([
          [0, list('a.test')],
          [0, list('b.test')],
        ]),
      ).kind,
    ).toBe('malformed')
    expect(readFirstBytes(build([[0, Buffer.alloc(0)]])).kind).toBe('malformed')
  })

  it('gives up on a process that never finishes', () => {
    const endless = asRecords(Buffer.concat([Buffer.from([1, 0, 0x3f, 0xf0]), Buffer.alloc(HELLO_BYTES_MAX)]), 1)
    expect(readFirstBytes(endless.subarray(0, HELLO_BYTES_MAX + 1)).kind).toBe('malformed')
  })

  it('survives any bytes, and any change to a real hello', () => {
    const kinds = ['more', 'plain', 'malformed', 'hello']
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), (bytes) =>
        kinds.includes(readFirstBytes(Buffer.from(bytes)).kind),
      ),
    )
    fc.assert(
      fc.property(fc.nat(hello.length - 1), fc.integer({ min: 0, max: 255 }), (at, value) => {
        const changed = Buffer.from(hello)
        changed[at] = value
        return kinds.includes(readFirstBytes(changed).kind)
      }),
      { numRuns: 1000 },
    )
  })
})
