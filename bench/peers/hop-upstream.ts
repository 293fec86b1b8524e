import { stdioServer } from './stdio-server.ts'

/** A small MCP server, behind which every contender of the hop is put: what is measured is the way to it. */
function makeTools() {
  const inputSchema = { type: 'object', properties: {} }
  return [
    { name: 'echo', description: 'Says it again.', inputSchema, annotations: { readOnlyHint: true } },
    // The same by a name without the declaration: a gateway cannot know that it changes nothing.
    { name: 'undeclared', description: 'Says it again.', inputSchema },
  ]
}

export const hopUpstream = stdioServer('bench', makeTools)
