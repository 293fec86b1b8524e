import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { AppError } from './app-error.ts'
import { inWords, isDamage, systemFault } from './system-fault.ts'

const ofSqlite = (errcode: number): Error => Object.assign(new Error('words of SQLite'), { errcode })

it('an error of the system names the place and the next step', () => {
  try {
    readFileSync('/')
    expect.unreachable()
  } catch (error) {
    const fault = systemFault(error, '/place')!
    expect(fault.code).toBe('ERR_INIT_FAILED')
    expect(fault.message).toMatch(/^\/place is a directory.*\(EISDIR\)\. .*--data-dir/)
  }
})

it('an error of SQLite is known by its result, whatever it adds to that', () => {
  expect(systemFault(ofSqlite(13), 'It')?.message).toBe(
    'It is on a disk that is full (words of SQLite). Free some space there, or choose another directory with --data-dir, then start again.',
  )
  expect(systemFault(ofSqlite(522), 'It')?.message).toMatch(/^It cannot be read or written/)
  expect([11, 26, 267, 13].map((code) => isDamage(ofSqlite(code)))).toEqual([true, true, true, false])
})

it('what is none of the machine is left as it is', () => {
  const ours = new AppError('ERR_NOT_FOUND', 'gone')
  for (const error of [
    ours,
    new TypeError('x'),
    Object.assign(new Error('x'), { code: 'ERR_NODE' }),
    'text',
    ofSqlite(1),
  ])
    expect(inWords(error)).toBe(error)
})
