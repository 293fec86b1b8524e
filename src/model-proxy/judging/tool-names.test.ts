import { expect, it } from 'vitest'
import { readingsOf } from './tool-names.ts'

it.each([
  ['mcp__castellan__task_list', 'task_list'],
  ['mcp_castellan_task_list', 'task_list'],
  ['castellan__up__echo', 'up__echo'],
  ['castellan_task_list', 'task_list'],
  ['castellan-task_list', 'task_list'],
])('%s stands behind the name of our server', (name, tool) => {
  expect(readingsOf(name, ['castellan'])[0]).toEqual({ name: tool, kind: 'server' })
})

it('behind another name it is read loosely, after the name itself', () => {
  const readings = readingsOf('mcp__other__up__echo', ['castellan'])
  expect(readings[0]).toEqual({ name: 'mcp__other__up__echo', kind: 'exact' })
  expect(readings).toContainEqual({ name: 'up__echo', kind: 'loose' })
  expect(readings.some(({ kind }) => kind === 'server')).toBe(false)
})
