import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'

const folder = 'docs/decisions'
const records = readdirSync(folder).filter((name) => name.endsWith('.md'))
const numberOf = (name: string): string => name.slice(0, 4)

describe('the decision records', () => {
  it('have a number each, which no other has', () => {
    const names = Map.groupBy(records, numberOf)
    expect([...names.values()].filter((sharing) => sharing.length > 1)).toEqual([])
    expect(records.filter((name) => !/^\d{4}-[a-z0-9-]+\.md$/.test(name))).toEqual([])
    expect(records.length).toBeGreaterThan(30)
  })

  it.each(records)('%s has its number in its title', (name) => {
    expect(readFileSync(`${folder}/${name}`, 'utf8')).toMatch(new RegExp(`^# ${numberOf(name)}: `))
  })
})
