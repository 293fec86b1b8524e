import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type CastellanClient, startClient } from '../support/castellan-client.ts'
import { isLongRun } from '../support/long-run.ts'

const TAKE_OVERS = isLongRun ? 20 : 6
const DEAD_BRIDGES = isLongRun ? 20 : 4

let dataDir = ''
let clients: CastellanClient[] = []

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'castellan-leaks-'))
  clients = []
})
afterEach(async () => {
  for (const client of clients) client.kill('SIGKILL')
  await Promise.all(clients.map((client) => client.ended))
  rmSync(dataDir, { recursive: true, force: true })
})

async function start(): Promise<CastellanClient> {
  const client = await startClient({ dataDir, environment: { CASTELLAN_AUDIT_CHECKPOINT_INTERVAL_MS: '10' } })
  clients.push(client)
  // The handshake is answered before the process has joined the others; a call waits for that.
  await ownerPid(client)
  return client
}

async function ownerPid(client: CastellanClient): Promise<number> {
  const outcome = await client.call('server_health')
  if (outcome.kind !== 'done') throw new Error(JSON.stringify(outcome))
  return Number(outcome.answer['owner_pid'])
}

/** What a process holds open, as kinds: sockets have names of their own each time. A checkpoint may just be written. */
const openKinds = (pid: number): string[] =>
  readdirSync(`/proc/${pid}/fd`)
    .map((fd) => {
      try {
        return readlinkSync(`/proc/${pid}/fd/${fd}`).replace(/:\[\d+\]$/, '')
      } catch {
        return 'gone'
      }
    })
    .filter((kind) => kind !== 'gone' && !kind.includes('.tmp'))
    .sort()

const filesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort()

const lasting = ['castellan.db', 'checkpoints/local.checkpoint', 'log-key.json', 'owner.lock', 'seal-key.json']

test(`${TAKE_OVERS} take-overs leave nothing behind in the directory or in a process that saw them all`, async () => {
  let owner = await start()
  const witness = await start()
  expect(await ownerPid(witness)).toBe(owner.pid)
  await witness.call('task_create', { title: 'ground', project: 'p' })
  const openBefore = openKinds(witness.pid)
  for (let round = 0; round < TAKE_OVERS; round++) {
    const heir = await start()
    expect(await ownerPid(heir)).toBe(owner.pid)
    // The witness stands still while the others settle it, so that it never becomes the owner itself.
    witness.kill('SIGSTOP')
    owner.kill('SIGKILL')
    await owner.ended
    expect(await ownerPid(heir)).toBe(heir.pid)
    witness.kill('SIGCONT')
    expect(await ownerPid(witness)).toBe(heir.pid)
    expect(await witness.call('task_create', { title: `round ${round}`, project: 'p' })).toMatchObject({ kind: 'done' })
    owner = heir
  }
  await expect.poll(() => openKinds(witness.pid), { interval: 10 }).toEqual(openBefore)
  const runtime = ['castellan.db-shm', 'castellan.db-wal', 'owner.json', 'owner.sock']
  // The file of a checkpoint that is being replaced at this moment is no leak.
  const settled = (): string[] => filesIn(dataDir).filter((name) => !name.includes(`.${owner.pid}-`))
  await expect.poll(settled, { interval: 10 }).toEqual([...lasting, ...runtime].sort())
  for (const client of [witness, owner]) {
    client.endInput()
    expect(await client.ended).toBe(0)
  }
  expect(filesIn(dataDir)).toEqual(lasting)
})

test(`${DEAD_BRIDGES} bridges that die leave nothing behind in the owner`, async () => {
  const owner = await start()
  const other = await start()
  expect(await ownerPid(other)).toBe(owner.pid)
  const openBefore = openKinds(owner.pid)
  for (let round = 0; round < DEAD_BRIDGES; round++) {
    const bridge = await start()
    expect(await ownerPid(bridge)).toBe(owner.pid)
    bridge.kill('SIGKILL')
    await bridge.ended
  }
  await expect.poll(() => openKinds(owner.pid), { interval: 10 }).toEqual(openBefore)
})
