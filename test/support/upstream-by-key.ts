import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'

/** What a key lists: descriptions by the names of the tools. */
type ToolsByKey = Record<string, Record<string, string>>

/** A third-party MCP server that lists other tools for each key in `X-Api-Key`; the lists may be changed. */
export async function startUpstreamByKey(tools: ToolsByKey) {
  const http = createServer((request, response) => {
    const key = String(request.headers['x-api-key'])
    const own = tools[key]
    if (own === undefined) return void response.writeHead(401).end()
    const server = new Server({ name: 'by-key', version: '1.0.0' }, { capabilities: { tools: {} } })
    server.setRequestHandler(ListToolsRequestSchema, () => ({
      tools: Object.entries(own).map(([name, description]) => ({
        name,
        description,
        inputSchema: { type: 'object' as const },
      })),
    }))
    server.setRequestHandler(CallToolRequestSchema, ({ params }) => ({
      content: [{ type: 'text' as const, text: `${params.name} as ${key}` }],
    }))
    const transport = new StreamableHTTPServerTransport()
    server
      .connect(transport as Transport)
      .then(() => transport.handleRequest(request, response))
      .catch((error: unknown) => response.writeHead(500).end(String(error)))
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    tools,
    async [Symbol.asyncDispose]() {
      http.closeAllConnections()
      await new Promise((resolve) => http.close(resolve))
    },
  }
}
export type UpstreamByKey = Awaited<ReturnType<typeof startUpstreamByKey>>
