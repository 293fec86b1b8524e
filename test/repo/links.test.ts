import { readdirSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { anchorsOf, checkLinks } from './markdown-links.ts'
import { listPaths, readText, repositoryRoot } from './source-files.ts'
import { ownProseIn } from './tidy-rules.ts'

const isDocument = (path: string): boolean => path.endsWith('.md')
const documents = readdirSync(repositoryRoot, { withFileTypes: true })
  .filter(({ name }) => name !== 'node_modules' && name !== '.git')
  .flatMap((entry) => (entry.isDirectory() ? listPaths(entry.name, isDocument) : [entry.name].filter(isDocument)))

describe('the links of the documents', () => {
  it('lead to files and headings that are there', () => {
    expect(documents.length).toBeGreaterThan(30)
    expect(documents.flatMap((path) => checkLinks(path, readText(path)).map(({ message }) => message))).toEqual([])
  })
})

it('the documents use the words of the field', () => {
  const found = documents.map((path) => ({ path, word: ownProseIn(readText(path))?.word }))
  expect(found.filter(({ word }) => word !== undefined)).toEqual([])
})

describe('the check of links', () => {
  const files: Readonly<Record<string, string>> = {
    'docs/other.md': '# Other\n\n## The `one` tool, and more\n\n## Twice\n## Twice\n\n```\n# not a heading\n```\n',
    'docs/picture.svg': '',
  }
  const faults = (text: string): string[] =>
    checkLinks('docs/page.md', text, (path) => files[path]).map(({ message }) => message)

  it.each([
    ['a file that is not there', 'See [it](missing.md).'],
    ['a picture that is not there', '![it](missing.svg)'],
    ['a heading that is not there', '[it](other.md#three)'],
    ['a heading of a page of its own', '# Here\n[it](#there)'],
    ['a heading in code', '[it](other.md#not-a-heading)'],
    ['a definition', '[it]: missing.md'],
    ['a picture in HTML', '<img alt="" src="missing.png">'],
    ['a path from the root', '[it](/docs/other.md)'],
    ['a path that leads out', '[it](../../other.md)'],
    ['the second of two on a line', '[it](other.md) and [it](missing.md)'],
    ['a text with code in it', '[`a]` and b](missing.md)'],
  ])('notices %s', (_what, text) => {
    expect(faults(text)).toHaveLength(1)
  })

  it.each([
    ['files', '[it](other.md) ![it](picture.svg) [it](../docs/other.md "title")'],
    ['headings', '# A page\n[it](#a-page) [it](other.md#the-one-tool-and-more) [it](other.md#twice-1)'],
    ['addresses', '[it](https://example.test/x.md#y) <https://example.test>'],
    ['code', 'Write `[it](missing.md)`, or\n\n```md\n[it](missing.md)\n```\n'],
  ])('lets %s pass', (_what, text) => {
    expect(faults(text)).toEqual([])
  })

  it('says where', () => {
    expect(faults('\n\n[it](missing.md)')).toEqual(['docs/page.md:3 links to missing.md: there is no docs/missing.md.'])
    expect([...anchorsOf('# A\n## a_b: C–D\n<a id="x"></a>')]).toEqual(['a', 'a_b-cd', 'x'])
  })
})
