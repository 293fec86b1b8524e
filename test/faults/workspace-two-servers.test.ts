import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { checkState } from '../../src/app/check-state.ts'
import { type Config, loadConfig } from '../../src/app/config.ts'
import { stateDirectory } from '../../src/app/state-directory.ts'
import { type CastellanClient, startClient } from '../support/castellan-client.ts'
import { endSupervisor } from '../support/end-supervisor.ts'
import { isLongRun } from '../support/long-run.ts'
import { createDatabase } from '../support/postgres.ts'
import { type SeededRandom, seededRandom } from '../support/seeded-random.ts'
import { disagreements, recordedInPostgres, supervisorPid, workspaceTruth } from '../support/workspace-truth.ts'
import { aim, type Victim } from './workspace-death.ts'
import { newBooks, noteSupervisorDeath, untrue, type WorkspaceBooks, workOnWorkspaces } from './workspace-load.ts'

/**
 * Two servers on one database, both at work; `kill -9` comes to one of them, and the other goes on. Nothing of what the
 * other has is touched by the death, nor by the recovery after it, and the records of both nodes agree with the machine.
 */
const KILLS = isLongRun ? 40 : 1
const LANES = 2
const KILL_MOMENT_MS_MAX = 300
const WORKSPACES_MAX = 20

type Side = {
  readonly state: string
  readonly dataDir: string
  readonly books: WorkspaceBooks
  client: CastellanClient
}

let url = ''
let folders: string[] = []
let sides: Side[] = []

beforeEach(async () => {
  url = await createDatabase(inject('postgresUrl'))
  folders = []
  sides = []
})
afterEach(async () => {
  for (const { client } of sides) client.kill('SIGKILL')
  await Promise.all(sides.map(({ client }) => client.ended))
  for (const state of new Set(sides.map((side) => side.state))) await endSupervisor(state)
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'castellan-two-ws-'))
  folders.push(folder)
  return folder
}

const serve = (dataDir: string): Promise<CastellanClient> =>
  startClient({
    dataDir,
    environment: {
      CASTELLAN_DATABASE_URL: url,
      CASTELLAN_WORKSPACES_STORE_GB: '0',
      CASTELLAN_WORKSPACES_MAX_WORKSPACES: String(WORKSPACES_MAX),
      CASTELLAN_LOG_LEVEL: 'error',
    },
  })

async function configOf(dataDir: string): Promise<Config> {
  const flags = { data_dir: dataDir, database_url: url }
  return (await loadConfig({ env: { HOME: dataDir }, flags, workingDirectory: dataDir })).config
}

async function openSide(dataDir: string, name: string): Promise<Side> {
  const state = stateDirectory(await configOf(dataDir))
  const key = join(sides[0]?.state ?? state, 'log-key.json')
  if (sides[0] !== undefined && sides[0].state !== state) {
    mkdirSync(join(dataDir, basename(state)))
    copyFileSync(key, join(state, 'log-key.json'))
  }
  const side: Side = { state, dataDir, books: newBooks(`${name}-`), client: await serve(dataDir) }
  sides.push(side)
  await side.client.call('workspace_create', { name: `${name}-ground` })
  side.books.workspaces.set(`${name}-ground`, [{ state: 'running', content: '', snapshots: [] }])
  return side
}

