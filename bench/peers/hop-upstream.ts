/**
 * A small MCP server over standard streams, behind which every contender of the hop is put: it answers at once, so what is
 * measured is the way to it. It is handed over as text, because a workspace does not see this folder.
 */
function serve(): void {
  const inputSchema = { type: 'object', properties: {} }
  const tools = [
    { name: 'echo', description: 'Says it again.', inputSchema, annotations: { readOnlyHint: true } },
    // The same by a name without the declaration: a gateway cannot know that it changes nothing.
    { name: 'undeclared', description: 'Says it again.', inputSchema },
  ]
  const answers: Record<string, (params: { protocolVersion?: string }) => object> = {
    initialize: ({ protocolVersion }) => ({
      protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: 'bench', version: '1.0.0' },
    }),
    'tools/list': () => ({ tools }),
    'tools/call': () => ({ content: [{ type: 'text', text: 'again' }] }),
    ping: () => ({}),
  }
  let rest = ''
  process.stdin.setEncoding('utf8').on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const { id, method, params } = JSON.parse(line)
      if (id === undefined) continue
      const answer = answers[method]
      const outcome = answer
        ? { result: answer(params ?? {}) }
        : { error: { code: -32601, message: 'There is no such method.' } }
      // One of the contenders reads a dollar sign with braces as a variable of its own.
      const text = JSON.stringify({ jsonrpc: '2.0', id, ...outcome })
      process.stdout.write(text.concat('\n'))
    }
  })
}

/** The types are stripped as the file is loaded, so the text of the function is plain JavaScript. */
export const hopUpstream = { command: 'node', args: ['-e', `(${serve.toString()})()`] } as const
