import type { IncomingMessage, ServerResponse } from 'node:http'
import { readBytes } from './read-json-body.ts'

const DROPPED = new Set([
  'connection',
  'content-length',
  'host',
  'keep-alive',
  'transfer-encoding',
  'upgrade',
  'origin',
])

/** Tells a library the client's address; the same header from a client is dropped. */
const CLIENT_ADDRESS_HEADER = 'x-castellan-client'

/** The headers of a request for a library with web requests, without transport headers. */
export function webHeaders(req: IncomingMessage, address: string): Headers {
  const headers = new Headers()
  for (const [name, value] of Object.entries(req.headers)) {
    if (value === undefined || DROPPED.has(name) || name.startsWith('x-')) continue
    for (const entry of [value].flat()) headers.append(name, entry)
  }
  headers.set(CLIENT_ADDRESS_HEADER, address)
  return headers
}

export async function readWebBody(req: IncomingMessage, bytesMax: number): Promise<Buffer | undefined> {
  return req.method === 'POST' ? await readBytes(req, bytesMax) : undefined
}

/** Sends what a library answered; it may set several cookies. */
export async function sendWebResponse(res: ServerResponse, response: Response): Promise<void> {
  const body = Buffer.from(await response.arrayBuffer())
  if (res.destroyed || res.headersSent) return
  const cookies = response.headers.getSetCookie()
  if (cookies.length > 0) res.setHeader('set-cookie', cookies)
  for (const [name, value] of response.headers) {
    if (name !== 'set-cookie' && name !== 'content-length') res.setHeader(name, value)
  }
  res.setHeader('cache-control', 'no-store')
  res.setHeader('x-content-type-options', 'nosniff')
  res.writeHead(response.status, { 'content-length': body.length }).end(body)
}
