import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { createSupervisorLog, LOG_BYTES_MAX } from './supervisor-log.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'castellan-log-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

it('keeps the end of what was said, in whole lines', () => {
  const path = join(folder, 'log')
  const file = openSync(path, 'a+')
  const log = createSupervisorLog(file)
  const words = 'x'.repeat(100_000)
  for (let number = 0; number < 150; number++) log.warn('said', { number, words })
  const { size } = statSync(path)
  expect(size).toBeLessThanOrEqual(LOG_BYTES_MAX + words.length + 1000)
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n')
  const numbers = lines.map((line) => (JSON.parse(line) as { number: number }).number)
  expect(numbers.at(-1)).toBe(149)
  expect(numbers).toEqual(numbers.map((_, index) => numbers[0]! + index))
  closeSync(file)
  // A log that cannot be written ends no process.
  log.error('into the void')
})
