import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { createServer } from '../../kernel/node-http.ts'
import { createRequestCheck } from '../host-check.ts'
import { createRouteTable } from '../route-table.ts'
import { sendError } from '../send.ts'
import { toHttpError } from '../to-http-error.ts'
import { type AuthorizationPageDeps, createAuthorizationPages } from './authorization-page.ts'
import { createSecretLinkRoutes, type SecretLinkDeps } from './secret-link-page.ts'

/** Serves the pages of one-time links, and nothing else, on a separate loopback port, from the first link on. */
type LinkListener = Readonly<{ origin(): Promise<string>; close(): Promise<void> }>

export function createLinkListener(deps: SecretLinkDeps & AuthorizationPageDeps): LinkListener {
  const table = createRouteTable([...createSecretLinkRoutes(deps), ...createAuthorizationPages(deps)])
  const requestCheck = createRequestCheck({ allowedHosts: [], allowedOrigins: [] })
  let listening: Promise<Server> | undefined

  function handle(req: IncomingMessage, res: ServerResponse): void {
    try {
      requestCheck.check(req, false)
      const { url = '/', method = 'GET' } = req
      const path = url.split('?', 1)[0]!
      const route = table.find(path)
      if (route === undefined) throw new AppError('ERR_ROUTE_NOT_FOUND', 'There is nothing at this address.')
      if (!route.methods.includes(method) || method === 'OPTIONS') {
        throw new AppError('ERR_METHOD_NOT_ALLOWED', 'This address accepts GET and POST.')
      }
      void route.serve({ req, res, path, url, params: route.params })
    } catch (error) {
      sendError(req, res, toHttpError(error, deps))
    }
  }

  async function listen(): Promise<Server> {
    const server = createServer(
      {
        maxHeaderSize: limits.httpHeaderBytesMax,
        headersTimeout: limits.httpHeadersTimeoutMs,
        requestTimeout: limits.httpRequestTimeoutMs,
        keepAliveTimeout: limits.httpKeepAliveMs,
      },
      handle,
    )
    server.maxConnections = limits.linkConnectionsMax
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(0, '127.0.0.1', resolve)
    })
    server.unref()
    return server
  }

  return {
    async origin() {
      listening ??= listen()
      return `http://127.0.0.1:${((await listening).address() as AddressInfo).port}`
    },
    async close() {
      const server = await listening?.catch(() => undefined)
      if (server === undefined) return
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
