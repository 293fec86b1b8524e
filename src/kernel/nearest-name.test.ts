import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { editDistance, nameWords, nearestName, nearestNames, squashName } from './nearest-name.ts'

describe('nearestName', () => {
  const names = ['task_id', 'title', 'description', 'priority', 'fs.read', 'parent_id']
  it.each([
    ['taskId', 'task_id'],
    ['TASK-ID', 'task_id'],
    ['task', 'task_id'],
    ['descripton', 'description'],
    ['prioirty', 'priority'],
    ['fs_read', 'fs.read'],
    ['the_title_text', 'title'],
    ['ript', undefined],
    ['ask', 'task_id'],
    ['zzzzzz', undefined],
    ['id', undefined],
    ['ttl', undefined],
    ['', undefined],
    ['___', undefined],
  ])('reads %s as %s', (input, expected) => {
    expect(nearestName(input, names)).toBe(expected)
  })

  it('prefers a substring to a spelling mistake, and the closest of several substrings', () => {
    expect(nearestName('name', ['nama', 'file_name', 'user_full_name'])).toBe('file_name')
  })

  it('does not depend on the order of the candidates', () => {
    fc.assert(
      fc.property(fc.string(), fc.array(fc.string({ maxLength: 12 }), { maxLength: 12 }), (input, candidates) => {
        expect(nearestName(input, [...candidates].reverse())).toBe(nearestName(input, candidates))
        expect(nearestNames(input, [...candidates].reverse(), 3)).toEqual(nearestNames(input, candidates, 3))
      }),
    )
  })
})

describe('nearestNames', () => {
  it('finds words in another order, and words with a mistake', () => {
    const names = ['task_create', 'task_list', 'create_agent', 'fs.read', 'merkle_root']
    expect(nearestNames('create_task', names, 3)[0]).toBe('task_create')
    expect(nearestNames('merkel_root', names, 3)[0]).toBe('merkle_root')
    expect(nearestNames('qqqq', names, 3)).toEqual([])
  })

  it.each([
    ['nope', []],
    ['note', ['add_mcp_server_installation_request_note']],
    ['wrkspace', ['workspace_fork']],
    ['workspace', ['workspace_fork']],
    ['list_workspaces', ['workspace_fork']],
    ['gatewya', ['create_mcp_gateway']],
    ['serve', ['add_mcp_server_installation_request_note']],
  ])('suggests for %s %j, and nothing that has one like word among many', (input, expected) => {
    const names = ['add_mcp_server_installation_request_note', 'create_mcp_gateway', 'workspace_fork']
    expect(nearestNames(input, names, 3)).toEqual(expected)
  })
})

describe('editDistance', () => {
  it.each([
    ['abcd', 'abcd', 0],
    ['abcd', 'abdc', 1],
    ['abcd', 'abc', 1],
    ['abcd', 'axcd', 1],
    ['abcd', 'badc', 2],
    ['', 'ab', 2],
    ['abcd', 'wxyz', 4],
  ])('%s to %s is %i', (left, right, distance) => {
    expect(editDistance(left, right, 10)).toBe(distance)
  })

  it('is symmetric, zero only for equal words, and cut at the maximum without changing what is below it', () => {
    const word = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 7 })
    fc.assert(
      fc.property(word, word, fc.integer({ min: 0, max: 4 }), (left, right, max) => {
        const whole = editDistance(left, right, 100)
        expect(editDistance(right, left, 100)).toBe(whole)
        expect(whole === 0).toBe(left === right)
        const cut = editDistance(left, right, max)
        if (whole <= max) expect(cut).toBe(whole)
        else expect(cut).toBeGreaterThan(max)
      }),
    )
  })
})

describe('nameWords and squashName', () => {
  it('split and join all spellings alike', () => {
    for (const name of ['taskCreate', 'task_create', 'TASK.CREATE', 'Task-Create', 'ｔａｓｋ create']) {
      expect(nameWords(name)).toEqual(['task', 'create'])
      expect(squashName(name)).toBe('taskcreate')
    }
    expect(nameWords('HTTPFetch2Page')).toEqual(['http', 'fetch2', 'page'])
  })
})
