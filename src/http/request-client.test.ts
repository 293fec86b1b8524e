import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type HttpTransportApp, openHttpTransportApp } from '../../test/support/http-transport-peer.ts'
import type { HttpTransportDeps } from './create-http-transport.ts'
import { createRequestClients, isAddressRange } from './request-client.ts'

let peer: HttpTransportApp
beforeAll(async () => {
  peer = await openHttpTransportApp()
})
afterAll(() => peer.close())

/** What the welcome page calls the server, for a request with these headers. */
async function originShown(config: Partial<HttpTransportDeps>, headers: Record<string, string>): Promise<string> {
  const { url } = await peer.serve(config)
  const page = await (await fetch(url, { headers })).text()
  return /^ {2}(\S+)\/mcp$/m.exec(page)![1]!.replace(new URL(url).host, 'HERE')
}

/** A request as the check sees it; the peer is the address that connected. */
const requestFrom = (remoteAddress: string, headers: Record<string, string>) =>
  ({ socket: { remoteAddress }, headers }) as unknown as Parameters<
    ReturnType<typeof createRequestClients>['addressOf']
  >[0]

describe('a forwarded scheme', () => {
  it('counts from a trusted proxy alone', async () => {
    const headers = { 'x-forwarded-proto': 'https' }
    expect(await originShown({}, headers)).toBe('http://HERE')
    expect(await originShown({ trustedProxies: ['10.0.0.0/8'] }, headers)).toBe('http://HERE')
    expect(await originShown({ trustedProxies: ['127.0.0.0/8'] }, headers)).toBe('https://HERE')
    expect(await originShown({ trustedProxies: ['127.0.0.1'] }, {})).toBe('http://HERE')
  })

  it('gives way to the public URL', async () => {
    expect(await originShown({ publicUrl: 'https://castellan.example' }, {})).toBe('https://castellan.example')
  })
})

describe('the address of a client', () => {
  const clients = createRequestClients({ trustedProxies: ['10.0.0.0/8', '2001:db8::1'] })

  it.each([
    ['10.0.0.7', '203.0.113.9', '203.0.113.9'],
    ['::ffff:10.0.0.7', '203.0.113.9', '203.0.113.9'],
    ['2001:db8::1', '198.51.100.1, 203.0.113.9, 10.1.1.1', '203.0.113.9'],
    ['10.0.0.7', '127.0.0.1, 203.0.113.9', '203.0.113.9'],
    ['10.0.0.7', 'unknown', '10.0.0.7'],
    ['10.0.0.7', '10.2.2.2', '10.2.2.2'],
    ['203.0.113.50', '127.0.0.1', '203.0.113.50'],
    ['::ffff:203.0.113.50', '127.0.0.1', '203.0.113.50'],
  ])('from %s with X-Forwarded-For: %s is %s', (remote, forwarded, expected) => {
    expect(clients.addressOf(requestFrom(remote, { 'x-forwarded-for': forwarded }))).toBe(expected)
  })
})

it.each([
  ['10.0.0.1', true],
  ['10.0.0.0/8', true],
  ['::1', true],
  ['2001:db8::/32', true],
  ['10.0.0.0/33', false],
  ['10.0.0.0/8/8', false],
  ['proxy.example', false],
  ['', false],
])('%s is an entry of trusted_proxies: %s', (entry, expected) => {
  expect(isAddressRange(entry)).toBe(expected)
})
