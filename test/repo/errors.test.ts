import { describe, expect, it } from 'vitest'
import { errorCodes } from '../../src/contract/error-codes.ts'
import { isTestFile, readSources, readText, type SourceFile, visitNodes } from './source-files.ts'

/** Codes of the register that no test brings about yet. The list may only shrink. */
const untestedCodes: readonly string[] = []

/** Codes that are published but that nothing answers with yet: there are no agents to look for. May only shrink. */
const unusedCodes: readonly string[] = []

/** Codes of other programs that our source compares with. */
const foreignCodes: readonly string[] = ['ERR_SCRIPT_EXECUTION_TIMEOUT']

const REGISTER = 'src/contract/error-codes.ts'
const codes = Object.keys(errorCodes)

/** The error codes that a file has as whole texts, so that prose and comments do not count. */
function codesIn(source: SourceFile): string[] {
  const found: string[] = []
  visitNodes(source, (node) => {
    if (node.type === 'Literal' && /^ERR_[A-Z_]+$/.test(String(node['value']))) found.push(String(node['value']))
  })
  return found
}

const sources = readSources(['src', 'test']).filter(({ path }) => path !== REGISTER && !path.startsWith('test/repo/'))
const answered = new Set(sources.filter(({ path }) => !isTestFile(path)).flatMap(codesIn))
const tested = new Set(sources.filter(({ path }) => isTestFile(path)).flatMap(codesIn))

describe('the error register', () => {
  it('has no code that nothing answers with', () => {
    expect(codes.filter((code) => !answered.has(code))).toEqual(unusedCodes)
  })

  it('has no code that no test expects', () => {
    expect(
      codes.filter((code) => !tested.has(code)),
      'test the new one; remove from untestedCodes what is tested now',
    ).toEqual(untestedCodes)
  })

  it('has every code that the program uses', () => {
    expect([...answered].filter((code) => !codes.includes(code))).toEqual(foreignCodes)
  })

  it('is in the reference, code by code', () => {
    const documented = [...readText('docs/reference/errors.md').matchAll(/^\| `(ERR_[A-Z_]+)`/gm)].map(
      ([, code]) => code,
    )
    expect(documented).toEqual(codes)
  })

  it('gives each code a status that says the same as its kind, and a next step in a sentence', () => {
    const statuses: Readonly<Record<string, readonly number[]>> = {
      input: [400, 404, 405, 413, 415],
      'not-found': [404],
      denied: [401, 402, 403],
      conflict: [409],
      unavailable: [429, 502, 503, 504],
      cancelled: [499],
      internal: [500],
    }
    const wrong = Object.entries(errorCodes).filter(
      ([, entry]) => !statuses[entry.kind]?.includes(entry.httpStatus) || !/^[A-Z].*\.$/.test(entry.nextStep),
    )
    expect(wrong).toEqual([])
  })
})
