import { expect, it } from 'vitest'
import { readOutput } from './run-children.ts'

it('takes data out of the fence around it, and leaves other text as it is', () => {
  expect(readOutput('```json \n\n{"a":1}\n```')).toEqual({ a: 1 })
  expect(readOutput('```\nplain\n```')).toBe('plain')
  expect(readOutput(' [1] ')).toEqual([1])
  expect(readOutput('said ```{}```')).toBe('said ```{}```')
})

it('cannot be made to hang by a fence that is never closed', () => {
  const open = `\`\`\`${'\n'.repeat(300_000)}x`
  expect(readOutput(open)).toBe(open)
})
