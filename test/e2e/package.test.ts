import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { homeEnvironment } from '../support/run-castellan.ts'

/** The package as `npm pack` makes it, laid out as an installation has it: below node_modules, its dependencies beside it. */
let folder = ''
let files: string[] = []
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'castellan-package-'))
  const packed = execFileSync('npm', ['pack', '--json', '--pack-destination', folder], { encoding: 'utf8' })
  files = (JSON.parse(packed) as [{ files: { path: string }[] }])[0].files.map(({ path }) => path)
  const modules = join(folder, 'node_modules')
  mkdirSync(join(modules, 'castellan'), { recursive: true })
  const [archive] = readdirSync(folder).filter((name) => name.endsWith('.tgz'))
  execFileSync('tar', ['-xzf', join(folder, archive!), '-C', join(modules, 'castellan'), '--strip-components=1'])
  for (const name of readdirSync('node_modules')) {
    if (name !== 'castellan' && name !== '.bin') symlinkSync(resolve('node_modules', name), join(modules, name))
  }
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const run = (...args: string[]) =>
  spawnSync(join(folder, 'node_modules/castellan/bin/castellan'), [...args, '--data-dir', join(folder, 'state')], {
    encoding: 'utf8',
    cwd: folder,
    env: homeEnvironment(folder),
  })

test('holds the program and its guides, and none of its tests', () => {
  expect(files.filter((path) => /\.test\.ts$|^test\/|^bench\/|^scripts\//.test(path))).toEqual([])
  expect(files).toEqual(
    expect.arrayContaining(['README.md', 'LICENSE', 'bin/castellan', 'src/main.ts', 'docs/guides/agents.md']),
  )
})

test('runs where it is installed', () => {
  expect(run('call', 'task_create', 'title=Installed', 'project=demo', '--json').stdout).toContain('"task_id":"T-0001"')
  expect(run('verify').status).toBe(0)
})

test('searches by meaning where it is installed', () => {
  const found = run('call', 'search_tools', 'query=open localhost:3000 in my browser', '--json')
  expect(found.stderr).toBe('')
  const { tools, hint } = JSON.parse(found.stdout) as { tools: { toolName: string }[]; hint: string }
  expect(tools[0]!.toolName).toBe('port_forward')
  expect(hint).not.toContain('matches of words')
})
