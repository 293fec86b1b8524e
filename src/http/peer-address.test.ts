import { Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import { isLoopbackAddress, isLoopbackHost, markRelayed, peerAddressOf, relayRequiresKeys } from './peer-address.ts'

describe('isLoopbackAddress', () => {
  it.each(['127.0.0.1', '127.255.0.9', '::1', '::ffff:127.0.0.1', '::ffff:127.9.9.9'])('knows %s', (address) => {
    expect(isLoopbackAddress(address)).toBe(true)
  })
  it.each([
    '',
    '10.0.0.1',
    '127.0.0.1.example.com',
    '127.',
    '::ffff:10.0.0.1',
    '::2',
    '::',
    '0.0.0.0',
    'localhost',
    '::ffff:127.evil',
  ])('does not take %j for one', (address) => {
    expect(isLoopbackAddress(address)).toBe(false)
  })
})

describe('isLoopbackHost', () => {
  it.each(['localhost', '127.0.0.1', '::1', '[::1]'])('knows %s', (host) => expect(isLoopbackHost(host)).toBe(true))
  it.each(['0.0.0.0', '::', 'localhost.example.com', '192.168.1.2', 'castellan'])('does not take %s for one', (host) =>
    expect(isLoopbackHost(host)).toBe(false),
  )
})

describe('the peer of a socket', () => {
  it('is unknown for a socket that has no address, and unknown is not local', () => {
    expect(isLoopbackAddress(peerAddressOf(new Socket()))).toBe(false)
  })

  it('is what was noted when the connection was handed over', () => {
    const socket = new Socket()
    markRelayed(socket, { remoteAddress: '10.1.2.3' })
    expect([peerAddressOf(socket), relayRequiresKeys(socket)]).toEqual(['10.1.2.3', false])
    markRelayed(socket, { remoteAddress: '127.0.0.1', requireKeys: true })
    expect([peerAddressOf(socket), relayRequiresKeys(socket)]).toEqual(['127.0.0.1', true])
  })
})
