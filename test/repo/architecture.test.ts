import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { stageNames } from '../../src/tools/runtime/stages.ts'

const page = readFileSync('ARCHITECTURE.md', 'utf8')

/** The first cells of the table below a heading row, without the marks of code. */
function firstCells(head: string): string[] {
  const rows = page.slice(page.indexOf(head)).split('\n\n', 1)[0]!.split('\n').slice(2)
  return rows.map((row) => row.split('|')[1]!.replaceAll('`', '').trim())
}

describe('the architecture', () => {
  it('has the stages of the pipeline, in their order', () => {
    expect(firstCells('| stage | what it does |')).toEqual(stageNames)
  })

  it('says of each folder what it holds', () => {
    const described = new Set(firstCells('| folder | holds |').flatMap((cell) => cell.split(', ').map(topOf)))
    const folders = readdirSync('src', { withFileTypes: true }).filter((entry) => entry.isDirectory())
    expect(folders.map(({ name }) => name).filter((name) => !described.has(name))).toEqual([])
  })
})

const topOf = (path: string): string => path.split('/')[0]!
