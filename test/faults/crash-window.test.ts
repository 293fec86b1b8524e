import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { limits } from '../../src/contract/limits.ts'
import { callsIn, openTestApp } from '../support/app.ts'
import { type CastellanClient, startClient } from '../support/castellan-client.ts'
import { startMcpUpstream } from '../support/mcp-upstream.ts'
import { readSqliteState } from '../support/stored-state.ts'

/**
 * What a crash can take: the records of read-only calls that were answered a moment ago, and nothing else.
 * docs/guides/durability.md says so to users.
 */
let dataDir = ''
let client: CastellanClient | undefined

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'castellan-window-'))
})
afterEach(async () => {
  vi.useRealTimers()
  client?.kill('SIGKILL')
  await client?.ended
  rmSync(dataDir, { recursive: true, force: true })
})

async function start(environment: Record<string, string> = {}): Promise<CastellanClient> {
  client = await startClient({ dataDir, environment })
  await done('task_create', { title: 'ground', project: 'window' })
  return client
}

async function done(tool: string, args: object): Promise<Readonly<Record<string, unknown>>> {
  const outcome = await client!.call(tool, args)
  if (outcome.kind !== 'done') throw new Error(`${tool}: ${JSON.stringify(outcome)}`)
  return outcome.answer
}

/** Pages of one item: the offset tells the reads apart, by the digest of their arguments. */
const read = (index: number): Promise<unknown> => done('task_list', { offset: index, limit: 1 })
const reads = (from: number, count: number): Promise<unknown> =>
  Promise.all(Array.from({ length: count }, (_, index) => read(from + index)))

const stored = async (tool: string, outcome = 'ok'): Promise<string[]> =>
  (await readSqliteState(join(dataDir, 'castellan.db'))).log
    .filter((record) => record.tool === tool && record.outcome === outcome)
    .map((record) => record.input)

async function killNow(): Promise<void> {
  client!.kill('SIGKILL')
  expect(await client!.ended).toBe('SIGKILL')
}

test('reads whose window has passed are kept; of younger ones a crash takes the last, never one in between', async () => {
  await start()
  await reads(0, 40)
  await expect.poll(() => stored('task_list'), { interval: 5 }).toHaveLength(40)
  const retained = await stored('task_list')
  // Fewer than what is written at once for their number alone, so that only the window lets them out.
  for (let index = 40; index < 70; index++) await read(index)
  await killNow()
  const survived = await stored('task_list')
  expect(survived.slice(0, 40)).toEqual(retained)
  client = undefined
  const again = await start()
  for (let index = 40; index < 70; index++) await read(index)
  await done('task_create', { title: 'a commit, so that the reads before it are written', project: 'window' })
  const inOrder = (await stored('task_list')).slice(survived.length)
  expect(inOrder).toHaveLength(30)
  expect(survived.slice(40)).toEqual(inOrder.slice(0, survived.length - 40))
  console.info(`${70 - survived.length} of the last 30 reads were lost`)
  again.endInput()
})

test('a write or a refusal that was answered is kept, and so is every read answered before it', async () => {
  await start()
  for (let index = 0; index < 10; index++) await read(index)
  await done('task_create', { title: 'the last write', project: 'window' })
  await killNow()
  expect(await stored('task_create')).toHaveLength(2)
  expect(await stored('task_list')).toHaveLength(10)

  client = await startClient({ dataDir })
  for (let index = 0; index < 10; index++) await read(index)
  expect(await client.call('task_update', { task_id: 'T-0001', status: 'done' })).toMatchObject({ kind: 'failed' })
  await killNow()
  expect(await stored('task_update', 'refused')).toHaveLength(1)
  expect(await stored('task_list')).toHaveLength(20)
})

test('a call of another server is kept once it was answered, unless that server declares that it reads', async () => {
  await using upstream = await startMcpUpstream()
  await start({ CASTELLAN_WEB_ALLOW_PRIVATE_ADDRESSES: '127.0.0.1' })
  const { id: catalogId } = await done('create_mcp_server', { name: 'other', serverUrl: upstream.url })
  await done('deploy_mcp_server', { catalogId })
  for (let index = 0; index < 5; index++) {
    await done('other__sum', { a: 1, b: 2 })
    await done('other__echo', { text: `${index}` })
  }
  await done('other__sum', { a: 1, b: 2 })
  await killNow()
  expect(await stored('other__echo')).toHaveLength(5)
  expect([5, 6]).toContain((await stored('other__sum')).length)
})

test('with strict read records a crash takes no read that was answered', async () => {
  await start({ CASTELLAN_AUDIT_READ_RECORDS: 'strict' })
  await reads(0, 30)
  await killNow()
  expect(await stored('task_list')).toHaveLength(30)
})

test(`a read waits at most ${limits.readRecordDelayMs} ms for its commit, however many follow it`, async () => {
  await using app = await openTestApp({ config: { 'audit.checkpoint_interval_ms': 3_600_000 } })
  const recorded = (): number =>
    app.behindItsBack(
      (db) =>
        db
          .prepare('SELECT record FROM log_entries')
          .all()
          .flatMap((row) => callsIn(String(row['record']))).length,
    )
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  for (let elapsedMs = 0; elapsedMs < limits.readRecordDelayMs; elapsedMs += 10) {
    await app.ask('task_list')
    expect(recorded()).toBe(0)
    await vi.advanceTimersByTimeAsync(Math.min(10, limits.readRecordDelayMs - 1 - elapsedMs))
  }
  expect(recorded()).toBe(0)
  await vi.advanceTimersByTimeAsync(1)
  vi.useRealTimers()
  await expect.poll(recorded, { interval: 1 }).toBe(limits.readRecordDelayMs / 10)
})
