import type { AddressInfo } from 'node:net'
import { createServer } from '../../kernel/node-http.ts'

/** The authorisation server's answer to the request with this state, through the browser. */
type RedirectListener = AsyncDisposable &
  Readonly<{
    redirectUri: string
    /** Resolves with the parameters of the answer. Any other request is refused and changes nothing. */
    answer: Promise<URLSearchParams>
  }>

const POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"
const PATH = '/callback'

/** Listens on a free port of this machine's loopback address (RFC 8252, section 7.3). */
export async function listenForRedirect(state: string): Promise<RedirectListener> {
  const { promise: answer, resolve } = Promise.withResolvers<URLSearchParams>()
  const server = createServer({ requestTimeout: 10_000 }, (req, res) => {
    const { pathname, searchParams } = new URL(req.url ?? '/', 'http://127.0.0.1')
    const isOurs = req.method === 'GET' && pathname === PATH && searchParams.get('state') === state
    const isAllowed = searchParams.has('code')
    const [status, title, text] = isOurs
      ? isAllowed
        ? [200, 'Signed in', 'Castellan has the answer. You can close this page and go back to the terminal.']
        : [200, 'Not signed in', 'You did not allow Castellan to act for you. You can close this page.']
      : [
          404,
          'Nothing here',
          'This page waits for the answer to a Castellan sign-in. This request was not that answer.',
        ]
    res.writeHead(status, {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': POLICY,
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
      connection: 'close',
    })
    res.end(page(title, text), () => isOurs && resolve(searchParams))
  })
  server.maxConnections = 16
  await new Promise<void>((listening, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', listening)
  })
  const { port } = server.address() as AddressInfo
  return {
    redirectUri: `http://127.0.0.1:${port}${PATH}`,
    answer,
    async [Symbol.asyncDispose]() {
      server.close()
      server.closeAllConnections()
    },
  }
}

const page = (title: string, text: string): string =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title><body style="font:1rem/1.5 system-ui;margin:3rem auto;max-width:30rem;padding:0 1rem"><h1>${title}</h1><p>${text}</p></body></html>`
