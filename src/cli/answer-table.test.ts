import { describe, expect, it } from 'vitest'
import { answerTable } from './answer-table.ts'

const tasks = [
  { task_id: 'T-0001', title: 'Write', labels: ['a', 'b'], body: { deep: 1 } },
  { task_id: 'T-0002', title: 'Read', labels: [], body: { deep: 2 } },
]

describe('an answer as a table', () => {
  it('has a row for each item, and what stands beside the list below it', () => {
    expect(answerTable({ tasks, total: 2, next_cursor: null }, 80)).toBe(
      [
        'TASK_ID  TITLE  LABELS  BODY',
        'T-0001   Write  a, b    {"deep":1}',
        'T-0002   Read           {"deep":2}',
        'total: 2',
        '',
      ].join('\n'),
    )
  })

  it('says which columns do not fit', () => {
    expect(answerTable({ tasks }, 14)).toBe(
      'TASK_ID  TITLE\nT-0001   Write\nT-0002   Read\nNot shown: labels, body. Use --json for everything.\n',
    )
  })

  it('shows what something is called and how it is before ids, and cuts the last column', () => {
    const one = { id: 'r-1', workflowId: 'f'.repeat(36), workflow_name: 'release', payload: { reason: 'x'.repeat(60) } }
    expect(answerTable({ runs: [one] }, 40)).toBe(
      `ID   WORKFLOW_NAME  PAYLOAD\nr-1  release        {"reason":"xxxxxxxx…\nNot shown: workflowId. Use --json for everything.\n`,
    )
  })

  it('separates the words of a heading, and leaves out what is empty everywhere', () => {
    expect(answerTable({ limits: [{ entityType: 'team', models: [], parts: {}, note: null }] }, 80)).toBe(
      'ENTITY_TYPE\nteam\n',
    )
  })

  it('shows a name in either spelling before what it measures', () => {
    expect(answerTable({ limits: [{ entityType: 'team', used: 1, limitValue: 5, entityName: 'design' }] }, 80)).toBe(
      'ENTITY_TYPE  ENTITY_NAME  USED  LIMIT_VALUE\nteam         design       1     5\n',
    )
  })

  it('has totals below it', () => {
    expect(answerTable({ runs: [{ name: 'a' }], totals: { runs: 1, cost_usd: 0.5, saved: null } }, 80)).toBe(
      'NAME\na\ntotals: runs 1, cost_usd 0.5\n',
    )
    expect(answerTable({ runs: [{ name: 'a' }], owner: { name: 'b' } }, 80)).toBeUndefined()
  })

  it('of nothing says so', () => {
    expect(answerTable({ openRuns: [], total: 0 }, 80)).toBe('No open runs.\ntotal: 0\n')
  })

  it('shows what is used, left and spent before other fields, and long ids last', () => {
    const limit = {
      id: 'f'.repeat(36),
      entityType: 'team',
      entityId: 'e'.repeat(36),
      limitType: 'token_cost',
      limitValue: 5,
      cleanupInterval: '1d',
      used: 1.5,
      remaining: 3.5,
      resetsAt: '2030-01-02T00:00:00.000Z',
    }
    expect(answerTable({ limits: [limit] }, 80)).toBe(
      [
        'ENTITY_TYPE  USED  REMAINING  RESETS_AT             LIMIT_TYPE  LIMIT_VALUE',
        'team         1.5   3.5        2030-01-02T00:00:00Z  token_cost  5',
        'Not shown: cleanupInterval, id, entityId. Use --json for everything.',
        '',
      ].join('\n'),
    )
    const request = {
      id: 'f'.repeat(36),
      at: '2030-01-02T03:04:05.678Z',
      actor: 'owner',
      provider: 'near',
      model: 'large-2',
      outcome: 'answered',
      tokens: { input: 1200, output: 34, cache_read: 0, cache_write: 0, reasoning: 0, estimated: false },
      cost_usd: 0.0125,
      duration_ms: 12,
    }
    expect(answerTable({ interactions: [request], next_cursor: null }, 80)).toBe(
      [
        'AT                    OUTCOME   MODEL    TOKENS           COST_USD  ACTOR',
        '2030-01-02T03:04:05Z  answered  large-2  1200 in, 34 out  0.0125    owner',
        'Not shown: provider, duration_ms, id. Use --json for everything.',
        '',
      ].join('\n'),
    )
  })

  it('is made of a list that what was asked for precedes', () => {
    expect(answerTable({ tool: 'logs', execution_id: 'e', total: 0, events: [] }, 80)).toBe(
      'No events.\ntool: logs\nexecution_id: e\ntotal: 0\n',
    )
  })

  it('lets no row write to the terminal', () => {
    const table = answerTable({ tasks: [{ title: 'a\u001b[31m\nb\u202ec' }] }, 80)
    expect(table).toBe('TITLE\na [31m b c\n')
  })

  it.each([
    ['no list', { ok: true }],
    ['two empty lists', { succeeded: [], failed: [] }],
    ['two lists', { tasks, others: tasks }],
    ['an object beside it', { tasks, page: { size: 1 } }],
    ['one thing with an empty list', { exit_code: 0, stdout: 'hi', truncated: false, limits_hit: [], duration_ms: 3 }],
    ['one thing with a list of its parts', { id: 'u-1', name: 'design', members: [{ email: 'a@b.example' }] }],
    ['a list of words', { names: ['a', 'b'] }],
  ])('is not made of %s', (_what, answer) => expect(answerTable(answer, 80)).toBeUndefined())
})
