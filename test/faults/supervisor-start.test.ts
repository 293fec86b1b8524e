import { execFileSync, spawn } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createNamespacesBackend, type NamespacesDeps } from '../../src/backends/namespaces/index.ts'
import { isListening, socketPathOf } from '../../src/backends/namespaces/start-supervisor.ts'
import { closedNetwork, type WorkspaceBackend, type WorkspaceSpec } from '../../src/domains/workspaces/backend.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { encodeFrame, PROTOCOL_VERSION } from '../../src/supervisor/protocol.ts'
import { endSupervisorIn } from '../support/end-supervisor.ts'
import { isLongRun } from '../support/long-run.ts'
import { storeBounds } from '../support/namespaces-backend.ts'
import { isProcess, listProcesses } from '../support/workspace-truth.ts'

const ROUNDS = isLongRun ? 10 : 1
/** Cases that take long by their nature. */
const longRun = isLongRun ? ['the long run'] : []
/** How a supervisor comes up, whatever it finds; and that one which cannot says why. */
let directory = ''
let state = ''
let opened: WorkspaceBackend[] = []
let mounted: string | undefined

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'castellan-start-'))
  state = join(directory, 'workspaces')
  opened = []
  mounted = undefined
})
afterEach(async () => {
  await Promise.all(opened.map((backend) => backend.close()))
  await endSupervisorIn(state)
  if (mounted !== undefined) execFileSync('umount', ['-l', mounted])
  rmSync(directory, { recursive: true, force: true })
})

function open(more: Partial<NamespacesDeps> = {}): WorkspaceBackend {
  const options = {
    state,
    storeGb: 0,
    ...storeBounds,
    version: 'test',
    bootId: 'test',
    credentials: [],
    logger: silentLogger,
  }
  const backend = createNamespacesBackend({ ...options, ...more })
  opened.push(backend)
  return backend
}

const specOf = (id: string): Omit<WorkspaceSpec, 'ip'> => ({
  id,
  hostname: id,
  image: 'host',
  layers: [],
  resources: { vcpus: 1, memoryMb: 64, diskGb: 10 },
  network: closedNetwork,
})
async function run(backend: WorkspaceBackend, id: string): Promise<void> {
  const { ip } = await backend.create(specOf(id))
  await backend.start({ ...specOf(id), ip })
}
async function say(backend: WorkspaceBackend, id: string, command: string): Promise<string> {
  const { stdout, stderr } = await backend.exec(id, {
    argv: ['/bin/sh', '-c', command],
    env: { PATH: '/usr/bin:/bin' },
    timeoutMs: 60_000,
    outputBytesMax: 10_000,
    signal: new AbortController().signal,
  })
  return `${Buffer.from(stdout.head)}${Buffer.from(stderr.head)}`.trimEnd()
}

const supervisors = (): number[] =>
  listProcesses().flatMap(({ pid, command }) =>
    command.startsWith('/mnt/node/node') && stateOf(pid) === state ? [pid] : [],
  )
/** What a supervisor is about to start looks like itself for a moment. */
const theOnlySupervisor = (): Promise<void> => expect.poll(() => supervisors().length).toBe(1)
const launches = (): number[] =>
  listProcesses().flatMap(({ pid, command }) =>
    command.includes('src/supervisor/launch.sh') && stateOf(pid) === state ? [pid] : [],
  )
const watchersOf = (first: number): number[] =>
  listProcesses().flatMap(({ pid, command }) =>
    command.startsWith('perl -e') && command.trimEnd().endsWith(`${state} ${first}`) ? [pid] : [],
  )
