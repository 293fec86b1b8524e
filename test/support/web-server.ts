import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { answering } from './answering.ts'

export type WebServer = AsyncDisposable &
  Readonly<{
    port: number
    at(path: string, host?: string): string
    requests: readonly IncomingMessage[]
    bodies: readonly string[]
  }>
export type Route = (request: IncomingMessage, response: ServerResponse) => void

/** A web server on one loopback address. */
export async function serveWeb(routes: Readonly<Record<string, Route>>, address = '127.0.0.1'): Promise<WebServer> {
  const requests: IncomingMessage[] = []
  const bodies: string[] = []
  const server = createServer(
    answering(async (request, response) => {
      requests.push(request)
      let body = ''
      for await (const chunk of request) body += chunk
      bodies.push(body)
      const route = routes[request.url!.split('?')[0]!]
      if (route === undefined) response.writeHead(404).end('nothing here')
      else route(request, response)
    }),
  )
  await new Promise<void>((resolve) => server.listen(0, address, resolve))
  const { port } = server.address() as AddressInfo
  return {
    port,
    requests,
    bodies,
    at: (path, host = address) => `http://${host}:${port}${path}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export const answer =
  (body: string | Buffer, type = 'text/plain; charset=utf-8', headers: Record<string, string> = {}): Route =>
  (_request, response) =>
    void response.writeHead(200, { 'content-type': type, ...headers }).end(body)

export const redirect =
  (location: string, status = 302): Route =>
  (_request, response) =>
    void response.writeHead(status, { location }).end()
