import { expect, test } from 'vitest'
import { printRows } from './action-command.ts'
import type { CommandContext } from './context.ts'

/** What is printed to a terminal of that width; undefined is a pipe. */
function printed(invitations: object[], width: number | undefined): string {
  let text = ''
  const terminal = { width, out: (piece: string) => (text += piece) }
  printRows({ json: false, terminal } as unknown as CommandContext, { invitations }, 'invitations', [
    'email',
    'expires_at',
  ])
  return text
}

test('a table has times to the second, so that they fit', () => {
  const row = { email: 'ada@example.com', expires_at: '2026-11-25T09:19:02.268Z' }
  const table = 'EMAIL            EXPIRES_AT\nada@example.com  2026-11-25T09:19:02Z\n'
  expect(printed([row], 80)).toBe(table)
  expect(printed([row], undefined)).toBe(table)
})

test('of nothing, a person is told so, and a program gets the headings', () => {
  expect(printed([], 80)).toBe('No invitations.\n')
  expect(printed([], undefined)).toBe('EMAIL  EXPIRES_AT\n')
})

test('of a long list the first page is shown, with the call that shows the next', () => {
  const said: string[] = []
  const terminal = { width: 80, out() {}, error: (piece: string) => said.push(piece) }
  const shown = (more: object, tenant?: string) => {
    const context = { json: false, terminal, parsed: { text: () => tenant } } as unknown as CommandContext
    printRows(context, { keys: [{ id: 'a' }], total: 7, ...more }, 'keys', ['id'])
    return said.splice(0)
  }
  expect(shown({ truncated: false, next_cursor: null })).toEqual([])
  const next = 'These are the first 1 of 7. For the next: castellan call api_key_list cursor=abc'
  expect(shown({ truncated: true, next_cursor: 'abc' })).toEqual([`${next}\n`])
  expect(shown({ truncated: true, next_cursor: 'abc' }, 'acme')).toEqual([`${next} tenant=acme\n`])
})
