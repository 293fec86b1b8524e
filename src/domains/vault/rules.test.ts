import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { limits } from '../../contract/limits.ts'
import { tenantId } from '../../contract/principal.ts'
import { folderPath, notePath, tenantFolderName } from './rules.ts'

const rules = { extensions: ['md', 'txt'], excludedFolders: new Set(['.git', '.trash']) }
const refusal = expect.objectContaining({ code: 'ERR_INVALID_INPUT' })

describe('the path of a note', () => {
  it.each(['a.md', 'a/b/c.MD', 'ä ö/😀.txt', 'a..b.md', '.hidden.md', 'a/.x/b.md', 'git/a.md'])('may be %j', (path) => {
    expect(notePath(path, rules)).toBe(path)
  })

  it.each([
    ...['', '.', '..', '../a.md', 'a/../b.md', 'a/..', './a.md', 'a//b.md', '/a.md', '//a.md', 'a/', 'a/./b.md'],
    ...['a', 'a.pdf', '.md', 'a.md/', 'a.md.exe', 'a\\b.md', 'a\u0000.md', 'a\n.md', 'a\u007f.md', '\ud800.md'],
    ...['.git/a.md', 'a/.trash/b.md', '.castellan/a.md', 'a/.castellan/b.md', `${'x'.repeat(253)}.md`],
    ...[`${'ü'.repeat(127)}.md`, `${'a/'.repeat(40)}a.md`, `${'aaaaaaaaaa/'.repeat(100)}a.md`],
  ])('may not be %j', (path) => {
    expect(() => notePath(path, rules)).toThrow(refusal)
  })

  it('never has a name that leads elsewhere, whatever is given', () => {
    const part = fc.oneof(
      fc.constantFrom('..', '.', '', '/', '\\', '.git', 'a', 'a.md', '\u0000'),
      fc.string({ maxLength: 5 }),
    )
    const property = fc.property(fc.array(part, { maxLength: 6 }), fc.constantFrom('/', '//', ''), (parts, joint) => {
      let path: string
      try {
        path = notePath(`${parts.join(joint)}.md`, rules)
      } catch (error) {
        expect(error).toEqual(refusal)
        return
      }
      for (const name of path.split('/')) expect(['', '.', '..', '.git', '.trash', '.castellan']).not.toContain(name)
      expect(path).not.toMatch(/[\\\p{Cc}]/u)
    })
    fc.assert(property, { numRuns: 500 })
  })

  it('names the field, the rule and the extensions', () => {
    expect(() => notePath('a.pdf', rules, 'new_path')).toThrow('new_path: must end in .md or .txt')
    expect(notePath('teams/x/cards/y.json', { ...rules, extensions: undefined })).toBe('teams/x/cards/y.json')
    expect(limits.vaultPathCharsMax).toBe(1_024)
  })
})

describe('the path of a folder', () => {
  it('may be the root in several spellings, and end in a slash', () => {
    expect(['', '.', '/', 'a/', 'a/b'].map((path) => folderPath(path, rules))).toEqual(['', '', '', 'a', 'a/b'])
    for (const path of ['..', '/a', 'a//', 'a/..', '.git', '//'])
      expect(() => folderPath(path, rules), path).toThrow(refusal)
  })
})

describe('the folder of a tenant', () => {
  const nameOf = (name: string): string => tenantFolderName(tenantId(name))

  it('is a plain name, and another for every tenant', () => {
    expect(['acme', 'a.b', '.', '..', '', 'A/B', 'ü'].map(nameOf)).toEqual([
      ...['acme', 'a%2eb', '%2e', '%2e%2e', '%empty', '%41%2f%42', '%c3%bc'],
    ])
    const property = fc.property(fc.string({ maxLength: 300 }), fc.string({ maxLength: 300 }), (one, other) => {
      const names = [one, other].map((name) => nameOf(name.toWellFormed()))
      for (const name of names) expect(name).toMatch(/^[a-z0-9_%-]{1,200}$/)
      expect(names[0] === names[1]).toBe(one.toWellFormed() === other.toWellFormed())
    })
    fc.assert(property, { numRuns: 300 })
    expect(nameOf('x'.repeat(300))).not.toBe(nameOf('x'.repeat(301)))
  })
})
