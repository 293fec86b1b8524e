import { readFileSync, writeFileSync } from 'node:fs'

/**
 * Puts the lock file right after every change of dependencies: node scripts/complete-lock.ts
 *
 * 1. It adds the optional packages that npm left out because the registry in use does not offer them: native parts for other
 *    systems. `npm ci` refuses a lock without them, and skips each of them on a system it is not made for.
 * 2. It removes what packages say about the Node that they need (`engines`). npm would compare that with the Node that npm
 *    runs on, which is not the one that runs Castellan: it would warn of every package, and leave out optional ones.
 *    `test/repo/dependencies.test.ts` compares the packages with the pinned Node instead.
 */
type LockEntry = Record<string, unknown> & { optionalDependencies?: Record<string, string>; dev?: boolean }
type Lock = { packages: Record<string, LockEntry> }

const path = new URL('../package-lock.json', import.meta.url)
const lock = JSON.parse(readFileSync(path, 'utf8')) as Lock

const systems = ['android', 'darwin', 'freebsd', 'linux', 'netbsd', 'openbsd', 'openharmony', 'sunos', 'win32']
const processors = ['arm64', 'arm', 'ia32', 'loong64', 'mips64el', 'ppc64', 'riscv64', 's390x', 'wasm32', 'x64']

/** Whether a package is found from where it is asked for, as Node looks for it: here, then in every folder above. */
function isLocked(from: string, name: string): boolean {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('node_modules/') - 1))) {
    if (lock.packages[`${folder === '' ? '' : `${folder}/`}node_modules/${name}`] !== undefined) return true
    if (folder === '') return false
  }
}

/** Says for which system a package is, from its name: `@scope/binding-linux-arm64-musl`. */
function entryFor(name: string, version: string, dev: boolean): LockEntry {
  const words = name.slice(name.indexOf('/') + 1).split('-')
  const os = systems.find((system) => words.includes(system))
  const cpu = processors.find((processor) => words.includes(processor))
  const libc = os === 'linux' && words.some((word) => word.startsWith('musl')) ? ['musl'] : undefined
  return {
    version,
    ...(cpu === undefined ? {} : { cpu: [cpu] }),
    ...(dev ? { dev: true } : {}),
    ...(libc === undefined ? {} : { libc }),
    optional: true,
    ...(os === undefined ? {} : { os: [os] }),
  }
}

let added = 0
for (const [where, entry] of Object.entries(lock.packages)) {
  delete entry['engines']
  for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
    if (isLocked(where, name)) continue
    lock.packages[`node_modules/${name}`] = entryFor(name, version, entry.dev === true)
    added++
  }
}
const byPath = ([left]: [string, unknown], [right]: [string, unknown]) => (left < right ? -1 : 1)
lock.packages = Object.fromEntries(Object.entries(lock.packages).sort(byPath))
writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`)
process.stdout.write(`${added} optional packages added\n`)
