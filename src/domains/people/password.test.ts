import { expect, test } from 'vitest'
import { systemRandom } from '../../kernel/random.ts'
import { createPasswords } from './password.ts'

test('are hashed at their full cost unless another is given, and compared at the cost that they were hashed at', async () => {
  const [usual, cheap] = [createPasswords(systemRandom), createPasswords(systemRandom, { log2N: 4, r: 8, p: 1 })]
  const [usualHash, cheapHash] = await Promise.all([usual.hash('correct horse'), cheap.hash('correct horse')])
  expect(usualHash).toMatch(/^scrypt\$15\$8\$3\$/)
  expect(cheapHash).toMatch(/^scrypt\$4\$8\$1\$/)
  expect(await usual.verify(cheapHash, 'correct horse')).toBe(true)
  expect(await cheap.verify(usualHash, 'correct horse')).toBe(true)
  expect(await usual.verify(cheapHash, 'wrong horse')).toBe(false)
})
