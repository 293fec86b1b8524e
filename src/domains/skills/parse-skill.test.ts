import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { limits } from '../../contract/limits.ts'
import { parseSkill } from './parse-skill.ts'

const skillOf = (text: string) => {
  const result = parseSkill(text)
  if (!result.ok) throw new Error(result.reason)
  return result.skill
}

const reasonOf = (text: string): string => {
  const result = parseSkill(text)
  if (result.ok) throw new Error('was accepted')
  return result.reason
}

describe('parseSkill', () => {
  it('reads the fields of the front matter and leaves the rest as body', () => {
    const skill = skillOf(
      '---\nname: chains\nversion: 1.2.0\ndescription: Canonical chains.\ncapabilities:\n  - round-plan\n  - audit\n---\n# Body\n',
    )
    expect(skill).toMatchObject({
      version: '1.2.0',
      description: 'Canonical chains.',
      capabilities: ['round-plan', 'audit'],
      body: '# Body\n',
    })
  })

  it.each([
    ['version: 1.0', '1.0'],
    ['version: 2', '2'],
    ['version: "3.1"', '3.1'],
    ['metadata:\n  version: 4.0', '4.0'],
    ['version:', '0.0.0'],
    ['description: no version', '0.0.0'],
  ])('takes the version of %j as the text %j', (line, version) => {
    expect(skillOf(`---\n${line}\n---\n`).version).toBe(version)
  })

  it('takes capabilities from a comma list, without blanks and doubles', () => {
    expect(skillOf('---\ncapabilities: read, write,, read\n---\n').capabilities).toEqual(['read', 'write'])
  })

  it('keeps unknown fields as data and reads no capabilities from allowed-tools', () => {
    const skill = skillOf('---\nallowed-tools: Bash Read\nlicense: MIT\nlimit: .inf\nnested: { a: [1, true] }\n---\n')
    expect(skill.capabilities).toEqual([])
    expect(skill.frontmatter).toEqual({
      'allowed-tools': 'Bash Read',
      license: 'MIT',
      limit: null,
      nested: { a: [1, true] },
    })
  })

  it('accepts a byte order mark and Windows line ends', () => {
    expect(skillOf('\uFEFF---\r\ndescription: >-\r\n  two\r\n  lines\r\n---\r\nbody').description).toBe('two lines')
  })

  it.each([
    ['', 'front matter is missing'],
    ['# Title\n---\n', 'front matter is missing'],
    ['---\nname: a\n', 'not closed'],
    ['---\n---\n', 'empty'],
    ['---\n- a\n---\n', 'not an object'],
    ['---\ndescription: Use when: now\n---\n', 'in quotes (line 2)'],
    ['---\na: 1\na: 2\n---\n', 'occurs twice'],
    ['---\ndescription: [a]\n---\n', 'description is not a string'],
    ['---\ncapabilities: { a: b }\n---\n', 'capabilities is not a string'],
    ['---\ncapabilities: [[a]]\n---\n', 'a capability is not a string'],
    ['---\na: !!js/function x\n---\n', 'tag'],
    ['---\na: &x [1]\nb: *x\n---\n', 'alias'],
    [`---\na: ${'['.repeat(5_000)}\n---\n`, 'nested deeper'],
    [`---\n${'- '.repeat(5_000)}\n---\n`, 'nested deeper'],
    [`---\na: ${'x'.repeat(limits.skillFrontmatterCharsMax)}\n---\n`, 'longer than'],
    [`---\ndescription: ${'x'.repeat(limits.skillDescriptionCharsMax + 1)}\n---\n`, 'description is longer'],
  ])('refuses %.40j and says why', (text, reason) => {
    expect(reasonOf(text)).toContain(reason)
  })

  it('answers for any text at all, without quoting it', () => {
    const line = fc.oneof(
      fc.string({ unit: fc.constantFrom(...'abz:-?![]{}&*#|>"\'%@ \t,') }),
      fc.constantFrom('---', 'version: 1', 'capabilities:', '  - x', '...', '? a', '<<: *x', 'a: |'),
    )
    fc.assert(
      fc.property(fc.array(line, { maxLength: 12 }), (lines) => {
        const result = parseSkill(`---\n${lines.join('\n')}\n---\nbody`)
        if (result.ok) {
          expect(typeof result.skill.version).toBe('string')
          expect(() => JSON.stringify(result.skill.frontmatter)).not.toThrow()
        } else {
          expect(result.reason.length).toBeLessThan(200)
        }
      }),
    )
  })
})
