import type { IncomingMessage, ServerResponse } from 'node:http'

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
    if (!res.write(part.value)) await drained(res)
  }
  res.off('close', cancel)
  res.end()
}

/** Resolves when more can be written, or never will be. */
function drained(res: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      res.off('drain', done)
      res.off('close', done)
      resolve()
    }
    res.on('drain', done)
    res.on('close', done)
  })
}
