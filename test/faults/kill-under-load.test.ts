import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { checkState } from '../../src/app/check-state.ts'
import { type Config, loadConfig } from '../../src/app/config.ts'
import { startClient } from '../support/castellan-client.ts'
import { isLongRun } from '../support/long-run.ts'
import { type SeededRandom, seededRandom } from '../support/seeded-random.ts'
import { startServe } from '../support/serve-client.ts'
import { gapsIn, readSqliteState } from '../support/stored-state.ts'
import { type Books, disagreements, load, newBooks, type Target } from './load.ts'

/**
 * Several processes on one data directory under load, and `kill -9` at moments that a seed decides: the owner, a process
 * that bridges to it, or all at once. The driver, which nobody kills, knows what was acknowledged; after every death the
 * state must hold exactly that, once, and the independent checker must find nothing.
 */
const KILLS = isLongRun ? 110 : 7
const LANES = 6
const STDIO_PROCESSES = 3
const KILL_MOMENT_MS_MAX = 60

type Member = Target & Readonly<{ pid: number; kill(signal: NodeJS.Signals): void; ended: Promise<unknown> }>
type Fleet = { members: Member[]; loads: Promise<void>[]; everyone: Member[] }

let dataDir = ''
let fleet: Fleet
let isStopped = false

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'castellan-kill-'))
  fleet = { members: [], loads: [], everyone: [] }
  isStopped = false
})
afterEach(async () => {
  isStopped = true
  for (const member of fleet.everyone) member.kill('SIGKILL')
  await Promise.all(fleet.everyone.map((member) => member.ended))
  rmSync(dataDir, { recursive: true, force: true })
})

async function enlist(member: Promise<Member>, books: Books, random: SeededRandom): Promise<void> {
  const joined = await member
  fleet.everyone.push(joined)
  fleet.members.push(joined)
  fleet.loads.push(load(joined, books, random, { lanes: LANES, isStopped: () => isStopped }))
}

/** The process that the others say owns the state; they agree as soon as one of them is asked after a change. */
async function ownerAmong(members: readonly Member[]): Promise<Member> {
  for (;;) {
    const outcome = await members[0]!.call('server_health', {})
    const owner = members.find((one) => outcome.kind === 'done' && one.pid === outcome.answer['owner_pid'])
    if (owner !== undefined) return owner
  }
}

async function victims(random: SeededRandom): Promise<Member[]> {
  const choice = random.below(10)
  if (choice === 0) return [...fleet.members]
  const owner = await ownerAmong(fleet.members)
  if (choice < 8) return [owner]
  return [fleet.members.filter((one) => one !== owner)[random.below(fleet.members.length - 1)]!]
}

async function judge(books: Books, config: Config): Promise<void> {
  const state = await readSqliteState(join(dataDir, 'castellan.db'))
  expect(disagreements(state, books)).toEqual([])
  expect(gapsIn(state)).toEqual([])
  expect((await checkState(config)).findings).toEqual([])
}

/** What the driver knows now: the state is read after this, so all of it must be there. */
const frozen = (books: Books): Books => ({
  ...books,
  acknowledged: new Map(books.acknowledged),
  undone: new Set(books.undone),
  unexpected: [...books.unexpected],
})

test(`${KILLS} deaths by kill -9 under load lose nothing acknowledged and double nothing`, async () => {
  const random = seededRandom()
  console.info(`seed ${random.seed}`)
  const flags = { data_dir: dataDir }
  const { config } = await loadConfig({ env: { HOME: dataDir }, flags, workingDirectory: dataDir })
  const books = newBooks('ERR_OWNER_LOST')
  const stdio = (): Promise<void> => enlist(startClient({ dataDir }), books, random)
  const serve = (): Promise<void> => enlist(startServe(dataDir), books, random)
  await Promise.all([...Array.from({ length: STDIO_PROCESSES }, stdio), serve()])
  let kills = 0
  while (kills < KILLS) {
    const before = books.acknowledged.size
    await expect.poll(() => books.acknowledged.size, { interval: 2 }).toBeGreaterThan(before + 30)
    const doomed = await victims(random)
    await delay(random.below(KILL_MOMENT_MS_MAX))
    for (const one of doomed) one.kill('SIGKILL')
    kills += doomed.length
    await Promise.all(doomed.map((one) => one.ended))
    fleet.members = fleet.members.filter((one) => !doomed.includes(one))
    await judge(frozen(books), config)
    await Promise.all(doomed.map((one) => ('serves' in one ? serve() : stdio())))
  }
  isStopped = true
  await Promise.all(fleet.loads)
  await judge(books, config)
  const { acknowledged, unknown, undone } = books
  console.info(`${kills} kills; ${acknowledged.size} acknowledged, ${unknown.size} unknown, ${undone.size} not done`)
}, 1_200_000)
