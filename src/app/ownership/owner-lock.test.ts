import { chmodSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { tryOwnerLock } from './owner-lock.ts'

let directory = ''
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'castellan-lock-'))
})
afterEach(() => rmSync(directory, { recursive: true, force: true }))

const modeOfLock = () => statSync(join(directory, 'owner.lock')).mode & 0o777

test('no other user can open the lock, nor one that an earlier version left open', () => {
  tryOwnerLock(directory)!.release()
  expect(modeOfLock()).toBe(0o600)
  chmodSync(join(directory, 'owner.lock'), 0o644)
  const lock = tryOwnerLock(directory)!
  expect(modeOfLock()).toBe(0o600)
  expect(tryOwnerLock(directory)).toBeUndefined()
  lock.release()
})
