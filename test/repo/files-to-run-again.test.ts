import { expect, it } from 'vitest'
import { filesToRunAgain } from '../support/files-to-run-again.ts'

const two = { code: 1, filters: [], isLong: false, failed: ['a', 'b'] }

it('one or two failed files of everything run once more', () => {
  expect(filesToRunAgain(two)).toEqual(['a', 'b'])
})

it.each([
  ['all passed', { code: 0, failed: [] }],
  ['more failed', { failed: ['a', 'b', 'c'] }],
  ['something failed that is no file', { failed: undefined }],
  ['only some files were asked for', { filters: ['a'] }],
  ['it was the long run, which looks for rare failures', { isLong: true }],
])('nothing does if %s', (_, more) => {
  expect(filesToRunAgain({ ...two, ...more })).toEqual([])
})
