import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chown, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createOrdinaryUser, type OrdinaryUser } from '../../test/support/ordinary-user.ts'
import { ID_COUNT, subordinateRanges, UID_BASE } from './user-namespace.ts'

const program = fileURLToPath(new URL('../../test/support/user-namespace-process.ts', import.meta.url))
const isRoot = process.getuid!() === 0

type Report = Readonly<{
  pid: number
  idCount: number
  limitation: string | null
  owner: { uid: number; gid: number }
  output: string
}>

const start = (script: string, directory: string, user?: OrdinaryUser, ...more: string[]) =>
  spawn(process.execPath, [program, script, ...more], {
    cwd: directory,
    stdio: ['ignore', 'pipe', 'inherit'],
    ...user?.spawnOptions,
  })

async function report(script: string, directory: string, user?: OrdinaryUser): Promise<Report> {
  return JSON.parse(await text(start(script, directory, user).stdout)) as Report
}

const SHOW = 'id -u; id -g; cat /proc/self/uid_map | tr -s " " | sed "s/^ //"'
const CHANGE_OWNER =
  'set -e; touch mine; touch theirs; chown 1000:2000 theirs; touch last; chown 65535:65535 last; echo done'

/** Root tests both kinds. An ordinary user tests its own, with the ids that /etc/subuid gives it. */
const kinds = isRoot ? [true, false] : [existsSync('/etc/subuid')]

describe.each(kinds)('for an ordinary user with subordinate ids: %s', (subordinateIds) => {
  let user: OrdinaryUser
  beforeAll(async () => {
    user = await createOrdinaryUser({ subordinateIds })
  })
  afterAll(() => user.remove())

  it('is root inside, and the user outside', async () => {
    const { output, owner, limitation, idCount } = await report(SHOW, user.home, user)
    expect(output).toMatch(new RegExp(`^0\n0\n0 ${user.uid} 1\n`))
    expect(owner).toEqual({ uid: user.uid, gid: user.gid })
    expect(idCount).toBe(limitation === null ? ID_COUNT : 1)
    if (isRoot) expect(limitation === null).toBe(subordinateIds)
  })

  it('gives files to all the ids there are, and says when there is only one', async () => {
    const { output, limitation } = await report(CHANGE_OWNER, user.home, user)
    expect(await stat(join(user.home, 'mine'))).toMatchObject({ uid: user.uid, gid: user.gid })
    if (limitation === null) {
      expect(output).toBe('done\n')
      const theirs = await stat(join(user.home, 'theirs'))
      const { ranges } = await subordinateRanges('/etc/subuid', [user.name, String(user.uid)], ID_COUNT - 1)
      expect(theirs.uid).toBe(ranges[0]!.outside + 999)
    } else {
      expect(output).toMatch(/^failed: .*Invalid argument/)
      expect(limitation).toMatch(/\/etc\/subuid|uidmap/)
    }
  })
})

describe.each(isRoot ? ['root'] : [])('for %s', () => {
  let closed: string
  let directory: string
  beforeAll(async () => {
    closed = await mkdtemp(join(tmpdir(), 'castellan-namespace-'))
    directory = join(closed, 'work')
    await mkdir(directory)
    await chown(directory, UID_BASE, UID_BASE)
  })
  afterAll(() => rm(closed, { recursive: true, force: true }))

  it('lends out ids that nobody has, and works in a directory whose parents it may not enter', async () => {
    const { output, owner, limitation, idCount } = await report(`${SHOW}; ${CHANGE_OWNER}`, directory)
    expect(output).toBe(`0\n0\n0 ${UID_BASE} ${ID_COUNT}\ndone\n`)
    expect({ owner, limitation, idCount }).toEqual({
      owner: { uid: UID_BASE, gid: UID_BASE },
      limitation: null,
      idCount: ID_COUNT,
    })
    expect(await stat(join(directory, 'mine'))).toMatchObject({ uid: UID_BASE, gid: UID_BASE })
    expect(await stat(join(directory, 'theirs'))).toMatchObject({ uid: UID_BASE + 1000, gid: UID_BASE + 2000 })
    expect(await stat(join(directory, 'last'))).toMatchObject({ uid: UID_BASE + 65_535, gid: UID_BASE + 65_535 })
  })

  it('keeps root of the namespace away from files of root', async () => {
    const secret = await mkdtemp(join(tmpdir(), 'castellan-secret-'))
    try {
      await writeFile(join(secret, 'file'), 'secret', { mode: 0o600 })
      const { output } = await report(`cat ${secret}/file`, directory)
      expect(output).toMatch(/^failed: .*Permission denied/)
    } finally {
      await rm(secret, { recursive: true })
    }
  })
})

it('ends with the process that opened it, however that ends', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'castellan-namespace-'))
  const child = start('true', directory, undefined, 'stay')
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
  const { pid } = JSON.parse(line) as Report
  await expect.poll(() => readFile(`/proc/${pid}/comm`, 'utf8')).toBe('cat\n')
  child.kill('SIGKILL')
  await once(child, 'exit')
  await vi.waitUntil(() => !isRunning(pid), { timeout: 180_000 })
  await rm(directory, { recursive: true })
})

/** A zombie counts as ended. */
function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

it('puts the ranges of a user one after the other, and no more of them than are wanted', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'castellan-subuid-'))
  const file = join(directory, 'subuid')
  await writeFile(file, 'ann:100:10\nbob:5000:7\n# bob:1:1\nbob:x:3\n1234:9000:100\nbob:6000:0\n')
  expect(await subordinateRanges(file, ['bob', '1234'], 20)).toEqual({
    ranges: [
      { inside: 1, outside: 5000, count: 7 },
      { inside: 8, outside: 9000, count: 13 },
    ],
    total: 20,
  })
  expect(await subordinateRanges(join(directory, 'absent'), ['bob'], 20)).toEqual({ ranges: [], total: 0 })
  await rm(directory, { recursive: true })
})
