import { readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { commands } from '../../src/app/commands/index.ts'
import { isTestFile, readSources, visitNodes } from './source-files.ts'

/** Words that follow our name where it is a name: of a project, of a server in somebody's list. */
const notCommands = ['http', 'priority']

const named = (text: string): string[] => [...text.matchAll(/\bcastellan ([a-z]+)\b/g)].map(([, word]) => word!)

function* messages(): Generator<{ location: string; text: string }> {
  for (const source of readSources(['src'])) {
    if (isTestFile(source.path)) continue
    const found: { location: string; text: string }[] = []
    visitNodes(source, (node) => {
      const value =
        node.type === 'Literal' ? node['value'] : node.type === 'TemplateElement' ? node['value'] : undefined
      const text = typeof value === 'object' && value !== null ? (value as { cooked?: unknown }).cooked : value
      if (typeof text === 'string') found.push({ location: `${source.path}:${source.lineOf(node.start)}`, text })
    })
    yield* found
  }
}

function* documents(): Generator<{ location: string; text: string }> {
  const folders = ['.', 'docs/guides', 'docs/reference']
  for (const folder of folders) {
    for (const file of readdirSync(folder).filter((name) => name.endsWith('.md'))) {
      yield { location: `${folder}/${file}`, text: readFileSync(`${folder}/${file}`, 'utf8') }
    }
  }
}

it('every command that a message or a document tells someone to run exists', () => {
  const texts = [...messages(), ...documents()]
  const known = [...Object.keys(commands), ...notCommands]
  const wrong = texts.flatMap(({ location, text }) =>
    named(text).flatMap((word) => (known.includes(word) ? [] : [`${location}: castellan ${word}`])),
  )
  expect(wrong).toEqual([])
  expect(texts.flatMap(({ text }) => named(text)).length).toBeGreaterThan(20)
})
