import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { limits } from '../../contract/limits.ts'
import { systemClock } from '../../kernel/clock.ts'
import { createTimeSlicer } from '../../kernel/time-slicer.ts'
import { lineFinder } from './find-lines.ts'
import { replaceLiteral, replacePattern } from './replace-text.ts'

const slicer = () => createTimeSlicer(systemClock, new AbortController().signal)
const replaced = (pattern: string, template: string, text: string) => replacePattern(pattern, template)(text, slicer())
const found = async (query: string, isPattern: boolean, text: string, max = 10) =>
  (await lineFinder(query, isPattern)(text, max, slicer())).found
const refusal = (field: string) =>
  expect.objectContaining({ code: 'ERR_INVALID_INPUT', details: expect.objectContaining({ field }) })

describe('replacing', () => {
  it('replaces every occurrence of a text as it stands', async () => {
    expect(await replaceLiteral('a.b', '$1$$')('a.b axb a.b', slicer())).toEqual({ text: '$1$$ axb $1$$', count: 2 })
    expect(() => replaceLiteral('', 'x')).toThrow(refusal('old_string'))
  })

  it('fills groups into the place of a match', async () => {
    expect(await replaced('(\\w+)@(?P<host>\\w+)', '\u0024{host}:$1 [$0|$&] $$1', 'ann@home bob@work')).toEqual({
      text: 'home:ann [ann@home|ann@home] $1 work:bob [bob@work|bob@work] $1',
      count: 2,
    })
    expect(await replaced('(?m)^', '> ', 'a\nb')).toEqual({ text: '> a\n> b', count: 2 })
    expect(await replaced('(a)|b', '[$1]', 'ab')).toEqual({ text: '[a][]', count: 2 })
    expect((await replaced('x', '$', 'x')).text).toBe('$')
    expect((await replaced('z', 'y', 'x')).count).toBe(0)
  })

  it('refuses groups and patterns that there are not', () => {
    for (const template of ['$1', '\u0024{none}', '$9'])
      expect(() => replacePattern('x', template)).toThrow(refusal('new_string'))
    for (const pattern of ['(', '(?=x)', '\\1', 'x{1000}{1000}', 'x'.repeat(1_025), '(((a{1,100}){1,100}){1,100})']) {
      expect(() => replacePattern(pattern, ''), pattern.slice(0, 20)).toThrow(refusal('old_string'))
    }
  })

  it('does what the language itself does, for patterns that both know', async () => {
    const pattern = fc.constantFrom('a+', '(a|b)c?', '[^a]', 'b*', '\\s', '(.)\\w', '$', '^x')
    const property = fc.asyncProperty(
      pattern,
      fc.string({ unit: fc.constantFrom('a', 'b', 'c', 'x', ' ', 'é', '\n') }),
      async (source, text) => {
        const expected = text.replaceAll(new RegExp(source, 'g'), '<$&>')
        expect((await replaced(source, '<$&>', text)).text).toBe(expected)
      },
    )
    await fc.assert(property, { numRuns: 200 })
  })

  it('gives up on what would take too long or grow too large', async () => {
    const late = { pause: () => Promise.resolve(), spentMs: () => limits.vaultReplaceMs + 1 }
    await expect(replacePattern('a', 'b')('aaa', late)).rejects.toMatchObject({ code: 'ERR_TOO_LARGE' })
    const wide = 'x'.repeat(1_000)
    await expect(replaced(wide, '', 'x'.repeat(200_000))).rejects.toMatchObject({ code: 'ERR_TOO_LARGE' })
    const large = 'y'.repeat(1_000_000)
    await expect(replaced('a', large, 'a'.repeat(20))).rejects.toMatchObject({ code: 'ERR_TOO_LARGE' })
    await expect(replaceLiteral('a', large)('a'.repeat(20), slicer())).rejects.toMatchObject({ code: 'ERR_TOO_LARGE' })
  })

  it('stops when it is cancelled', async () => {
    const stop = new AbortController()
    const clock = {
      nowMs: () => 0,
      monotonicMs: (() => {
        let ms = 0
        return () => (ms += 20)
      })(),
    }
    stop.abort()
    await expect(replacePattern('a', 'b')('aaa', createTimeSlicer(clock, stop.signal))).rejects.toThrow('aborted')
  })
})

describe('finding lines', () => {
  const text = 'one\r\ntwo words\nthree\n\nfive Words\n'

  it('gives lines with their number and what stands around them', async () => {
    expect(await found('two', false, text)).toEqual([
      { line_number: 2, line: 'two words', context: 'one\ntwo words\nthree\n' },
    ])
    expect((await found('(?i)WORDS$', true, text)).map((line) => line.line_number)).toEqual([2, 5])
    expect((await found('.*', true, text, 3)).map((line) => line.line_number)).toEqual([1, 2, 3])
    expect(await found('o.e', false, text)).toEqual([])
    expect((await found('^$', true, text)).map((line) => line.line_number)).toEqual([4])
  })

  it('cuts long lines around the match, in whole characters', async () => {
    const [line] = await found('needle', false, `${'😀'.repeat(1_000)}needle${'x'.repeat(1_000)}`)
    expect(line!.line).toContain('needle')
    expect(line!.line.length).toBeLessThan(410)
    expect(line!.line.isWellFormed()).toBe(true)
  })

  it('looks at the beginning of very long lines only, with a pattern, and says so', async () => {
    const long = `${'x'.repeat(limits.vaultPatternLineCharsMax)}needle`
    expect(await lineFinder('needle', true)(long, 9, slicer())).toEqual({ found: [], longLines: 1 })
    expect(await found('needle', false, long)).toHaveLength(1)
  })

  it('refuses what cannot be in a line, and patterns that are none', () => {
    expect(() => lineFinder('a\nb', false)).toThrow(refusal('query'))
    expect(() => lineFinder('[', true)).toThrow(refusal('query'))
  })
})
