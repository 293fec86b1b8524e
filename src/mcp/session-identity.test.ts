import { expect, it } from 'vitest'
import { limits } from '../contract/limits.ts'
import { isForgottenSession, newLineSession } from '../contract/line-session.ts'
import { localOwner } from '../contract/principal.ts'
import { inLineSession } from './session-identity.ts'

const NOW = 1_800_000_000_000
const contextOf = (session: string) => `session:${inLineSession(localOwner, session).mcpSessionId}`

it('a session over standard input has the time of its start in its context, and not its secret', () => {
  const session = newLineSession(NOW, 'secret')
  const context = contextOf(session)
  expect(context).toMatch(/^session:line-1800000000000-[0-9a-f]{32}$/)
  expect(contextOf(session)).toBe(context)
  expect(contextOf(newLineSession(NOW, 'other'))).not.toBe(context)
  expect(isForgottenSession(context, NOW + limits.lineSessionMs)).toBe(false)
  expect(isForgottenSession(context, NOW + limits.lineSessionMs + 1)).toBe(true)
})

it('a session of an earlier version has no time, and is never forgotten', () => {
  const context = contextOf('abcdefghijklmnop')
  expect(context).toMatch(/^session:[0-9a-f]{32}$/)
  expect(isForgottenSession(context, NOW * 2)).toBe(false)
})
