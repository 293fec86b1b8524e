import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { TestApp, TestAppOptions } from '../support/app.ts'
import { endSupervisor } from '../support/end-supervisor.ts'
import { destroyAll, info, namesFor, openWorkspaceApp, rowsFor, sh } from '../support/workspaces.ts'

/**
 * What a crash leaves is made here with the records alone: the program ends in order, and then its rows are put back to
 * how they are in the middle of an operation.
 */
let app: TestApp
beforeAll(async () => {
  app = await openWorkspaceApp()
})
afterAll(() => app[Symbol.asyncDispose]())

async function reopen(config: TestAppOptions['config'] = {}): Promise<void> {
  app = await openWorkspaceApp({ dataDir: app.dataDir, config })
}

async function crashInto(sql: string): Promise<void> {
  await app.stop()
  app.behindItsBack((db) => db.exec(sql))
  await reopen()
}

/** Each begins with no workspace, and with a server that may do everything. */
afterEach(async () => {
  await app.stop()
  await reopen()
  await destroyAll(app)
})

const store = (part: string): string[] => {
  const pid = readFileSync(join(app.dataDir, 'workspaces/supervisor.pid'), 'utf8').trim()
  const folder = join('/proc', pid, 'root', 'mnt/state/store', part)
  return existsSync(folder) ? readdirSync(folder).filter((name) => !name.startsWith('probe-')) : []
}
const make = (name: string) => app.ask<{ workspace_id: string }>('workspace_create', { name })

describe('after a crash', () => {
  it('a workspace that was being made is gone, with all that was made of it', async () => {
    await make('half')
    await crashInto(`UPDATE workspaces SET state = 'creating', operation = 'dead'`)
    expect(await namesFor(app)).toEqual([])
    expect(store('active')).toEqual([])
  })

  it('a workspace that was being destroyed is gone, with its snapshots and layers', async () => {
    await make('half')
    await app.ask('snapshot', { workspace_id: 'half', action: 'create', name: 's' })
    await crashInto(`UPDATE workspaces SET state = 'destroying', operation = 'dead'`)
    expect(await namesFor(app)).toEqual([])
    expect([store('active'), store('layers')]).toEqual([[], []])
    expect(app.behindItsBack((db) => db.prepare('SELECT * FROM workspace_snapshots').all())).toEqual([])
  })

  it('a restore is finished, and an unfinished snapshot is undone', async () => {
    await make('w')
    await sh(app, 'w', 'echo one > /state')
    await app.ask('snapshot', { workspace_id: 'w', action: 'create', name: 's1' })
    await sh(app, 'w', 'echo two > /state')
    await app.ask('snapshot', { workspace_id: 'w', action: 'create', name: 's2' })
    await app.ask('snapshot', { workspace_id: 'w', action: 'create', name: 's3' })
    await crashInto(
      `UPDATE workspaces SET operation = 'dead'; UPDATE workspace_snapshots SET state = 'creating' WHERE name = 's3'`,
    )
    expect((await info(app, 'w')).snapshots.map(({ name }) => name)).toEqual(['s1', 's2'])
    expect(store('layers')).toHaveLength(2)
    expect((await sh(app, 'w', 'cat /state')).stdout).toBe('two\n')
    await crashInto(
      `UPDATE workspaces SET state = 'restoring', operation = 'dead',
        layers = (SELECT layers FROM workspace_snapshots WHERE name = 's1'),
        current_snapshot_id = (SELECT id FROM workspace_snapshots WHERE name = 's1')`,
    )
    expect(await info(app, 'w')).toMatchObject({ state: 'running', snapshots: [{ name: 's1', current: true }] })
    expect((await sh(app, 'w', 'cat /state')).stdout).toBe('one\n')
    expect(store('layers')).toHaveLength(1)
  })

  it('storage that no row names is removed, and nothing that one names', async () => {
    const { workspace_id } = await make('kept')
    await make('lost')
    await app.ask('snapshot', { workspace_id: 'kept', action: 'create', name: 's' })
    await app.ask('snapshot', { workspace_id: 'lost', action: 'create', name: 's' })
    const lost = `(SELECT id FROM workspaces WHERE name = 'lost')`
    await crashInto(
      `DELETE FROM workspace_snapshots WHERE workspace_id = ${lost}; DELETE FROM workspaces WHERE name = 'lost'`,
    )
    await app.ask('workspace_list')
    expect(store('active')).toEqual([workspace_id])
    expect(store('layers')).toHaveLength(1)
    expect((await sh(app, 'kept', 'hostname')).stdout).toBe('kept\n')
  })

  it('workspaces whose machine went down are stopped, and start again with their files', async () => {
    await make('w')
    await sh(app, 'w', 'echo kept > /state; sync')
    await app.stop()
    await endSupervisor(app.dataDir)
    await reopen()
    expect(await rowsFor(app)).toMatchObject([{ name: 'w', state: 'stopped' }])
    await app.ask('workspace_start', { workspace_id: 'w' })
    expect((await sh(app, 'w', 'cat /state')).stdout).toBe('kept\n')
  })

  it('a server that may only read shows what ended as stopped, and enters nothing', async () => {
    await make('w')
    await app.stop()
    await endSupervisor(app.dataDir)
    await reopen({ mode: 'READONLY' })
    expect(await rowsFor(app)).toMatchObject([{ name: 'w', state: 'stopped' }])
    expect(app.behindItsBack((db) => db.prepare('SELECT state FROM workspaces').all())).toEqual([{ state: 'running' }])
  })

  it('workspaces that end while the server lives are shown and entered as stopped', async () => {
    await make('w')
    await endSupervisor(app.dataDir)
    expect(await rowsFor(app)).toMatchObject([{ state: 'stopped' }])
    expect((await app.refusal('exec', { workspace_id: 'w', command: 'true' })).code).toBe('ERR_WORKSPACE_STOPPED')
    await app.ask('workspace_start', { workspace_id: 'w' })
    expect((await sh(app, 'w', 'hostname')).stdout).toBe('w\n')
  })
})
