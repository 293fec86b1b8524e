import type { IncomingMessage, ServerResponse } from 'node:http'
import { limits } from '../contract/limits.ts'
import type { Answer } from './exchange/answer.ts'
import type { RequestHead } from './exchange/request-head.ts'
import { headersFor, sendJson } from './exchange/send-text.ts'
import type { HttpError } from './to-http-error.ts'

const SMALL_BODY_BYTES = 64 * 1024

/** Untrusted content: a browser must neither show it as a page nor sniff its type. */
export function sendFile(res: ServerResponse, { bytes, isText }: Readonly<{ bytes: Buffer; isText: boolean }>): void {
  if (res.destroyed || res.headersSent) return
  const headers = {
    'content-type': isText ? 'text/plain; charset=utf-8' : 'application/octet-stream',
    'content-length': bytes.length,
    'content-disposition': 'attachment',
    'content-security-policy': "default-src 'none'; sandbox",
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  }
  res.writeHead(200, headers).end(bytes)
}

/**
 * A refusal may come before the body was read. node:http reads and drops a small rest and keeps the connection. A large rest ends
 * the connection, but only after reading on for a moment: otherwise a client that still sends sees a broken connection instead of
 * the reason.
 */
export function sendError(req: RequestHead | IncomingMessage, res: Answer, error: HttpError): void {
  if (res.headersSent || res.destroyed) {
    res.destroy()
    return
  }
  if (!isReadBy(req) || !hasLargeRest(req)) {
    sendJson(res, error.status, error.json, error.headers)
    return
  }
  res.writeHead(
    error.status,
    headersFor('application/json', Buffer.byteLength(error.json), { ...error.headers, connection: 'close' }),
  )
  res.write(Buffer.from(error.json))
  const finish = (): void => {
    clearTimeout(timer)
    res.end()
  }
  const timer = setTimeout(finish, limits.httpLingerMs)
  req.once('end', finish).once('close', finish).resume()
}

/** `node:http` reads it. Any other request was read whole. */
const isReadBy = (req: RequestHead | IncomingMessage): req is IncomingMessage => 'complete' in req

function hasLargeRest(req: IncomingMessage): boolean {
  if (req.complete) return false
  return req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length']) > SMALL_BODY_BYTES
}
