/** The official SDK 1.32 with one tool and nothing behind it: what its authors' own stack costs. */
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'

const server = new McpServer({ name: 'bare-sdk', version: '1.32' })
server.registerTool('server_ping', { description: 'Liveness check.', inputSchema: {} }, () => {
  const answer = { ok: true, timestamp: new Date().toISOString() }
  return { content: [{ type: 'text', text: JSON.stringify(answer) }], structuredContent: answer }
})
await server.connect(new StdioServerTransport())
