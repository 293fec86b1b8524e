import { expect, test } from 'vitest'
import { openTestApp } from '../support/app.ts'

type Page = { users: { email: string }[]; total: number; truncated: boolean; next_cursor: string | null }

test('a list of people is read page by page, and says how many there are', async () => {
  await using app = await openTestApp()
  for (const name of ['ada', 'bob', 'cy']) {
    await app.ask('user_create', { email: `${name}@example.com`, role: name === 'cy' ? 'editor' : 'member' })
  }
  const page = async (args: object) => await app.ask<Page>('user_list', args)
  const first = await page({ limit: 2 })
  expect(first).toMatchObject({ total: 3, truncated: true })
  expect(first.users.map(({ email }) => email)).toEqual(['ada@example.com', 'bob@example.com'])
  const rest = await page({ limit: 2, cursor: first.next_cursor })
  expect(rest).toMatchObject({ users: [{ email: 'cy@example.com' }], total: 3, truncated: false, next_cursor: null })
  expect(await page({ name: 'BOB' })).toMatchObject({ users: [{ email: 'bob@example.com' }], total: 1 })
  expect(await page({ role: 'editor' })).toMatchObject({ users: [{ email: 'cy@example.com' }], total: 1 })
  const { failure } = await app.call('user_list', { cursor: 'bm90IG91cnM' })
  expect(failure).toMatchObject({ code: 'ERR_INVALID_INPUT', details: { field: 'cursor' } })
  expect(await app.ask('role_list', { name: 'edit' })).toMatchObject({ roles: [{ name: 'editor' }], total: 1 })
})
