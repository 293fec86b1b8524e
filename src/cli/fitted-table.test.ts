import { describe, expect, it } from 'vitest'
import { fittedTable, wrappedTable } from './fitted-table.ts'

describe('a table at a terminal', () => {
  const table = [
    ['SETTING', 'VALUE', 'FROM'],
    ['port', '7433', 'default'],
    ['models', 'x'.repeat(500), 'file'],
  ]

  it('cuts the column that gives way, so that the others fit', () => {
    const lines = fittedTable(table, { width: 40, yields: 1 }).trimEnd().split('\n')
    expect(lines.map((line) => line.length)).toEqual([40 - 3, 40, 40 - 3])
    expect(lines[2]).toBe(`models   ${'x'.repeat(21)}…  file`)
  })

  it('names the columns for which there is no room', () => {
    expect(fittedTable(table, { width: 24, yields: 1 })).toContain('Not shown: FROM. Use --json for everything.\n')
  })

  it('leaves nothing out where nobody looks', () => {
    expect(fittedTable(table, { width: undefined, yields: 1 })).toContain('x'.repeat(500))
  })

  it('continues long text below where it begins, and keeps long words whole', () => {
    const command = `/opt/${'y'.repeat(40)}`
    const rows = [
      ['node', 'ok', 'v24'],
      ['  more', 'note', `one two three four five six ${command} seven`],
    ]
    expect(wrappedTable(rows, 40)).toBe(
      [
        'node    ok    v24',
        '  more  note  one two three four five',
        '              six',
        `              ${command}`,
        '              seven',
        '',
      ].join('\n'),
    )
    expect(wrappedTable(rows, undefined)).toContain(`six ${command} seven\n`)
  })
})
