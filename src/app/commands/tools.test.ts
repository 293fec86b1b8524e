import { expect, it } from 'vitest'
import { preparedTools } from '../../tools/runtime/prepared-tools.ts'
import { toolTable } from './tools.ts'

it.each([72, 80, 109, 110, 200])('lists every tool within %i columns', (width) => {
  const { tools } = preparedTools()
  const lines = toolTable(tools, width).trimEnd().split('\n')
  expect(lines.filter((line) => line.length > width)).toEqual([])
  for (const { name } of tools) expect(lines.some((line) => line.startsWith(`${name} `))).toBe(true)
})
