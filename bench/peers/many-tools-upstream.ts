/**
 * An MCP server over standard streams with very many tools, each with a description and arguments of an ordinary size. It is
 * handed over as text, because a workspace does not see this folder.
 */
function serve(): void {
  const count = Number(process.argv[1])
  const verbs = ['create', 'delete', 'update', 'list', 'find', 'archive', 'approve', 'assign', 'export', 'merge']
  const nouns = [
    'invoice',
    'ticket',
    'customer',
    'branch',
    'shipment',
    'contract',
    'meeting',
    'budget',
    'server',
    'photo',
  ]
  const folders = [
    'inbox',
    'region',
    'project',
    'quarter',
    'warehouse',
    'calendar',
    'backlog',
    'ledger',
    'cluster',
    'album',
  ]
  const tools = Array.from({ length: count }, (_, number) => {
    const pick = (words: string[], step: number): string => words[Math.floor(number / step) % words.length]!
    const [verb, noun, folder] = [pick(verbs, 1), pick(nouns, 10), pick(folders, 100)]
    const text = (description: string) => ({ type: 'string', description })
    return {
      name: [verb, noun, 'in', folder].join('_'),
      description: [
        'Use it to',
        verb,
        'a',
        noun,
        'in the',
        folder,
        'that the caller names.',
        'Answers what was changed.',
      ].join(' '),
      inputSchema: {
        type: 'object',
        properties: {
          [noun + '_id']: text('The id of the '.concat(noun, '.')),
          [folder]: text('The '.concat(folder, ' in which it is.')),
          note: text('Why, in a sentence, for those who read about it later.'),
          limit: { type: 'integer', minimum: 1, maximum: 100, description: 'How many at most.' },
        },
        required: [noun + '_id'],
      },
      annotations: { readOnlyHint: verb === 'list' || verb === 'find' },
    }
  })
  const answers: Record<string, (params: { protocolVersion?: string }) => object> = {
    initialize: ({ protocolVersion }) => ({
      protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: 'many', version: '1.0.0' },
    }),
    'tools/list': () => ({ tools }),
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
      process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, ...outcome }).concat('\n'))
    }
  })
}

/** The types are stripped as the file is loaded, so the text of the function is plain JavaScript. */
export const manyToolsUpstream = (count: number) =>
  ({ command: 'node', args: ['-e', `(${serve.toString()})()`, `${count}`] }) as const
