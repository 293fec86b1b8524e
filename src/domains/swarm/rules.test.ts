import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checkName } from '../workspaces/rules.ts'
import { checkTasks, workerNames } from './rules.ts'

const SWARM = 'swarm-0123456789ab'
const task = (name: string, env?: Record<string, string>) => ({ name, command: 'true', env })

describe('the names of workers', () => {
  it('are the swarm and the task', () => {
    expect(workerNames(SWARM, ['lint', 'unit_tests', 'v1.2'])).toEqual([
      `${SWARM}-lint`,
      `${SWARM}-unit_tests`,
      `${SWARM}-v1.2`,
    ])
  })

  it('are valid host names and all different, whatever the tasks are called', () => {
    const names = fc.oneof(fc.string({ unit: 'grapheme' }), fc.stringMatching(/^[aA!?-]{0,3}[1-4]?$/), fc.string())
    fc.assert(
      fc.property(fc.uniqueArray(names, { maxLength: 20 }), (taskNames) => {
        const found = workerNames(SWARM, taskNames)
        expect(new Set(found).size).toBe(taskNames.length)
        for (const name of found) {
          expect(checkName('name', name)).toBe(name)
          expect(name.length).toBeLessThanOrEqual(64)
          expect(name.startsWith(`${SWARM}-`)).toBe(true)
        }
      }),
    )
  })
})

describe('the tasks of a swarm', () => {
  it('have names of their own, with something to see, and variables by the rules of exec', () => {
    expect(() => checkTasks([task('a'), task('b', { GOOD: '1' })])).not.toThrow()
    expect(() => checkTasks([task('a'), task('b'), task('a')])).toThrow(/^tasks\.2\.name: 'a' occurs twice/)
    expect(() => checkTasks([task(' \n')])).toThrow(/^tasks\.0\.name: /)
    expect(() => checkTasks([task('a'), task('b', { PATH: '/evil' })])).toThrow(/^tasks\.1\.env: PATH /)
  })
})
