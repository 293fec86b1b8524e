type Tools = readonly Readonly<Record<string, unknown>>[]

/** An MCP server over standard streams that answers at once. It uses nothing outside its own text. */
function serve(name: string, tools: Tools): void {
  const answers: Record<string, (params: { protocolVersion?: string }) => object> = {
    initialize: ({ protocolVersion }) => ({
      protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name, version: '1.0.0' },
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

/**
 * The command of a server with these tools, which `makeTools` makes from the arguments of the command. It is handed over as text,
 * because a workspace does not see this folder. The types are stripped as the file is loaded, so the text of a function is plain
 * JavaScript.
 */
export const stdioServer = (name: string, makeTools: () => Tools, args: readonly string[] = []) => ({
  command: 'node',
  args: ['-e', `(${serve.toString()})(${JSON.stringify(name)}, (${makeTools.toString()})())`, ...args],
})
