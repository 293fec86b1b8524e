import type { IncomingMessage, ServerResponse } from 'node:http'
import { limits } from '../contract/limits.ts'

/** Between node:http and the web-standard interface of the SDK, for everything that is not a plain tool call. */

/**
 * The request without its body, which travels parsed. Aborted when the client disconnects before the response is
 * complete.
 */
export function webRequestOf(req: IncomingMessage, res: ServerResponse): Request {
  const headers = new Headers()
  for (const [name, value] of Object.entries(req.headers)) {
    if (name.startsWith(':') || value === undefined) continue
    headers.set(name, Array.isArray(value) ? value.join(', ') : value)
  }
  const disconnected = new AbortController()
  res.once('close', () => {
    if (!res.writableFinished) disconnected.abort(new Error('The client disconnected'))
  })
  const path = req.url?.startsWith('/') === true ? req.url : '/'
  return new Request(`http://localhost${path}`, { method: req.method ?? 'GET', headers, signal: disconnected.signal })
}

export async function sendWebResponse(response: Response, res: ServerResponse): Promise<void> {
  const { body } = response
  res.writeHead(response.status, Object.fromEntries(response.headers))
  if (body === null) {
    res.end()
    return
  }
  res.flushHeaders()
  const reader = body.getReader()
  const cancel = (): void => {
    reader.cancel().catch(() => {})
  }
  res.once('close', cancel)
  for (let part = await reader.read(); !part.done && !res.destroyed; part = await reader.read()) {
    writeBounded(res, part.value)
  }
  res.off('close', cancel)
  res.end()
}

/**
 * Who sends does not wait for the client: a server behind this one can say more than a client reads. So the parts do not wait either,
 * where nobody would count them, and a client that leaves too much unread is disconnected. One part may be of any length.
 */
export function writeBounded(res: ServerResponse, part: string | Uint8Array): void {
  if (res.writableLength > limits.mcpUnreadBytesMax) res.destroy()
  else res.write(part)
}
