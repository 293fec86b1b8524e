import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, it } from 'vitest'
import { systemRandom } from '../kernel/random.ts'
import { processNames } from './boot-id.ts'

it('a name says that its process has ended, but only where its pid means that process', async () => {
  const { own, hasEnded } = processNames(systemRandom)
  expect(hasEnded(own)).toBe(false)
  const child = spawn('true')
  await once(child, 'exit')
  const ofChild = own.replace(/^\d+/, String(child.pid))
  expect(hasEnded(ofChild)).toBe(true)
  // The pid was used again.
  expect(hasEnded(own.replace(/-\d+-/, '-1-'))).toBe(true)
  // On another machine, in another container, or listed by an older program.
  expect(hasEnded(ofChild.replace(/@.*$/, '@other pid:[1]'))).toBe(false)
  expect(hasEnded(ofChild.replace('pid:[', 'pid:[1'))).toBe(false)
  expect(hasEnded('process_abc')).toBe(false)
})
