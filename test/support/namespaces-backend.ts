import { execFileSync, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { chmodSync, cpSync, linkSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { getCompileCacheDir } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { inject } from 'vitest'
import { createNamespacesBackend } from '../../src/backends/namespaces/index.ts'
import type { WorkspaceBackend } from '../../src/domains/workspaces/backend.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import type { ImageSource } from '../../src/supervisor/images/build-image.ts'
import { endSupervisorIn } from './end-supervisor.ts'
import { type LayerFile, writeImageArchive } from './oci-image.ts'
import { createOrdinaryUser, type OrdinaryUser } from './ordinary-user.ts'

export type OpenedBackend = Readonly<{
  backend: WorkspaceBackend
  state: string
  /** The supervisor's process, as the host sees it. */
  supervisorPid(): number
  reopen(): WorkspaceBackend
  /** Ends the supervisor, and with it every process of its workspaces, and starts it anew. */
  restart(): Promise<void>
  /** Builds an image as the user of the supervisor. */
  buildImage(name: string, source: ImageSource): Promise<void>
  /** The same from layers. */
  buildLayers(name: string, layers: readonly (readonly LayerFile[])[]): Promise<void>
  /** Ends the supervisor, and with it every workspace, and removes the state. */
  close(): Promise<void>
}>

/** What the configuration has by default. */
export const storeBounds = { hostReserveMb: 512, tenantSharePercent: 80 }

const location = (state: string, storeGb: number, enterSeconds?: number) => ({
  state,
  storeGb,
  enterSeconds,
  ...storeBounds,
  version: 'test',
  bootId: randomUUID(),
  credentials: [],
  logger: silentLogger,
})

/** What the start finds missing. Where the tests are an ordinary user's, that user can hide nothing. */
type Lacks = Readonly<{
  withoutTun?: boolean
  /** The machine as Debian's base has it: none of the packages that only add to what workspaces can do. */
  withoutPackages?: boolean
}>
/** A copy of the program and the user who runs it; without one, the user of the tests runs it. */
type Runner = Readonly<{ program: string; node: string; user?: OrdinaryUser; lacks?: Lacks }>

const ADDED_PROGRAMS = ['bwrap', 'slirp4netns', 'nft', 'ip', 'newuidmap', 'newgidmap', 'btrfs', 'mkfs.btrfs', 'openssl']

/** The user who runs the tests takes compiled code from where the tests keep it; another user has none. */
function compiledHere(): Readonly<Record<string, string>> {
  const folder = getCompileCacheDir()
  return folder === undefined ? {} : { NODE_COMPILE_CACHE: dirname(folder) }
}

async function runScript({ program, node, user, lacks = {} }: Runner, script: string, data: object): Promise<void> {
  const text = `const data = ${JSON.stringify({ ...data, program })}\n${script.replaceAll('PROGRAM', program)}`
  const hiding = process.getuid?.() === 0 ? hide(lacks) : []
  const asUser = user !== undefined && hiding.length > 0 ? becoming(user) : []
  const [file, ...args] = [...hiding, ...asUser, node, '--input-type=module-typescript', '-e', text]
  const child = spawn(file!, args, {
    ...(hiding.length > 0 ? {} : user?.spawnOptions),
    cwd: '/',
    env: {
      HOME: user?.home ?? '/',
      PATH: '/usr/bin:/bin:/usr/sbin:/sbin',
      ...(user === undefined ? compiledHere() : {}),
    },
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const code = await new Promise((resolve) => child.on('exit', resolve))
  if (code !== 0) throw new Error(`A script ended with ${String(code)}: ${script}`)
}

/** For who is started in it, and nobody else. Only root can. */
export function hide({ withoutTun, withoutPackages }: Lacks): string[] {
  const steps = [
    ...(withoutTun === true ? ['mount -t tmpfs -o mode=755 none /dev/net'] : []),
    ...(withoutPackages === true ? [hidePrograms] : []),
  ]
  return steps.length === 0 ? [] : ['unshare', '-m', 'sh', '-c', `${steps.join(' && ')} && exec "$@"`, 'sh']
}

/** A layer over /usr in which they are gone. */
const hidePrograms = [
  'mount -t tmpfs -o mode=755 none /mnt',
  'mkdir -p /mnt/bin /mnt/sbin',
  `for name in ${ADDED_PROGRAMS.join(' ')}; do for folder in bin sbin; do mknod /mnt/$folder/$name c 0 0; done; done`,
  'mount -t overlay -o lowerdir=/mnt:/usr none /usr',
  'umount -l /mnt',
].join(' && ')

const becoming = ({ uid, gid }: OrdinaryUser): string[] => [
  ...['setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', '--'],
]

/** A back end of this test's own, as the user who runs the tests. */
export async function openNamespacesBackend(
  options: Lacks & { storeGb?: number; enterSeconds?: number } = {},
): Promise<OpenedBackend> {
  const directory = mkdtempSync(join(tmpdir(), 'castellan-backend-'))
  const state = join(directory, 'workspaces')
  const storeGb = options.storeGb ?? 4
  const runner = { program: resolve(import.meta.dirname, '../..'), node: process.execPath, lacks: options }
  if (options.withoutPackages === true) await runScript(runner, START, { state, storeGb })
  return opened(state, storeGb, runner, () => removeTree(directory), options.enterSeconds)
}

/**
 * The same as an ordinary user without any privilege. The user gets a copy of the program, because the folder that it is
 * in may be closed to others. Only the supervisor's start depends on who asks for it; the tests then talk to it.
 */
export async function openUserBackend(options: Lacks & { subordinateIds: boolean }): Promise<OpenedBackend> {
  const user = await createOrdinaryUser(options)
  programCopy ??= copyProgram()
  const program = programCopy
  const state = join(user.home, 'workspaces')
  const runner = { program, node: join(program, 'node'), user, lacks: options }
  await runScript(runner, START, { state, storeGb: 0 })
  return opened(state, 0, runner, () => {
    removeTree(state)
    user.remove()
  })
}

/** One for all users of a process of tests: nobody but root can change it. It goes when the whole run ends. */
let programCopy: string | undefined

function copyProgram(): string {
  const program = mkdtempSync(join(inject('runDirectory'), 'program-'))
  for (const name of ['src', 'package.json', 'node_modules/@vscode']) {
    cpSync(join(import.meta.dirname, '../..', name), join(program, name), { recursive: true })
  }
  execFileSync('chmod', ['-R', 'a+rX', program])
  const node = join(program, 'node')
  try {
    linkSync(process.execPath, node)
  } catch {
    // On another file system, or another's file.
    cpSync(process.execPath, node)
    chmodSync(node, 0o755)
  }
  return program
}

const START = `
import { ensureSupervisor } from 'PROGRAM/src/backends/namespaces/start-supervisor.ts'
await ensureSupervisor({ state: data.state, storeGb: data.storeGb, hostReserveMb: 512, tenantSharePercent: 80, version: 'test' })`

const BUILD = `
import { buildImage } from 'PROGRAM/src/supervisor/images/build-image.ts'
import { openUserNamespace } from 'PROGRAM/src/supervisor/user-namespace.ts'
import { systemClock } from 'PROGRAM/src/kernel/clock.ts'
import { systemRandom } from 'PROGRAM/src/kernel/random.ts'
const buildEnvironment = await openUserNamespace()
const deps = { buildEnvironment, root: data.state + '/images', clock: systemClock, random: systemRandom }
const { name, source } = data
const signal = new AbortController().signal
await buildImage(deps, { name, source, bytesMax: 2 ** 32, environment: {}, signal, onProgress() {} })
await buildEnvironment.close()`

function opened(
  state: string,
  storeGb: number,
  runner: Runner,
  remove: () => void,
  enterSeconds?: number,
): OpenedBackend {
  const backend = createNamespacesBackend(location(state, storeGb, enterSeconds))
  const supervisorPid = (): number => Number(readFileSync(join(state, 'supervisor.pid'), 'utf8'))
  const buildImage = (name: string, source: ImageSource): Promise<void> =>
    runScript(runner, BUILD, { state, name, source })
  return {
    backend,
    state,
    supervisorPid,
    reopen: () => createNamespacesBackend(location(state, storeGb)),
    buildImage,
    async buildLayers(name, layers) {
      const folder = mkdtempSync(join(tmpdir(), 'castellan-archive-'))
      const path = join(folder, 'archive.tar')
      try {
        chmodSync(folder, 0o755)
        await writeImageArchive(path, layers)
        await buildImage(name, { kind: 'oci-archive', path })
      } finally {
        rmSync(folder, { recursive: true, force: true })
      }
    },
    async restart() {
      await endSupervisorIn(state)
      await runScript(runner, START, { state, storeGb })
    },
    async close() {
      await backend.close()
      await endSupervisorIn(state)
      remove()
    },
  }
}

/** Files of the other ids of an ordinary user can only be removed from within. */
function removeTree(path: string): void {
  if (process.getuid!() === 0) {
    rmSync(path, { recursive: true, force: true })
    return
  }
  const program = join(import.meta.dirname, 'user-namespace-process.ts')
  execFileSync(process.execPath, [program, `rm -rf '${path}'`])
}
