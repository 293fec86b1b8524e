import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { checkState } from '../../src/app/check-state.ts'
import { loadConfig } from '../../src/app/config.ts'
import { openSqliteConnection, useWriteAheadLog } from '../../src/stores/sqlite/connection.ts'
import { gapsIn, readSqliteState } from '../support/stored-state.ts'
import { failSyncs, findWitnesses, type Probed, passSyncs, startProbed } from '../support/sync-probe.ts'

/**
 * A power cut cannot be staged here. What it would spare is what the disk has been told to keep, so that is shown: the
 * write-ahead log is synced after the call arrives and before its answer leaves, and when it cannot be, there is no answer
 * that says done.
 */
let workDir = ''
let dataDir = ''
let probed: Probed | undefined

beforeEach(() => {
  workDir = mkdtempSync(join(tmpdir(), 'castellan-sync-'))
  dataDir = join(workDir, 'data')
})
afterEach(async () => {
  probed?.client.kill('SIGKILL')
  await probed?.client.ended
  probed = undefined
  rmSync(workDir, { recursive: true, force: true })
})

/** What happened during one call, up to its answer. */
async function eventsOf(tool: string, args: object, kind = 'done'): Promise<readonly string[]> {
  const before = probed!.events().length
  expect(await probed!.client.call(tool, args)).toMatchObject({ kind })
  await expect.poll(() => probed!.events().slice(before), { interval: 5 }).toContain('answered')
  const events = probed!.events().slice(before)
  return events.slice(0, events.indexOf('answered'))
}

const syncedLog = expect.stringMatching(/^synced .*castellan\.db-wal$/)

test.each(findWitnesses())('the log is on disk before a write or a refusal is answered, says %s', async (witness) => {
  probed = await startProbed(witness, dataDir, workDir)
  await eventsOf('task_create', { title: 'the first call opens the store', project: 'sync' })
  for (let index = 0; index < 5; index++) {
    expect(await eventsOf('task_create', { title: `task ${index}`, project: 'sync' })).toContainEqual(syncedLog)
    const thought = { task_id: 'T-0001', type: 'decision', content: `thought ${index}` }
    expect(await eventsOf('thought_record', thought)).toContainEqual(syncedLog)
    const forbidden = { task_id: 'T-0001', status: 'done' }
    expect(await eventsOf('task_update', forbidden, 'failed')).toContainEqual(syncedLog)
    // A read is answered first; that it waits for no disk also shows that the events above are the writes' own.
    expect(await eventsOf('server_ping', {})).not.toContainEqual(syncedLog)
  }
})

test('what cannot be synced is not acknowledged, and the next call works', async () => {
  const [witness] = findWitnesses()
  expect(witness).toBe('a preloaded library')
  probed = await startProbed('a preloaded library', dataDir, workDir)
  const { client } = probed
  const create = (title: string) => client.call('task_create', { title, project: 'sync' })
  expect(await create('before')).toMatchObject({ kind: 'done' })
  failSyncs(workDir)
  expect(await create('during')).toMatchObject({ kind: 'failed', code: 'ERR_STORE_UNAVAILABLE', isUnknown: true })
  expect(await client.call('server_health')).toMatchObject({ kind: 'done', answer: { status: 'degraded' } })
  passSyncs(workDir)
  expect(await create('after')).toMatchObject({ kind: 'done', answer: { task_id: 'T-0002' } })
  client.kill('SIGKILL')
  await client.ended
  const state = await readSqliteState(join(dataDir, 'castellan.db'))
  expect(state.tables['tasks']!.map((row) => (JSON.parse(row) as { title: string }).title)).toEqual(['before', 'after'])
  expect(gapsIn(state)).toEqual([])
  const flags = { data_dir: dataDir }
  const { config } = await loadConfig({ env: { HOME: dataDir }, flags, workingDirectory: dataDir })
  expect((await checkState(config)).findings).toEqual([])
})

test('the connection that writes waits for the disk at every commit', () => {
  const connection = openSqliteConnection(join(workDir, 'state.db'), { readOnly: false })
  useWriteAheadLog(connection)
  const FULL = 2
  expect(connection.database.prepare('PRAGMA synchronous').get()).toEqual({ synchronous: FULL })
  expect(connection.database.prepare('PRAGMA journal_mode').get()).toEqual({ journal_mode: 'wal' })
  connection.close()
})
