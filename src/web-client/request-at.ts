import type { ClientRequest, IncomingMessage } from 'node:http'
import { request as requestHttps } from 'node:https'
import { isIP } from 'node:net'
import { request as requestHttp } from '../kernel/node-http.ts'
import { isOwnAddress } from '../kernel/own-addresses.ts'
import { isPublicAddress } from '../kernel/public-address.ts'

type Sent = Readonly<{
  method: string
  headers: Readonly<Record<string, string>>
  body: Buffer | undefined
  signal: AbortSignal
}>

/** On the open internet, and not this machine. */
export const isOpenAddress = (address: string): boolean => isPublicAddress(address) && !isOwnAddress(address)

/**
 * What a request to this machine or its network has to say: it is made for a caller, and not by the owner of this machine. A
 * server like this one takes a local program for the owner, unless the request was forwarded.
 */
const forwardedHeaders = (address: string): Readonly<Record<string, string>> =>
  isOpenAddress(address) ? {} : { via: '1.1 castellan' }

/** Sends a request to the address that was checked, whatever the name of its host resolves to by now. */
export function requestAt(
  url: URL,
  address: string,
  { method, headers, body, signal }: Sent,
): Promise<IncomingMessage> {
  const isSecure = url.protocol === 'https:'
  const host = url.hostname.replace(/^\[|\]$/g, '')
  return new Promise((resolve, reject) => {
    const sent: ClientRequest = (isSecure ? requestHttps : requestHttp)({
      host: address,
      port: url.port === '' ? (isSecure ? 443 : 80) : Number(url.port),
      path: `${url.pathname}${url.search}`,
      method,
      headers: {
        ...headers,
        ...(body === undefined ? {} : { 'content-length': String(body.length) }),
        ...forwardedHeaders(address),
      },
      // A certificate must be for the name that was asked for, not for the address that it has.
      ...(isSecure && isIP(host) === 0 ? { servername: host } : {}),
      agent: false,
      signal,
    })
    sent.on('response', resolve)
    sent.on('error', reject)
    sent.end(body)
  })
}
