import { describe, expect, it } from 'vitest'
import { answerTable } from './answer-table.ts'

const tasks = [
  { task_id: 'T-0001', title: 'Write', labels: ['a', 'b'], body: { deep: 1 } },
  { task_id: 'T-0002', title: 'Read', labels: [], body: { deep: 2 } },
]

describe('an answer as a table', () => {
  it('has a row for each item, and what stands beside the list below it', () => {
    expect(answerTable({ tasks, total: 2, next_cursor: null }, 80)).toBe(
      'TASK_ID  TITLE  LABELS\nT-0001   Write  a, b\nT-0002   Read\ntotal: 2\nnext_cursor:\n'.replace(
        'next_cursor:\n',
        'next_cursor: \n',
      ),
    )
  })

  it('says which columns do not fit', () => {
    expect(answerTable({ tasks }, 14)).toBe(
      'TASK_ID  TITLE\nT-0001   Write\nT-0002   Read\nNot shown: labels. Use --json for everything.\n',
    )
  })

  it('lets no row write to the terminal', () => {
    const table = answerTable({ tasks: [{ title: 'a\u001b[31m\nb\u202ec' }] }, 80)
    expect(table).toBe('TITLE\na [31m b c\n')
  })

  it.each([
    ['no list', { ok: true }],
    ['an empty list', { tasks: [] }],
    ['two lists', { tasks, others: tasks }],
    ['an object beside it', { tasks, page: { size: 1 } }],
    ['a list of words', { names: ['a', 'b'] }],
  ])('is not made of %s', (_what, answer) => expect(answerTable(answer, 80)).toBeUndefined())
})
