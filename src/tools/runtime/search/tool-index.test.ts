import { describe, expect, it } from 'vitest'
import { AppError } from '../../../contract/app-error.ts'
import type { ToolSearchRequest } from './search-request.ts'
import { buildToolIndex, type SearchableTool, type ToolSearchAnswer } from './tool-index.ts'

const tool = (name: string, description: string | null, more: Partial<SearchableTool> = {}): SearchableTool => ({
  name,
  title: null,
  description,
  inputSchema: { type: 'object', properties: {} },
  source: 'mcp',
  server: null,
  ...more,
})

const tools = [
  tool('task_create', 'Add a task to a project.', {
    source: 'archestra',
    title: 'Create a task',
    inputSchema: {
      type: 'object',
      properties: { title: { type: 'string', description: 'What is to be done' } },
      required: ['title'],
    },
  }),
  tool('task_list', 'Show tasks, filtered and sorted.', { source: 'archestra', title: 'List tasks' }),
  tool('github__search_repositories', 'Find GitHub repositories.', { server: 'github' }),
  tool('github__create_issue', 'Open an issue in a repository.', { server: 'github' }),
  tool('slack__send_message', 'Post a message to a channel.', { server: 'slack' }),
  tool('agent__uebersetzer', 'Übersetzt Texte ins Französische.', { source: 'agent_delegation' }),
  tool('wiki__kensaku', '社内の文書を検索します', { server: 'wiki' }),
  tool('run_report', null, { inputSchema: { properties: { mode: { enum: ['quarterly'] } } } }),
]
const index = buildToolIndex(tools)
const names = (answer: ToolSearchAnswer): string[] => answer.tools.map((found) => found.toolName)
const find = (query: string, more: Partial<ToolSearchRequest> = {}): string[] => names(index.search({ query, ...more }))

function refusalOf(request: ToolSearchRequest): AppError {
  try {
    index.search(request)
  } catch (error) {
    if (error instanceof AppError) return error
    throw error
  }
  throw new Error('not refused')
}

