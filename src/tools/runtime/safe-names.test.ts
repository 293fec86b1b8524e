import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { loadCatalogue } from '../../../bench/recall.ts'
import { buildSafeNames, safeNameLengthMax } from './safe-names.ts'

describe('buildSafeNames', () => {
  it('replaces what clients refuse, and finds the way back by table', () => {
    const names = buildSafeNames(['fs.read', 'fs.multi_edit', 'task_get', 'context7__resolve-library-id'])
    expect(names.safeNameOf('fs.read')).toBe('fs_read')
    expect(names.documentedNameOf('fs_read')).toBe('fs.read')
    expect(names.documentedNameOf('fs_multi_edit')).toBe('fs.multi_edit')
    expect(names.documentedNameOf('fs.read')).toBe('fs.read')
    expect(names.safeNameOf('task_get')).toBe('task_get')
    expect(names.safeNameOf('context7__resolve-library-id')).toBe('context7__resolve-library-id')
    expect(names.documentedNameOf('fs.multi.edit')).toBeUndefined()
    expect(names.safeNameOf('unknown')).toBeUndefined()
    expect(names.documentedNameOf('constructor')).toBeUndefined()
  })

  it('shortens long names with a digest, so that equal beginnings stay apart', () => {
    const long = `server.${'x'.repeat(80)}`
    const names = buildSafeNames([`${long}1`, `${long}2`])
    const [one, two] = [names.safeNameOf(`${long}1`)!, names.safeNameOf(`${long}2`)!]
    expect(one).not.toBe(two)
    expect(one).toHaveLength(safeNameLengthMax)
    expect(names.documentedNameOf(one)).toBe(`${long}1`)
  })

  it('refuses a catalogue in which two tools would have one name', () => {
    expect(() => buildSafeNames(['a.b', 'a_b'])).toThrow(/a\.b and a_b would both be a_b/)
    expect(() => buildSafeNames(['a_b', 'a.b'])).toThrow(/would both be a_b/)
    expect(() => buildSafeNames(['a.b.c', 'a.b_c'])).toThrow(/would both be a_b_c/)
  })

  it('lets an alias share the name of its tool, and checks the alias', () => {
    const names = buildSafeNames(['fs.create.dir', 'fs.create_dir'], { 'fs.create.dir': 'fs.create_dir' })
    expect(names.safeNameOf('fs.create.dir')).toBe('fs_create_dir')
    expect(names.documentedNameOf('fs_create_dir')).toBe('fs.create_dir')
    expect(names.documentedNameOf('fs.create.dir')).toBe('fs.create.dir')
    expect(() => buildSafeNames(['a'], { b: 'a' })).toThrow(/names no tool/)
    expect(() => buildSafeNames(['a', 'b', 'c'], { b: 'a', c: 'b' })).toThrow(/another alias/)
  })

  it('covers the whole contract without a collision', () => {
    const all = loadCatalogue().map((tool) => tool.name)
    expect(all).toHaveLength(186)
    const names = buildSafeNames(all, { 'fs.create.dir': 'fs.create_dir' })
    const safe = new Set(all.map((name) => names.safeNameOf(name)!))
    expect(safe.size).toBe(all.length - 1)
    for (const name of safe) expect(name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/)
    expect(() => buildSafeNames(all)).toThrow(/fs_create_dir/)
  })

  it('gives every name it accepts a safe form that leads back to it', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.string({ maxLength: 90 }), { maxLength: 8 }), (input) => {
        let names: ReturnType<typeof buildSafeNames>
        try {
          names = buildSafeNames(input)
        } catch (error) {
          expect(String(error)).toContain('would both be')
          return
        }
        for (const name of input) {
          expect(names.safeNameOf(name)).toMatch(/^[a-zA-Z0-9_-]{1,64}$/)
          expect(names.documentedNameOf(names.safeNameOf(name)!)).toBe(name)
        }
      }),
    )
  })
})
