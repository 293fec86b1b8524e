import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { ask as askClient, type CastellanClient, startClient } from '../support/castellan-client.ts'
import { endSupervisor } from '../support/end-supervisor.ts'
import { isLongRun } from '../support/long-run.ts'
import { machineHoldings, memoryOf, storeBytes } from '../support/machine-holdings.ts'
import { disagreements, recordedInSqlite, workspaceTruth } from '../support/workspace-truth.ts'

/** While some workspaces stay, many others come and go; afterwards the machine holds what it held before. */
const ALIVE = isLongRun ? 50 : 6
/** Each life is that of a workspace and of its fork. */
const LIVES = isLongRun ? 200 : 10
/** Until every process has seen everything once: pipes kept ready, compiled code, connections kept open. */
const WARM_UP_LIVES = isLongRun ? 40 : 4
const LANES = 4
/** Room for garbage that nobody has collected yet. */
const MEMORY_GROWTH_BYTES_MAX = 128 * 1024 * 1024
const STORE_GROWTH_BYTES_MAX = 4 * 1024 * 1024

let dataDir = ''
let client: CastellanClient

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'castellan-leaks-ws-'))
})
afterEach(async () => {
  client.kill('SIGKILL')
  await client.ended
  await endSupervisor(dataDir)
  rmSync(dataDir, { recursive: true, force: true })
})

const ask = <T = Record<string, unknown>>(tool: string, args: object = {}): Promise<T> => askClient(client, tool, args)

async function inLanes(count: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < count) await work(next++)
  }
  await Promise.all(Array.from({ length: LANES }, lane))
}

/** A whole life, with all that a workspace may have: a network, commands, a job that still runs, files, snapshots, forks. */
async function live(name: string): Promise<void> {
  const at = { workspace_id: name }
  await ask('workspace_create', { name, memory_mb: 64, allow_internet: true })
  await ask('exec', { ...at, command: 'head -c 1M /dev/urandom > /srv/file' })
  await ask('exec_background', { ...at, action: 'start', command: 'while :; do echo line; sleep 0.1; done' })
  await ask('file_write', { ...at, path: '/srv/words', content: 'words' })
  await ask('port_forward', { ...at, action: 'add', guest_port: 8080 })
  await ask('snapshot', { ...at, action: 'create', name: 's' })
  const fork = `${name}-fork`
  await ask('workspace_fork', { ...at, snapshot_name: 's', new_name: fork })
  await ask('snapshot', { ...at, action: 'restore', name: 's' })
  await ask('workspace_stop', at)
  await ask('workspace_destroy', at)
  expect(await ask('file_read', { workspace_id: fork, path: '/srv/words' })).toMatchObject({ content: 'words' })
  await ask('workspace_destroy', { workspace_id: fork })
}

const differences = (): string[] => disagreements(recordedInSqlite(dataDir), workspaceTruth(dataDir))
const inMiB = (bytes: number): number => Math.round(bytes / 1024 / 102.4) / 10

test.each(
  [
    { store: 'a btrfs file', storeGb: 2 },
    { store: 'plain folders', storeGb: 0 },
  ].slice(0, isLongRun ? 2 : 1),
)(
  `${LIVES} lives beside ${ALIVE} workspaces leave nothing behind, on $store`,
  async ({ storeGb }) => {
    const environment = { CASTELLAN_WORKSPACES_STORE_GB: String(storeGb), CASTELLAN_LOG_LEVEL: 'error' }
    client = await startClient({ dataDir, environment })
    await ask('workspace_create', { name: 'first' })
    await ask('workspace_destroy', { workspace_id: 'first' })
    const empty = machineHoldings(dataDir, client.pid)
    await inLanes(ALIVE, async (index) => {
      await ask('workspace_create', { name: `alive-${index}`, memory_mb: 64, allow_internet: index % 2 === 0 })
    })
    const storeBefore = storeBytes(dataDir)
    await inLanes(WARM_UP_LIVES, (index) => live(`warm-${index}`))
    const [before, memoryBefore] = [machineHoldings(dataDir, client.pid), memoryOf(dataDir, client.pid)]
    await inLanes(LIVES, (index) => live(`life-${index}`))
    await expect.poll(differences, { interval: 20 }).toEqual([])
    await expect.poll(() => machineHoldings(dataDir, client.pid), { interval: 100 }).toEqual(before)
    await expect.poll(() => storeBytes(dataDir) - storeBefore, { interval: 500 }).toBeLessThan(STORE_GROWTH_BYTES_MAX)
    const memory = memoryOf(dataDir, client.pid)
    for (const [name, bytes] of Object.entries(memory)) {
      console.info(`${name}: ${inMiB(memoryBefore[name]!)} MiB before, ${inMiB(bytes)} MiB after`)
      expect(bytes - memoryBefore[name]!, name).toBeLessThan(MEMORY_GROWTH_BYTES_MAX)
    }
    console.info(`store: ${inMiB(storeBefore)} MiB before, ${inMiB(storeBytes(dataDir))} MiB after`)
    console.info(JSON.stringify(before))

    await inLanes(ALIVE, async (index) => {
      await ask('workspace_destroy', { workspace_id: `alive-${index}` })
    })
    await expect.poll(differences, { interval: 20 }).toEqual([])
    await expect.poll(() => machineHoldings(dataDir, client.pid), { interval: 100 }).toEqual(empty)
  },
  1_800_000,
)
