import { expect, test } from 'vitest'
import { openTestApp } from '../support/app.ts'

test('a link that cannot be used is refused before a password is hashed', async () => {
  // Of this cost there is no hash: an attempt to create one fails.
  await using app = await openTestApp({ passwordCost: { log2N: 0, r: 8, p: 1 } })
  const password = 'correct horse battery'
  const refusal = await app.refusal('invitation_accept', { token: 'A'.repeat(43), password })
  expect(refusal).toMatchObject({ code: 'ERR_NOT_FOUND', details: { field: 'token' } })
  const { link } = await app.ask<{ link: string }>('invitation_create', { email: 'ada@example.com', role: 'member' })
  const token = link.split('/').at(-1)
  expect(await app.refusal('invitation_accept', { token, password })).toMatchObject({ code: 'ERR_INTERNAL' })
})