describe('keyword search', () => {
  it('answers in the documented shape', () => {
    expect(index.search({ query: 'quarterly' })).toEqual({
      total: 1,
      matchCount: 1,
      truncated: false,
      hint: null,
      tools: [
        { toolName: 'run_report', description: null, source: 'mcp', server: null, params: 'mode?:enum("quarterly")' },
      ],
    })
    expect(index.search({ query: 'task create', limit: 1 }).tools[0]).toEqual({
      toolName: 'task_create',
      description: 'Add a task to a project.',
      source: 'archestra',
      server: null,
      params: 'title!:string — What is to be done',
    })
  })

  it.each([
    ['task_create', 'task_create'],
    ['taskCreate', 'task_create'],
    ['creating tasks', 'task_create'],
    ['send slack messages', 'slack__send_message'],
    ['GITHUB search repos', 'github__search_repositories'],
    ['git hub repository lookup', 'github__search_repositories'],
    ['uebersetzer', 'agent__uebersetzer'],
    ['FRANZOSISCHE texte', 'agent__uebersetzer'],
    ['文書の検索', 'wiki__kensaku'],
    ['文', 'wiki__kensaku'],
    ['mesage to chanel', 'slack__send_message'],
    ['what is to be done', 'task_create'],
    ['ｔａｓｋ＿ｌｉｓｔ', 'task_list'],
  ])('%s finds %s first', (query, expected) => {
    expect(find(query)[0]).toBe(expected)
  })

  it('shows nothing of tools outside the visible set: not as results, counts, servers or readings', () => {
    const isVisible = (name: string): boolean => !name.startsWith('slack')
    const hidden = index.search({ query: 'mesage', isVisible })
    expect(hidden).toMatchObject({ total: 0, matchCount: 0, truncated: false, tools: [] })
    expect(hidden.hint).not.toContain('message')
    expect(hidden.hint).not.toContain('slack')
    expect(hidden.hint).toContain('github, wiki')
    expect(index.search({ query: 'slack', mode: 'regex', isVisible }).matchCount).toBe(0)
  })

  it('says what was cut, what was read differently and what matches nothing', () => {
    const cut = index.search({ query: 'task', limit: 1 })
    expect(cut).toMatchObject({ total: 1, truncated: true })
    expect(cut.matchCount).toBeGreaterThan(1)
    expect(cut.hint).toContain(`Showing 1 of ${cut.matchCount}`)
    expect(index.search({ query: 'mesage' }).hint).toBe('No tool text has "mesage"; it was read as "message".')
    const partly = index.search({ query: 'slack blockchain' })
    expect(names(partly)).toEqual(['slack__send_message'])
    expect(partly.hint).toBe('No tool text has: "blockchain".')
    const nothing = index.search({ query: 'blockchain' })
    expect(nothing.hint).toContain('No tool matches.')
    expect(nothing.hint).toContain('Connected servers: github, slack, wiki.')
    expect(nothing.hint).toContain('"blockchain"')
  })

  it('names at most ten servers', () => {
    const many = buildToolIndex(
      Array.from({ length: 13 }, (_, at) => tool(`s${at}__go`, 'Go', { server: `server${at + 10}` })),
    )
    const { hint } = many.search({ query: 'blockchain' })
    expect(hint).toContain('server10, ')
    expect(hint).toContain('server19 and 3 more')
    expect(hint).not.toContain('server20')
  })

  it('keeps the first of two tools with one name, and works without tools', () => {
    const twice = buildToolIndex([tool('same', 'first'), tool('same', 'second')])
    expect(twice.size).toBe(1)
    expect(twice.search({ query: 'same' }).tools[0]?.description).toBe('first')
    expect(buildToolIndex([]).search({ query: 'task' })).toMatchObject({ total: 0, matchCount: 0 })
  })

  it('settles ties by name, in whatever order the tools came', () => {
    const same = ['b', 'c', 'a'].map((name) => tool(`${name}_x`, 'Equal words'))
    const expected = ['a_x', 'b_x', 'c_x']
    expect(names(buildToolIndex(same).search({ query: 'equal' }))).toEqual(expected)
    expect(names(buildToolIndex(same.reverse()).search({ query: 'equal' }))).toEqual(expected)
  })

  it.each([
    [{ query: '   ' }, 'query'],
    [{ query: 'x'.repeat(201) }, 'query'],
    [{ query: 'x', limit: 0 }, 'limit'],
    [{ query: 'x', limit: 21 }, 'limit'],
    [{ query: 'x', limit: 1.5 }, 'limit'],
    [{ query: 'x', mode: 'fuzzy' as 'keyword' }, 'mode'],
  ])('refuses %j', (request, field) => {
    const error = refusalOf(request)
    expect(error.code).toBe('ERR_INVALID_INPUT')
    expect(error.details['field']).toBe(field)
    expect(error.message.startsWith(`${field}: must`)).toBe(true)
  })

  it('counts the trimmed query, and returns eight tools unless told', () => {
    expect(find(`${' '.repeat(300)}task_list`)[0]).toBe('task_list')
    const many = buildToolIndex(Array.from({ length: 30 }, (_, at) => tool(`t${at}`, 'Alike')))
    expect(many.search({ query: 'alike' })).toMatchObject({ total: 8, matchCount: 30, truncated: true })
    expect(many.search({ query: 'alike', limit: 20 }).tools).toHaveLength(20)
  })
})

describe('regex search', () => {
  it('ranks name before title before description, ties by name, in any case', () => {
    const ranked = buildToolIndex([
      tool('d', 'has NEEDLE'),
      tool('c', null, { title: 'Needle' }),
      tool('b_needle', null),
      tool('a', 'needle too'),
      tool('z', 'none'),
    ])
    expect(names(ranked.search({ query: 'needle', mode: 'regex' }))).toEqual(['b_needle', 'c', 'a', 'd'])
  })

  it('follows the pattern', () => {
    expect(find('^github__', { mode: 'regex' })).toEqual(['github__create_issue', 'github__search_repositories'])
    expect(find('^(task|slack)_', { mode: 'regex' })).toEqual(['slack__send_message', 'task_create', 'task_list'])
    expect(index.search({ query: '^nothing$', mode: 'regex' }).hint).toContain('looser pattern')
  })

  it.each(['(', '[a', '*', 'a{2,1}', '(?=x)', '\\1', '\\', 'a{1000}', '((x{10}){10}){10}'])(
    'refuses %s and names the field',
    (query) => {
      const error = refusalOf({ query, mode: 'regex' })
      expect(error.code).toBe('ERR_INVALID_INPUT')
      expect(error.details['field']).toBe('query')
      expect(error.message).toMatch(/^query: must be an? (RE2|smaller) .*mode "keyword"\.$/)
    },
  )
})
