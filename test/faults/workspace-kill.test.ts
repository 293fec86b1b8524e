import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { checkState } from '../../src/app/check-state.ts'
import { loadConfig } from '../../src/app/config.ts'
import { type CastellanClient, startClient } from '../support/castellan-client.ts'
import { endSupervisor } from '../support/end-supervisor.ts'
import { isLongRun } from '../support/long-run.ts'
import { type SeededRandom, seededRandom } from '../support/seeded-random.ts'
import { disagreements, recordedInSqlite, workspaceTruth } from '../support/workspace-truth.ts'
import { aim, type Victim } from './workspace-death.ts'
import { newBooks, noteSupervisorDeath, untrue, type WorkspaceBooks, workOnWorkspaces } from './workspace-load.ts'

/**
 * Workspaces are made, forked, kept, put back, stopped, started and destroyed on several lanes, and `kill -9` comes at
 * moments that a seed decides: to the server, to the supervisor, to both, or to the supervisor's launcher. Afterwards the
 * records and the machine agree exactly, whatever was acknowledged is there with its content, and what was not is either
 * whole or gone.
 */
const KILLS = isLongRun ? 80 : 2
const LANES = 3
const KILL_MOMENT_MS_MAX = 300

let dataDir = ''
let client: CastellanClient | undefined

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'castellan-kill-ws-'))
})
afterEach(async () => {
  client?.kill('SIGKILL')
  await client?.ended
  client = undefined
  await endSupervisor(dataDir)
  rmSync(dataDir, { recursive: true, force: true })
})

async function serve(storeGb: number): Promise<CastellanClient> {
  const environment = {
    CASTELLAN_WORKSPACES_STORE_GB: String(storeGb),
    CASTELLAN_AUDIT_CHECKPOINT_INTERVAL_MS: '10',
    CASTELLAN_LOG_LEVEL: 'error',
  }
  client = await startClient({ dataDir, environment })
  return client
}

const victims: readonly Victim[] = ['server', 'both', 'supervisor', 'server', 'launcher', 'server', 'both', 'server']

/** A round of work that a death ends. Answers the server that is there afterwards. */
async function round(
  current: CastellanClient,
  books: WorkspaceBooks,
  random: SeededRandom,
  plan: Readonly<{ victim: Victim; storeGb: number }>,
): Promise<CastellanClient> {
  const { victim } = plan
  let isStopped = false
  const before = books.acknowledged
  const lanes = Array.from({ length: LANES }, (_, index) =>
    workOnWorkspaces(current, books, random, { name: `lane${index}`, isStopped: () => isStopped }),
  )
  await expect.poll(() => books.acknowledged - before, { interval: 5 }).toBeGreaterThan(2 * LANES)
  const { shoot, gone } = aim(current, dataDir, victim)
  await delay(random.below(KILL_MOMENT_MS_MAX))
  books.mayFail = victim !== 'server'
  shoot()
  await gone()
  isStopped = true
  await Promise.all(lanes)
  if (victim !== 'server') noteSupervisorDeath(books)
  if (victim === 'supervisor' || victim === 'launcher') return current
  await current.ended
  return await serve(plan.storeGb)
}

async function judge(current: CastellanClient, books: WorkspaceBooks, what: string): Promise<void> {
  // A call that shows the rows waits until what the crash left in them is put right.
  await current.call('workspace_list')
  // What else is put right after a start is nobody's to wait for.
  const differences = (): string[] => disagreements(recordedInSqlite(dataDir), workspaceTruth(dataDir))
  await expect.poll(differences, { interval: 20, timeout: 180_000, message: what }).toEqual([])
  expect(await untrue(current, books), `${what}; the server said: ${current.stderr()}`).toEqual([])
  books.mayFail = false
  await expect.poll(differences, { interval: 20, timeout: 180_000, message: what }).toEqual([])
  const flags = { data_dir: dataDir }
  const { config } = await loadConfig({ env: { HOME: dataDir }, flags, workingDirectory: dataDir })
  expect((await checkState(config)).findings).toEqual([])
}

test.each([
  { store: 'a btrfs file', storeGb: 2 },
  { store: 'plain folders', storeGb: 0 },
])(
  `${KILLS} deaths under load leave every workspace whole or gone, on $store`,
  async ({ storeGb }) => {
    const random = seededRandom()
    console.info(`seed ${random.seed}`)
    const books = newBooks()
    let current = await serve(storeGb)
    // One that stays, so that every start finds something to look after.
    await current.call('workspace_create', { name: 'ground' })
    books.workspaces.set('ground', [{ state: 'running', content: '', snapshots: [] }])
    const first = random.below(victims.length)
    for (let kills = 0; kills < KILLS; kills++) {
      const victim = victims[(first + kills) % victims.length]!
      current = await round(current, books, random, { victim, storeGb })
      await judge(current, books, `after kill ${kills + 1}, of ${victim}`)
    }
    console.info(`${KILLS} kills; ${books.acknowledged} acknowledged, ${books.unanswered} not`)
  },
  1_800_000,
)
