import { describe, expect, it } from 'vitest'
import { parseSource, readSources } from './source-files.ts'
import { checkTidy, type TidyException, type TidyFault, tidyExceptions, tidyRules } from './tidy-rules.ts'

const faults = readSources().flatMap(checkTidy)
const isExcused = (fault: TidyFault, exception: TidyException): boolean =>
  exception.path === fault.path &&
  exception.rule === fault.rule &&
  (fault.size ?? 0) <= (exception.sizeMax ?? Number.POSITIVE_INFINITY)

describe('the source', () => {
  it('is tidy', () => {
    const open = faults.filter((fault) => !tidyExceptions.some((exception) => isExcused(fault, exception)))
    expect(open.map(({ rule, message }) => `[${rule}] ${message}`)).toEqual([])
  })

  it('has no exception that is not needed any more', () => {
    const stale = tidyExceptions.filter((exception) => !faults.some((fault) => isExcused(fault, exception)))
    expect(stale, 'remove these from test/repo/tidy-rules.ts').toEqual([])
  })
})

describe('the check of the source', () => {
  const rulesBroken = (path: string, text: string): string[] =>
    checkTidy(parseSource(path, text)).map(({ rule }) => rule)
  const lines = (count: number): string => 'x()\n'.repeat(count)

  const bad: readonly (readonly [rule: string, path: string, text: string])[] = [
    ['file-length', 'src/app/long.ts', lines(401)],
    ['file-length', 'src/tools/tasks/long.ts', lines(121)],
    ['function-length', 'src/app/long.ts', `function f() {\n${lines(69)}}`],
    ['function-length', 'src/app/long.ts', `const f = () => {\n${lines(40)}g(() => 1)\n${lines(29)}}`],
    ['file-name', 'src/app/buildApp.ts', ''],
    ['file-name', 'src/App/build.ts', ''],
    ['empty-name', 'src/app/string-utils.ts', ''],
    ['empty-name', 'test/helpers/wait.ts', ''],
    ['own-word', 'src/app/thing.ts', 'const toolDesk = 1'],
    ['own-word', 'src/app/read-wishes.ts', ''],
    ['default-export', 'src/app/thing.ts', 'export default 1'],
    ['default-export', 'src/tools/tasks/index.ts', 'export default 1'],
    ['export-all', 'src/app/thing.ts', `export * from './other.ts'`],
    ['export-all', 'src/app/thing.ts', `export * as other from './other.ts'`],
    ['heavy-import', 'src/app/thing.ts', `import { type Server, createServer } from 'node:http'`],
    ['marker', 'src/app/thing.ts', '// TODO: later'],
    ['history', 'src/app/thing.ts', '/** Previously a class. */'],
    ['history', 'src/app/thing.ts', 'x() // see issue #12'],
    ['own-prose', 'src/app/thing.ts', '/** For whoever asks. */ export const x = 1'],
    ['own-prose', 'test/e2e/thing.test.ts', `it('reads a wish', () => {})`],
    ['own-prose', 'src/app/thing.ts', `throw new Error('name: must be a text')`],
    ['own-word', 'src/app/http-door.ts', 'export const x = 1'],
    ['own-word', 'src/app/thing.ts', 'export type Request = { takes: string }'],
    ['own-word', 'src/app/thing.ts', 'export const placeOf = 1'],
    ['own-word', 'src/app/thing.ts', 'export const linkGone = 1'],
    ['machine-path', 'test/e2e/thing.ts', `const path = '/${'work'}/main'`],
    ['silenced-test', 'test/e2e/thing.test.ts', `it.only('runs', () => {})`],
    ['silenced-test', 'src/app/thing.test.ts', `describe.skipIf(true)('runs', () => {})`],
    ['silenced-test', 'src/app/thing.test.ts', `it.each([1]); test.concurrent.skip('runs', () => {})`],
    ['retried-test', 'src/app/thing.test.ts', `it('runs', { retry: 3 }, () => {})`],
  ]

  it.each(bad)('notices %s in %s', (rule, path, text) => {
    expect(rulesBroken(path, text)).toEqual([rule])
  })

  it('has seen every rule fail', () => {
    expect(new Set(bad.map(([rule]) => rule))).toEqual(new Set(Object.keys(tidyRules)))
  })

  it.each([
    ['a file at the bound', 'src/app/good.ts', lines(400)],
    ['a function at the bound', 'src/app/good.ts', `function f() {\n${lines(68)}}`],
    [
      'a factory of short functions',
      'src/app/good.ts',
      `function f() {\n${`const g = () => {\n${lines(60)}}\n`.repeat(3)}}`,
    ],
    ['a tool definition', 'src/tools/tasks/task-get.ts', 'export default 1'],
    ['a word that only contains another', 'src/app/good.ts', 'const desktopSeating = 1'],
    ['a marker in a text', 'src/app/good.ts', `const text = 'TODO'`],
    ['a method named only', 'test/e2e/good.test.ts', `list.only('x'); skip()`],
    ['a property named retry', 'src/app/good.test.ts', `it('runs', () => call({ retry: 3 }))`],
  ])('lets %s pass', (_what, path, text) => {
    expect(rulesBroken(path, text)).toEqual([])
  })
})
