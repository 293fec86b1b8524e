import { stdioServer } from './stdio-server.ts'

/** Very many tools, each with a description and arguments of an ordinary size. */
function makeTools() {
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
  return Array.from({ length: count }, (_, number) => {
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
}

export const manyToolsUpstream = (count: number) => stdioServer('many', makeTools, [`${count}`])