const holdsLock = (pid: number): boolean =>
  readdirSync(`/proc/${pid}/fd`).some((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`).endsWith('supervisor.lock'))
function stateOf(pid: number): string | undefined {
  try {
    const entries = readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0')
    return entries.find((entry) => entry.startsWith('STATE='))?.slice('STATE='.length)
  } catch {
    return undefined
  }
}
const pidFile = (): string => join(state, 'supervisor.pid')
const supervisorPid = (): number => Number(readFileSync(pidFile(), 'utf8'))

describe('a start', () => {
  test('by many at once is one start', async () => {
    const backends = Array.from({ length: 6 }, () => open())
    const inventories = await Promise.all(backends.map((backend) => backend.inventory()))
    expect(inventories).toEqual(inventories.map(() => ({ running: [], stored: [], layers: [] })))
    await theOnlySupervisor()
    await expect.poll(() => launches().length).toBeLessThanOrEqual(4)
  })

  test('while the last supervisor still dies waits for its place', async () => {
    const backend = open()
    await run(backend, 'w')
    // What only serves it holds no place: its pauses would be waited for.
    expect(launches().filter(holdsLock)).toHaveLength(1)
    for (let round = 0; round < ROUNDS; round++) {
      process.kill(supervisorPid(), 'SIGKILL')
      // On a busy machine it answers until the kernel gets to it.
      await expect.poll(() => isListening(socketPathOf(state)), { interval: 1 }).toBe(false)
      const other = open()
      expect(await other.inventory()).toEqual({ running: [], stored: ['w'], layers: [] })
      await other.close()
    }
  })

  /** As in a container whose first process is a server and asks for the end of nobody's child. */
  test('after an end that nobody asked for is free to begin', async () => {
    const options = { state, storeGb: 0, ...storeBounds, version: 'test' }
    const start = `(await import('./src/backends/namespaces/start-supervisor.ts')).ensureSupervisor(${JSON.stringify(options)})`
    const adopt = `require './src/supervisor/perl/kernel.pl'; system_call('prctl', 36, 1, 0, 0, 0) == 0 or die "prctl: $!"; exec @ARGV if !fork; sleep`
    const parent = spawn('perl', ['-e', adopt, process.execPath, '--input-type=module', '-e', start])
    try {
      await expect.poll(() => existsSync(join(state, 'sockets/supervisor.sock'))).toBe(true)
      process.kill(supervisorPid(), 'SIGKILL')
      await expect.poll(() => existsSync(pidFile())).toBe(false)
      expect((await open().inventory()).running).toEqual([])
    } finally {
      parent.kill('SIGKILL')
    }
  })

  test('runs code that the process that started it has compiled, once, and that it can read but not change', async () => {
    const cache = join(directory, 'cache')
    const options = { state, storeGb: 0, ...storeBounds, version: 'test' }
    const start = `
      import { enableCompileCache } from 'node:module'
      enableCompileCache(${JSON.stringify(cache)})
      const { ensureSupervisor } = await import('./src/backends/namespaces/start-supervisor.ts')
      await ensureSupervisor(${JSON.stringify(options)})`
    const startOnce = (): number => {
      execFileSync(process.execPath, ['--input-type=module', '-e', start])
      return supervisorPid()
    }
    const first = startOnce()
    const [compiled, ...others] = readdirSync(cache).filter((name) => name.startsWith('supervisor-'))
    expect(others).toEqual([])
    const seenBy = (pid: number): string => join('/proc', String(pid), 'root', 'mnt/compiled')
    const seen = seenBy(first)
    const paths = readdirSync(seen, { recursive: true }).map((path) => join(seen, String(path)))
    expect(paths.length).toBeGreaterThan(50)
    for (const { uid, mode } of [seen, ...paths].map((path) => statSync(path)))
      expect([uid, mode & 0o026]).toEqual([process.getuid!(), 0o004])
    const done = () => statSync(join(cache, compiled!, 'done')).ino
    const before = done()
    await endSupervisorIn(state)
    const second = startOnce()
    expect(done()).toBe(before)
    // Node never ends a start with a folder that was removed meanwhile, as another start does that replaces it.
    rmSync(join(cache, compiled!), { recursive: true })
    expect(readdirSync(seenBy(second))).toContain('done')
  })

  test('finds nothing strange about a socket, a number and a pipe that nobody holds', async () => {
    const backend = open()
    await run(backend, 'w')
    const [first, ...launch] = [supervisorPid(), ...launches()]
    expect(watchersOf(first)).toHaveLength(1)
    for (const pid of launch) process.kill(pid, 'SIGKILL')
    await expect.poll(() => launch.filter(isProcess)).toEqual([])
    process.kill(first, 'SIGKILL')
    await expect.poll(() => isProcess(first)).toBe(false)
    expect([pidFile(), join(state, 'supervisor.sock')].filter((path) => existsSync(path))).toHaveLength(2)
    expect((await open().inventory()).stored).toEqual(['w'])
    expect(supervisorPid()).not.toBe(first)
    // What watched the first would end the process that has its number by then.
    await expect.poll(() => watchersOf(first)).toEqual([])
  })

  test('reaches a supervisor whose folder has a very long name', async () => {
    const long = join(directory, 'd'.repeat(120), 'workspaces')
    mkdirSync(join(directory, 'd'.repeat(120)))
    const backend = open({ state: long })
    try {
      await run(backend, 'w')
      expect(await say(backend, 'w', 'hostname')).toBe('w')
    } finally {
      await endSupervisorIn(long)
    }
  })

  test('begins a new log when the last is large, and keeps that one', async () => {
    mkdirSync(state)
    writeFileSync(join(state, 'supervisor.log'), Buffer.alloc(11 * 1024 * 1024, 'old words\n'))
    await open().inventory()
    expect(statSync(join(state, 'supervisor.log')).size).toBeLessThan(1024 * 1024)
    expect(readFileSync(join(state, 'supervisor.log.1'), 'utf8')).toContain('old words')
  })
})

/** Answers as a supervisor of another version would; what it was asked is noted. */
async function pretend(facts: { protocol: number; running: number }): Promise<{ asked: string[]; server: Server }> {
  mkdirSync(state, { mode: 0o700 })
  const asked: string[] = []
  const server = createServer((socket) => {
    socket
      .on('error', () => {})
      .once('data', (line) => {
        const { operation } = JSON.parse(String(line)) as { operation: string }
        asked.push(operation)
        const answer = operation === 'hello' ? { ...facts, version: '0.0.9' } : {}
        socket.end(encodeFrame('result', Buffer.from(JSON.stringify(answer))))
        if (operation === 'shutdown') server.close()
      })
  })
  await new Promise<void>((resolve) => server.listen(join(state, 'supervisor.sock'), resolve))
  return { asked, server }
}

describe('a supervisor of another version', () => {
  test('gives way when it is older and holds nothing', async () => {
    const { asked } = await pretend({ protocol: PROTOCOL_VERSION - 1, running: 0 })
    const backend = open()
    await run(backend, 'w')
    expect(asked).toEqual(['hello', 'shutdown'])
    await theOnlySupervisor()
  })

  test.each([
    { protocol: PROTOCOL_VERSION - 1, running: 2 },
    { protocol: PROTOCOL_VERSION + 1, running: 0 },
  ])('is left alone and named: %o', async (facts) => {
    const { asked, server } = await pretend(facts)
    await expect(open().inventory()).rejects.toMatchObject({
      code: 'ERR_CAPABILITY_MISSING',
      message: expect.stringContaining('castellan 0.0.9'),
      details: { version: '0.0.9', ...facts },
    })
    expect(asked).toEqual(['hello'])
    server.close()
  })
})

/** Programs under their usual names, all but some. */
function programsWithout(...missing: string[]): string {
  const folder = join(directory, 'programs')
  mkdirSync(folder)
  for (const from of ['/usr/bin', '/usr/sbin', '/bin', '/sbin']) {
    for (const name of existsSync(from) ? readdirSync(from) : []) {
      if (!missing.includes(name) && !existsSync(join(folder, name))) {
        rmSync(join(folder, name), { force: true })
        symlinkSync(join(from, name), join(folder, name))
      }
    }
  }
  return folder
}

describe('a machine that lacks something', () => {
  test('is told which package to install', async () => {
    await expect(open({ path: programsWithout('perl', 'flock') }).inventory()).rejects.toMatchObject({
      code: 'ERR_CAPABILITY_MISSING',
      message: expect.stringMatching(/perl, flock.* perl util-linux/),
      details: { programs: ['perl', 'flock'], packages: ['perl', 'util-linux'] },
    })
    expect(existsSync(state)).toBe(false)
    const { available, problem } = await open({ path: join(directory, 'programs') }).capabilities()
    expect({ available, problem }).toEqual({ available: false, problem: expect.stringContaining('util-linux') })
  })

  test('is told what the start said', async () => {
    const path = programsWithout('perl')
    const script = '#!/bin/sh\ncase "$*" in *keeper.pl*) exit 1 ;; esac\nexec /usr/bin/perl "$@"\n'
    writeFileSync(join(path, 'perl'), script)
    chmodSync(join(path, 'perl'), 0o755)
    mkdirSync(state, { mode: 0o700 })
    appendFileSync(join(state, 'supervisor.log'), 'words of another day\n')
    const failure = (await open({ path })
      .inventory()
      .catch((error: unknown) => error)) as Error
    expect(failure).toMatchObject({ code: 'ERR_CAPABILITY_MISSING', details: { exit_code: 76 } })
    expect(failure.message).toContain('the kernel refuses user namespaces')
    expect(failure.message).not.toContain('another day')
    const left = readdirSync(state, { recursive: true, encoding: 'utf8' })
    expect(left.filter((name) => /\.(pid|sock)$|alive/.test(name))).toEqual([])
  })
})

describe('the store', () => {
  async function again(storeGb: number): Promise<WorkspaceBackend> {
    await Promise.all(opened.map((backend) => backend.close()))
    await endSupervisorIn(state)
    return open({ storeGb })
  }

  test('stays what it is, whatever the configuration says later', async () => {
    await run(open({ storeGb: 2 }), 'w')
    expect((await (await again(0)).inventory()).stored).toEqual(['w'])
    expect(await (await again(3)).inventory()).toMatchObject({ stored: ['w'] })
  })

  test('of folders is not hidden under a new file', async () => {
    await run(open({ storeGb: 0 }), 'w')
    expect((await (await again(2)).inventory()).stored).toEqual(['w'])
    expect(existsSync(join(state, 'store.btrfs'))).toBe(false)
  })

  test.each(longRun)('that cannot be mounted is a failure, not another store, in %s', async () => {
    await run(open({ storeGb: 2 }), 'w')
    await Promise.all(opened.map((backend) => backend.close()))
    await endSupervisorIn(state)
    const block = Buffer.alloc(4096)
    const file = join(state, 'store.btrfs')
    const intact = execFileSync('dd', [`if=${file}`, 'bs=4096', 'skip=16', 'count=1', 'status=none'])
    overwrite(file, block)
    await expect(open({ storeGb: 2 }).inventory()).rejects.toMatchObject({
      code: 'ERR_CAPABILITY_MISSING',
      message: expect.stringContaining('store.btrfs, cannot be mounted'),
    })
    overwrite(file, intact)
    expect((await open({ storeGb: 2 }).inventory()).stored).toEqual(['w'])
  })

  /** Where btrfs has its first superblock. */
  function overwrite(file: string, block: Buffer): void {
    execFileSync('dd', [`of=${file}`, 'bs=4096', 'seek=16', 'conv=notrunc', 'status=none'], { input: block })
  }

  test.each(longRun)(
    'that is full refuses clearly, holds what it has, and works again when there is room, in %s',
    async () => {
      const backend = open({ storeGb: 1 })
      await run(backend, 'full')
      await say(backend, 'full', 'echo kept > /kept; sync')
      const grow =
        'for size in 256 64 16 4 1; do n=0; while fallocate -l "$size"M /fill-$size-$n; do n=$((n+1)); done; done'
      expect(await say(backend, 'full', `${grow}; head -c 8M /dev/urandom > /last`)).toContain('No space left')
      const made = await backend.create(specOf('other')).catch((error: unknown) => error)
      if (made instanceof Error) expect(made).toMatchObject({ code: 'ERR_DISK_FULL' })
      expect(await say(backend, 'full', 'cat /kept; echo up')).toBe('kept\nup')
      await backend.destroy('other')
      await backend.destroy('full')
      expect(await backend.inventory()).toEqual({ running: [], stored: [], layers: [] })
      // The space of what was removed comes back in the background.
      await expect.poll(() => run(backend, 'next').then(String, String)).toBe('undefined')
      expect(await say(backend, 'next', 'head -c 64M /dev/zero > /file && echo wrote')).toBe('wrote')
    },
  )

  test('on a full host ends nobody: commands and jobs go on, and what needs room says so', async () => {
    const disk = join(directory, 'disk')
    execFileSync('truncate', ['-s', '64M', disk])
    execFileSync('mkfs.ext4', ['-q', disk])
    mounted = join(directory, 'mounted')
    mkdirSync(mounted)
    execFileSync('mount', ['-o', 'loop', disk, mounted])
    state = join(mounted, 'workspaces')
    const backend = open()
    await run(backend, 'w')
    const job = { argv: ['/bin/sh', '-c', 'while :; do echo a line of words; done'], env: {}, timeoutMs: 0 }
    execFileSync('sh', ['-c', `head -c 1G /dev/zero > ${join(mounted, 'fill')} || :`], { stdio: 'ignore' })
    const { jobId } = await backend.jobs.start('w', job).catch(() => ({ jobId: 0 }))
    const before = supervisorPid()
    await expect(backend.create(specOf('other'))).rejects.toMatchObject({ code: 'ERR_DISK_FULL' })
    expect(await say(backend, 'w', 'echo up')).toBe('up')
    rmSync(join(mounted, 'fill'))
    const started = jobId === 0 ? (await backend.jobs.start('w', job)).jobId : jobId
    await expect
      .poll(async () => (await backend.jobs.poll('w', started, { stdout: 0, stderr: 0 }, 100))?.stdout.length)
      .toBeGreaterThan(0)
    expect(supervisorPid()).toBe(before)
    await backend.destroy('other')
    await run(backend, 'next')
    expect((await backend.inventory()).running).toEqual(['w', 'next'])
  })
})
