import type { IncomingMessage, ServerResponse } from 'node:http'

/** CORS headers. They are sent only to origins that were allowed. */
const EXPOSED_HEADERS = 'Mcp-Session-Id, Mcp-Protocol-Version, WWW-Authenticate, Retry-After, Castellan-Warning'
const REQUEST_HEADERS = new Set(['accept', 'authorization', 'content-type', 'last-event-id', 'x-api-key'])
const PREFLIGHT_SECONDS = '600'

export function allowOrigin(res: ServerResponse, origin: string): void {
  res.setHeader('access-control-allow-origin', origin)
  res.setHeader('access-control-expose-headers', EXPOSED_HEADERS)
  res.setHeader('vary', 'Origin')
}

/** Any OPTIONS request: the methods of the route, and for an allowed origin what its page may send. */
export function answerOptions(req: IncomingMessage, res: ServerResponse, methods: readonly string[]): void {
  const allow = methods.join(', ')
  res.setHeader('allow', allow)
  if (req.headers.origin !== undefined && req.headers['access-control-request-method'] !== undefined) {
    res.setHeader('access-control-allow-methods', allow)
    res.setHeader('access-control-allow-headers', allowedHeaders(req.headers['access-control-request-headers']))
    res.setHeader('access-control-max-age', PREFLIGHT_SECONDS)
    res.setHeader('vary', 'Origin, Access-Control-Request-Headers')
    if (req.headers['access-control-request-private-network'] === 'true') {
      res.setHeader('access-control-allow-private-network', 'true')
    }
  }
  res.writeHead(204).end()
}

/** The protocol's own headers all begin with `mcp-`, in later revisions too. */
function allowedHeaders(requested: string | undefined): string {
  const names = (requested ?? '')
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
  return names.filter((name) => REQUEST_HEADERS.has(name) || /^mcp-[a-z0-9-]+$/.test(name)).join(', ')
}
