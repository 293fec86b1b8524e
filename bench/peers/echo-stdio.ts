/** The floor of stdio: reads JSON-RPC lines, answers each with its own params. No protocol, no validation. */
let rest = ''
process.stdin.setEncoding('utf8')
process.stdin.on('data', (chunk: string) => {
  const lines = (rest + chunk).split('\n')
  rest = lines.pop() ?? ''
  let out = ''
  for (const line of lines) {
    const request = JSON.parse(line) as { id?: number; params?: unknown }
    if (request.id !== undefined)
      out += `${JSON.stringify({ jsonrpc: '2.0', id: request.id, result: request.params })}\n`
  }
  if (out !== '') process.stdout.write(out)
})
