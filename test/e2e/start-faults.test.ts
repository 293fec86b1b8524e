import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runCastellan } from '../support/run-castellan.ts'
import { makeSmallDisk } from '../support/small-disk.ts'

/** A state that cannot be opened is told in one error with the next step, by the code of the table, and without a stack. */
let home = ''
let sound = ''
let dataDir = ''

beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'castellan-faults-'))
  sound = join(home, 'sound')
  dataDir = join(home, 'state')
  expect((await run(sound, 'call', 'task_create', 'title=one', 'project=p')).code).toBe(0)
})
afterAll(() => rmSync(home, { recursive: true, force: true }))

const run = (directory: string, ...args: string[]) => runCastellan([...args, '--data-dir', directory], { home })
const inState = (name: string) => join(dataDir, name)

function overwrite(name: string, from: number, bytes: number): void {
  const content = readFileSync(inState(name))
  content.fill(0xa5, from, from + bytes)
  writeFileSync(inState(name), content)
}

const cases: readonly [string, () => void, code: { call: number; verify: number }, words: RegExp][] = [
  ['the head of the database is overwritten', () => overwrite('castellan.db', 0, 100), damage(), /is damaged .*backup/],
  [
    'pages of the database are overwritten',
    () => overwrite('castellan.db', 4096, 6 * 4096),
    damage(),
    /malformed.*(backup|castellan doctor)/,
  ],
  [
    'the database is cut in half',
    () => truncateSync(inState('castellan.db'), statSync(inState('castellan.db')).size / 2),
    damage(),
    /malformed.*(backup|castellan doctor)/,
  ],
  [
    'the database is a directory',
    () => {
      rmSync(inState('castellan.db'))
      mkdirSync(inState('castellan.db'))
    },
    unusable(),
    /castellan\.db .*--data-dir/,
  ],
  [
    'the key is a directory',
    () => {
      rmSync(inState('log-key.json'))
      mkdirSync(inState('log-key.json'))
    },
    unusable(),
    /log-key\.json is a directory.*Move it away/,
  ],
  [
    'the checkpoints are a file',
    () => {
      rmSync(inState('checkpoints'), { recursive: true })
      writeFileSync(inState('checkpoints'), '')
    },
    unusable(),
    /checkpoints.* Move away the file/,
  ],
  [
    'the data directory is a file',
    () => {
      rmSync(dataDir, { recursive: true })
      writeFileSync(dataDir, '')
    },
    unusable(),
    /not .*a directory.*--data-dir/,
  ],
]

function damage() {
  return { call: 6, verify: 5 }
}

function unusable() {
  return { call: 6, verify: 6 }
}

describe.each(cases)('%s', (_what, meddle, code, words) => {
  it('is told in words by a command that uses the state, and by one that checks it', async () => {
    rmSync(dataDir, { recursive: true, force: true })
    cpSync(sound, dataDir, { recursive: true })
    meddle()
    for (const [name, args] of [
      ['call', ['call', 'task_create', 'title=two', 'project=p']],
      ['verify', ['verify']],
    ] as const) {
      const finished = await run(dataDir, ...args)
      expect([name, finished.code, finished.stderr]).toEqual([name, code[name], expect.stringMatching(words)])
      expect(finished.stderr).not.toMatch(/^\s+at |\\n {4}at /m)
      expect(finished.stderr.match(/^error: /gm)).toHaveLength(1)
    }
  })
})

it('a directory that the kernel does not let anybody make is told', async () => {
  const finished = await run('/proc/castellan/state', 'call', 'task_list')
  expect([finished.code, finished.stderr]).toEqual([
    6,
    expect.stringMatching(/^error: The data directory \/proc\/castellan\/state .*--data-dir/),
  ])
})

/** Root may write everything, so it lets another user try. */
const user = process.getuid!() === 0 ? { uid: 12_345, gid: 12_345 } : { uid: process.getuid!(), gid: process.getgid!() }

it('a directory that may not be written is told, and still verified', async () => {
  rmSync(dataDir, { recursive: true, force: true })
  cpSync(sound, dataDir, { recursive: true })
  for (const name of ['', ...(readdirSync(dataDir, { recursive: true }) as string[])]) {
    chownSync(join(dataDir, name), user.uid, user.gid)
  }
  chmodSync(dataDir, 0o500)
  chmodSync(home, 0o755)
  const called = await runCastellan(['call', 'task_list', '--data-dir', dataDir], { home, ...user })
  expect([called.code, called.stderr]).toEqual([
    6,
    expect.stringMatching(/^error: The data directory \S+ may not be used by your user/),
  ])
  const verified = await runCastellan(['verify', '--data-dir', dataDir], { home, ...user })
  expect([verified.code, verified.stdout]).toEqual([0, expect.stringContaining('sound')])
  chmodSync(dataDir, 0o700)
})

/** This needs root: nobody else can have a disk of its own. */
it('a full disk is told, and what is on it is still verified', async () => {
  const disk = makeSmallDisk(48)
  try {
    const [kept, fresh] = [join(disk.folder, 'kept'), join(disk.folder, 'fresh')]
    cpSync(sound, kept, { recursive: true })
    // The file system needs a little for the file that fills it; what is left then is taken in small pieces.
    disk.fillBut(64 * 1024)
    disk.fillUp()
    const held = (directory: string): string[] =>
      existsSync(directory) ? readdirSync(directory).filter((name) => !/^castellan\.db-(shm|wal)$/.test(name)) : []
    const before = held(kept)
    for (const [directory, ...args] of [
      [kept, 'call', 'task_create', 'title=two', 'project=p'],
      [kept, 'serve', '--port', '0'],
      [fresh, 'call', 'task_list'],
      [fresh, 'serve', '--port', '0'],
    ] as const) {
      const { code, stdout, stderr } = await run(directory, ...args)
      expect([args, code, stdout, stderr]).toEqual([
        args,
        6,
        '',
        expect.stringMatching(/^error: .*(full|free space).*\n$/),
      ])
    }
    const verified = await run(kept, 'verify')
    expect([verified.code, verified.stdout]).toEqual([0, expect.stringContaining('sound')])
    expect((await run(kept, 'doctor')).stdout).toMatch(/^data directory +bad +the disk of .* is nearly full/m)
    expect([held(kept), held(fresh)]).toEqual([before, []])
  } finally {
    disk.remove()
  }
})
