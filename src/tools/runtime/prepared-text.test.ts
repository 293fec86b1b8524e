import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { findPrepared } from './prepared-text.ts'
import { preparedTools } from './prepared-tools.ts'

const content = readFileSync(new URL('./prepared-tools.json', import.meta.url))

it('finds each tool by every spelling, as the whole list does', () => {
  const { tools, find } = preparedTools()
  for (const { name, safeName } of tools) {
    for (const spelling of [name, safeName, `archestra__${name}`]) {
      expect(findPrepared(content, spelling)).toEqual(find(spelling))
    }
  }
  for (const unknown of ['', 'no_such_tool', 'constructor', '"', 'archestra__']) {
    expect(findPrepared(content, unknown)).toBeUndefined()
  }
})