/** Both work; one dies at some moment, the other is only told to stop afterwards. */
async function round(victim: Victim, [hit, spared]: readonly [Side, Side], random: SeededRandom): Promise<void> {
  let isStopped = false
  const before = sides.map(({ books }) => books.acknowledged)
  const lanes = sides.flatMap(({ client, books }) =>
    Array.from({ length: LANES }, (_, index) =>
      workOnWorkspaces(client, books, random, { name: `${books.prefix}${index}`, isStopped: () => isStopped }),
    ),
  )
  const least = (): number => Math.min(...sides.map(({ books }, index) => books.acknowledged - before[index]!))
  await expect.poll(least, { interval: 5 }).toBeGreaterThan(2)
  const { shoot, gone } = aim(hit.client, hit.state, victim)
  await delay(random.below(KILL_MOMENT_MS_MAX))
  const share = hit.state === spared.state ? [hit, spared] : [hit]
  if (victim !== 'server') for (const { books } of share) books.mayFail = true
  shoot()
  await gone()
  if (victim === 'server' || victim === 'both') {
    await hit.client.ended
    // While the other still works.
    hit.client = await serve(hit.dataDir)
    await hit.client.call('workspace_list')
  }
  isStopped = true
  await Promise.all(lanes)
  if (victim !== 'server') for (const { books } of share) noteSupervisorDeath(books)
}

async function differences(): Promise<string[]> {
  const found: string[] = []
  for (const state of new Set(sides.map((side) => side.state))) {
    found.push(...disagreements(await recordedInPostgres(url, state), workspaceTruth(state)))
  }
  return found
}

/** What is kept ready for the next workspace is made after the last one was answered for. */
const settle = (what: string): Promise<void> =>
  expect.poll(differences, { interval: 20, timeout: 180_000, message: what }).toEqual([])

async function judge(what: string): Promise<void> {
  for (const { client } of sides) await client.call('workspace_list')
  await settle(what)
  for (const { client, books } of sides) {
    expect(await untrue(client, books), `${what}; ${books.prefix} said: ${client.stderr()}`).toEqual([])
    books.mayFail = false
  }
  await settle(what)
  expect((await checkState(await configOf(sides[0]!.dataDir))).findings).toEqual([])
}

/** Both at once make workspaces until they are refused: what died in between counts neither twice nor not at all. */
async function fill(): Promise<void> {
  const codes = await Promise.all(
    sides.map(async ({ client }) => {
      for (;;) {
        const outcome = await client.call('workspace_create', { memory_mb: 64 })
        if (outcome.kind !== 'done') return outcome.kind === 'failed' ? outcome.code : outcome.kind
      }
    }),
  )
  expect(codes).toEqual(sides.map(() => 'ERR_QUOTA_EXCEEDED'))
  for (const state of new Set(sides.map((side) => side.state))) {
    const recorded = await recordedInPostgres(url, state)
    expect(recorded.filter(({ state: now }) => now !== 'archived')).toHaveLength(WORKSPACES_MAX)
  }
  await settle('when both are full')
}

const victims: readonly Victim[] = ['server', 'both', 'server', 'supervisor', 'server', 'launcher']

test.each([
  { where: 'each on a directory of its own', isShared: false },
  { where: 'both on one directory', isShared: true },
])(
  `${KILLS} deaths of one of two servers on one database, $where, leave the other alone`,
  async ({ isShared }) => {
    const random = seededRandom()
    console.info(`seed ${random.seed}`)
    const first = await openSide(newFolder(), 'a')
    const second = await openSide(isShared ? first.dataDir : newFolder(), 'b')
    const firstVictim = random.below(victims.length)
    for (let kills = 0; kills < KILLS; kills++) {
      const victim = victims[(firstVictim + kills) % victims.length]!
      const [hit, spared] = random.below(2) === 0 ? ([first, second] as const) : ([second, first] as const)
      const [survivor, server] = [supervisorPid(spared.state), spared.client.pid]
      await round(victim, [hit, spared], random)
      await judge(`after kill ${kills + 1}, of ${victim} ${hit.books.prefix}`)
      if (!isShared) expect([supervisorPid(spared.state), spared.client.pid]).toEqual([survivor, server])
    }
    await fill()
    const [acknowledged, unanswered] = (['acknowledged', 'unanswered'] as const).map((count) =>
      sides.reduce((sum, { books }) => sum + books[count], 0),
    )
    console.info(`${KILLS} kills; ${acknowledged} acknowledged, ${unanswered} not`)
  },
  1_800_000,
)
