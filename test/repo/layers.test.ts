import { posix } from 'node:path'
import { describe, expect, it } from 'vitest'
import { publicFiles } from './domain-faces.ts'
import { checkLayers, packageOf, rowOf } from './layer-check.ts'
import { layerRows } from './layer-rules.ts'
import { importsOf, isTestFile, parseSource, readSources } from './source-files.ts'
import { layerExceptions } from './word-rules.ts'

const production = readSources(['src']).filter((source) => !isTestFile(source.path))
const violations = production.flatMap(checkLayers)
const isException = (path: string, rule: string): boolean =>
  layerExceptions.some((exception) => exception.path === path && exception.rule === rule)

describe('the layers', () => {
  it('are kept by every file of the program', () => {
    const broken = violations.filter(({ path, rule }) => !isException(path, rule))
    expect(broken.map(({ rule, message }) => `[${rule}] ${message}`)).toEqual([])
  })

  it('have no exception that is not needed any more', () => {
    const stale = layerExceptions.filter(
      (exception) => !violations.some(({ path, rule }) => path === exception.path && rule === exception.rule),
    )
    expect(stale, 'remove these from test/repo/layer-rules.ts').toEqual([])
  })

  it('allow no package that the folder does not use', () => {
    const used = new Set(
      production.flatMap((source) => {
        const folder = rowOf(source.path.slice('src/'.length))?.row.folder
        return importsOf(source).map(({ specifier }) => `${folder} ${packageOf(specifier)}`)
      }),
    )
    const allowed = layerRows.flatMap((row) => row.packages.map((name) => `${row.folder} ${name}`))
    expect(allowed.filter((pair) => !used.has(pair))).toEqual([])
  })

  it('have no public file that no other folder uses', () => {
    const used = new Set(
      production.flatMap((source) =>
        importsOf(source)
          .map(({ specifier }) => posix.join(posix.dirname(source.path), specifier).replace(/^src\//, ''))
          .filter((target) => posix.dirname(target) !== posix.dirname(source.path.slice('src/'.length))),
      ),
    )
    expect(publicFiles.filter((file) => !used.has(file))).toEqual([])
  })

  it('have no row without a folder', () => {
    const used = new Set(production.map((source) => rowOf(source.path.slice('src/'.length))?.row.folder))
    expect(layerRows.map((row) => row.folder).filter((folder) => !used.has(folder))).toEqual([])
  })
})

describe('the check of the layers', () => {
  const rulesBroken = (path: string, text: string): string[] =>
    checkLayers(parseSource(path, text)).map(({ rule }) => rule)

  it.each([
    ['a value from an outer layer', 'src/kernel/bad.ts', `import { x } from '../contract/limits.ts'`, 'folder'],
    ['a type from an outer layer', 'src/domains/tasks/bad.ts', `import type { X } from '../../mcp/wire.ts'`, 'folder'],
    ['a re-export', 'src/contract/bad.ts', `export { x } from '../audit/tree.ts'`, 'folder'],
    ['an import expression', 'src/mcp/bad.ts', `await import('../stores/sqlite/connection.ts')`, 'folder'],
    ['the type of an import', 'src/mcp/bad.ts', `let x: typeof import('../http/x.ts')`, 'folder'],
    ['a sibling domain', 'src/domains/tasks/bad.ts', `import '../trail/ports.ts'`, 'folder'],
    ['a sibling toolset', 'src/tools/tasks/bad.ts', `import x from '../log/log-export.ts'`, 'folder'],
    ['the writer, from the checker', 'src/audit/fsck/bad.ts', `import { x } from '../tree.ts'`, 'folder'],
    ['a service, from a store', 'src/stores/sql/bad.ts', `import '../../domains/tasks/service.ts'`, 'store-port'],
    ['a private file', 'src/domains/trail/bad.ts', `import '../tasks/task-reads.ts'`, 'face'],
    ['a test', 'src/app/bad.ts', `import '../../test/support/sample-host.ts'`, 'outside'],
    ['a computed path', 'src/app/bad.ts', `await import(name)`, 'package'],
    ['a package of another folder', 'src/domains/tasks/bad.ts', `import { z } from 'zod'`, 'package'],
    ['a driver', 'src/stores/sql/bad.ts', `import pg from 'pg'`, 'package-owner'],
    ['the SDK', 'src/tools/runtime/bad.ts', `import '@modelcontextprotocol/server/stdio'`, 'package-owner'],
    ['a process', 'src/app/bad.ts', `import { spawn } from 'node:child_process'`, 'package-owner'],
    ['the environment', 'src/mcp/bad.ts', `const { HOME } = process.env`, 'environment'],
    ['the clock', 'src/domains/tasks/bad.ts', `const now = Date.now()`, 'time'],
    ['the clock as a value', 'src/domains/tasks/bad.ts', `const clock = { now: Date.now }`, 'time'],
    ['the present as a date', 'src/app/bad.ts', `const now = new Date()`, 'time'],
    ['chance', 'src/app/bad.ts', `Math.random()`, 'chance'],
    ['chance by import', 'src/audit/bad.ts', `import { randomBytes as r } from 'node:crypto'`, 'chance'],
    ['a way out', 'src/app/bad.ts', `await fetch('https://example.test')`, 'outbound'],
    ['a way out by import', 'src/mcp/bad.ts', `import { request } from 'node:http'`, 'outbound'],
    ['standard output', 'src/app/bad.ts', `console.log('here')`, 'standard-output'],
    ['an exit', 'src/app/bad.ts', `process.exit(1)`, 'exit'],
    ['a folder without a row', 'src/plugins/bad.ts', `export const x = 1`, 'row'],
  ])('notices %s', (_what, path, text, rule) => {
    expect(rulesBroken(path, text)).toEqual([rule])
  })

  it.each([
    ['a word in a text', 'src/mcp/good.ts', `const text = "import 'pg'; Date.now()"`],
    ['a word in a comment', 'src/mcp/good.ts', `// import 'pg' and process.env\nexport const x = 1`],
    ['a method of the same name', 'src/mcp/good.ts', `handler.fetch(request, { fetch: 1 })`],
    ['a date with an argument', 'src/mcp/good.ts', `const at = new Date(nowMs)`],
    ['an entry point of an allowed package', 'src/stores/files/good.ts', `import { open } from 'node:fs/promises'`],
    ['an inner layer', 'src/domains/trail/good.ts', `import { x } from '../../audit/tree.ts'`],
    ['its own folder', 'src/tools/tasks/good.ts', `import x from './task-get.ts'`],
  ])('lets %s pass', (_what, path, text) => {
    expect(rulesBroken(path, text)).toEqual([])
  })

  it('says where, which rule, why, and what to do', () => {
    const [found] = checkLayers(parseSource('src/mcp/bad.ts', `\nconst home = process.env['HOME']`))
    expect(found?.message).toBe(
      'src/mcp/bad.ts:2 uses process.env, which only app and main.ts and supervisor/main.ts may use. Configuration is read once, checked once and handed on. Add a field to src/app/config-schema.ts and take the value in deps.',
    )
  })
})
