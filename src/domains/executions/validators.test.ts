import { describe, expect, it } from 'vitest'
import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { isPassed, readVerdict, withoutBoundary } from '../runs/verdicts.ts'
import { gradeByRule, withoutBootstrapLines } from './validators.ts'

const output = (stdout: string, more: { exitCode?: number; stderr?: string } = {}) => ({
  exitCode: more.exitCode ?? 0,
  stdout,
  stderr: more.stderr ?? '',
})
const scoreOf = (...args: Parameters<typeof gradeByRule>): number => gradeByRule(...args).score

describe('exit_code', () => {
  it('is right or wrong, whatever is on stderr', () => {
    const rule = { type: 'exit_code', expected: 3, minScore: 1 } as const
    expect(scoreOf(rule, output('', { exitCode: 3, stderr: 'noise' }))).toBe(1)
    expect(gradeByRule(rule, output(''))).toMatchObject({
      score: 0,
      confidence: 1,
      reasoning: 'the exit code is 0, expected 3',
    })
  })
})

describe('json_schema', () => {
  const rule = { type: 'json_schema', schema: { type: 'object', required: ['a'] }, minScore: 1 } as const

  it('takes the output, or what is in its first fence', () => {
    expect(scoreOf(rule, output('{"a":1}'))).toBe(1)
    expect(scoreOf(rule, output('Here it is:\n```json\n{"a":1}\n```\nand\n```\nnot this\n```'))).toBe(1)
    expect(scoreOf(rule, output('```\n{"a":1}'))).toBe(1)
  })

  it('says what does not conform', () => {
    expect(gradeByRule(rule, output('{}')).reasoning).toContain("required property 'a'")
    expect(gradeByRule(rule, output('no'))).toMatchObject({ score: 0, reasoning: 'the output is not JSON' })
  })

  it('does not put its patterns to more text than they may see', () => {
    const large = { ...rule, schema: { items: { pattern: '(?:a?){700}[bc]' } } }
    expect(scoreOf(large, output('["aab"]'))).toBe(1)
    expect(gradeByRule(large, output(JSON.stringify(['a'.repeat(100_000)]))).reasoning).toMatch(
      /cannot be checked: its patterns need more than \d+ steps/,
    )
  })

  it('names a schema that cannot be used', () => {
    const bad = { ...rule, schema: { type: 'nonsense' } }
    expect(() => gradeByRule(bad, output('{}'))).toThrow(
      expect.objectContaining({ code: 'ERR_VALIDATOR_FAILED' }) as AppError,
    )
  })
})

describe('regex', () => {
  const rule = (target: string) => ({ type: 'regex', pattern: '^ok$', target, minScore: 1 }) as const

  it('looks where it is told to', () => {
    const both = output('no', { stderr: 'ok' })
    expect(scoreOf(rule('stdout'), both)).toBe(0)
    expect(scoreOf(rule('stderr'), both)).toBe(1)
    expect(scoreOf(rule('/workspace/a'), both, 'ok')).toBe(1)
    expect(gradeByRule(rule('/workspace/a'), both).reasoning).toBe('/workspace/a does not exist')
  })

  it('cannot be made to hang', () => {
    const hostile = { type: 'regex', pattern: '(a+)+$', target: 'stdout', minScore: 1 } as const
    expect(scoreOf(hostile, output(`${'a'.repeat(50_000)}!`))).toBe(0)
    expect(() => gradeByRule({ ...hostile, pattern: '(?=a)' }, output(''))).toThrow(AppError)
  })

  it('does not look where pattern and text together are too much, and says how much it looks at', () => {
    const large = { type: 'regex', pattern: '(?:a?){700}[bc]', target: 'stdout', minScore: 1 } as const
    const { score, reasoning } = gradeByRule(large, output(`${'a'.repeat(100_000)}b`))
    expect(score).toBe(0)
    expect(reasoning).toMatch(/^stdout has 100001 characters, but the pattern .* is searched in at most \d+/)
    expect(scoreOf(large, output('aaab'))).toBe(1)
  })

  it('looks through the longest output for an ordinary pattern', () => {
    const ordinary = { type: 'regex', pattern: '[0-9]+ passed$', target: 'stdout', minScore: 1 } as const
    const lines = 'ok some test of the suite\n'.repeat(limits.iterationOutputBytesMax / 26 - 2)
    expect(scoreOf(ordinary, output(`${lines}12 passed`))).toBe(1)
  })
})

describe('a verdict', () => {
  it('is one JSON object with a score from 0 to 1', () => {
    expect(readVerdict('```json\n{"score":0.5,"confidence":0.25,"reasoning":"r"}\n```')).toEqual({
      score: 0.5,
      confidence: 0.25,
      reasoning: 'r',
      signals: [],
    })
    for (const text of ['', 'good', '[]', '{"score":2}', '{"score":"1"}', '{"score":1,"confidence":-1}']) {
      expect(readVerdict(text), text).toBeUndefined()
    }
  })

  it('passes from its thresholds on', () => {
    expect(isPassed({ score: 0.7, confidence: 0.5 }, { minScore: 0.7, minConfidence: 0.5 })).toBe(true)
    expect(isPassed({ score: 0.69, confidence: 1 }, { minScore: 0.7 })).toBe(false)
    expect(isPassed({ score: 1, confidence: 0.4 }, { minScore: 0.7, minConfidence: 0.5 })).toBe(false)
  })
})

it('what the bootstrap says is left out', () => {
  expect(withoutBootstrapLines('[BOOTSTRAP] up\nanswer\n[BOOTSTRAP: done]')).toBe('answer\n')
  expect(withoutBoundary(' plain ')).toBe('plain')
})
