import { expect, it } from 'vitest'
import { limits } from '../../contract/limits.ts'
import { newAnswer } from './response-chains.ts'

it('the arguments of a call that are too long to be kept are not known, and not none', () => {
  const { allow, calls } = newAnswer()
  for (const [id, length] of [
    ['short', 1],
    ['long', limits.responseCallCharsMax],
  ] as const)
    allow({ id, name: 'read', args: { path: 'a'.repeat(length) } })
  expect([...calls.values()]).toEqual([
    { id: 'short', name: 'read', args: { path: 'a' } },
    { id: 'long', name: 'read', args: undefined },
  ])
})
