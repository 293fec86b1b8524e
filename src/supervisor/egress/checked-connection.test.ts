import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { resolveByDns } from './checked-connection.ts'

/** A name server that knows one IPv4 and one IPv6 address of `known.test`, and of nothing else. */
let server: Socket
let asked: number

beforeEach(async () => {
  asked = 0
  server = createSocket('udp4')
  server.on('message', (query, peer) => {
    asked += 1
    const nameEnd = query.indexOf(0, 12) + 1
    const question = query.subarray(12, nameEnd + 4)
    const type = query.readUInt16BE(nameEnd)
    const address = type === 1 ? [192, 0, 2, 7] : [0x20, 1, 0xd, 0xb8, ...Array<number>(11).fill(0), 7]
    const isKnown = question.includes('known')
    const head = Buffer.from([0, 0, 0x81, isKnown ? 0x80 : 0x83, 0, 1, 0, isKnown ? 1 : 0, 0, 0, 0, 0])
    query.copy(head, 0, 0, 2)
    const answer = Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 60, 0, address.length, ...address])
    server.send(Buffer.concat([head, question, ...(isKnown ? [answer] : [])]), peer.port, peer.address)
  })
  server.bind(0, '127.0.0.1')
  await once(server, 'listening')
})
afterEach(async () => {
  server.close()
  await once(server, 'close')
})

describe('resolveByDns', () => {
  it('asks the given server for both families, IPv4 first', async () => {
    const resolve = resolveByDns([`127.0.0.1:${server.address().port}`])
    expect(await resolve('known.test')).toEqual(['192.0.2.7', '2001:db8::7'])
    expect(asked).toBe(2)
  })

  it('answers nothing for a name that is not there', async () => {
    const resolve = resolveByDns([`127.0.0.1:${server.address().port}`])
    expect(await resolve('absent.test')).toEqual([])
  })
})
