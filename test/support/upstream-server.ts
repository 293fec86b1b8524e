import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { z } from 'zod'
import { answering } from './answering.ts'

/** A small third-party MCP server, on a port of its own. */
export type UpstreamServer = AsyncDisposable &
  Readonly<{
    url: string
    /** The calls that it has seen, by name. */
    calls: readonly Readonly<{ name: string; args: unknown }>[]
    /** Offers one tool more from now on. */
    add(name: string): void
  }>

const text = (said: string) => ({ type: 'text' as const, text: said })

const register = (server: McpServer, name: string): unknown =>
  server.registerTool(name, { description: `The tool ${name}.` }, () => ({ content: [text(name)] }))

export async function startUpstreamServer(): Promise<UpstreamServer> {
  const calls: { name: string; args: unknown }[] = []
  const added: string[] = []

  function makeServer(): McpServer {
    const server = new McpServer({ name: 'weather', version: '1.0.0' })
    const city = z.string().min(2).describe('The city.')
    server.registerTool(
      'forecast',
      { description: 'Tells the weather of a city.', inputSchema: { city }, outputSchema: { degrees: z.number() } },
      (args) => {
        calls.push({ name: 'forecast', args })
        return { content: [text(`21 degrees in ${args.city}`)], structuredContent: { degrees: 21 } }
      },
    )
    const annotations = { readOnlyHint: true }
    server.registerTool('radar', { description: 'A picture of the rain.', annotations }, () => {
      calls.push({ name: 'radar', args: {} })
      const picture = { type: 'image' as const, data: 'aGk=', mimeType: 'image/png' }
      return { content: [text('rain'), picture], _meta: { 'example.org/source': 'radar' } }
    })
    server.registerTool('broken', { description: 'Always fails.', annotations }, () => ({
      content: [text('the station is down')],
      isError: true,
    }))
    server.registerTool(
      'slow',
      { description: 'Reports progress, then waits until it is cancelled.' },
      async (extra) => {
        const progressToken = extra._meta?.progressToken
        if (progressToken !== undefined) {
          await extra.sendNotification({
            method: 'notifications/progress',
            params: { progressToken, progress: 1, total: 2, message: 'measuring' },
          })
        }
        await new Promise((resolve) => extra.signal.addEventListener('abort', resolve, { once: true }))
        calls.push({ name: 'slow cancelled', args: {} })
        return { content: [] }
      },
    )
    for (const name of added) register(server, name)
    return server
  }

  const sessions = new Map<string, StreamableHTTPServerTransport>()
  const servers = new Map<string, McpServer>()
  async function openSession(): Promise<StreamableHTTPServerTransport> {
    const server = makeServer()
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized(id) {
        sessions.set(id, transport)
        servers.set(id, server)
      },
    })
    await server.connect(transport as Transport)
    return transport
  }
  const http = createServer(
    answering(async (req, res) => {
      const known = sessions.get(String(req.headers['mcp-session-id']))
      await (known ?? (await openSession())).handleRequest(req, res)
    }),
  )
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    calls,
    add(name) {
      added.push(name)
      for (const server of servers.values()) register(server, name)
    },
    async [Symbol.asyncDispose]() {
      http.closeAllConnections()
      await new Promise((resolve) => http.close(resolve))
    },
  }
}
