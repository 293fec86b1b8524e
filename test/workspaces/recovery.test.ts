import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import type { TestApp } from '../support/app.ts'
import { endSupervisor } from '../support/end-supervisor.ts'
import { info, namesFor, openWorkspaceApp, rowsFor, sh } from '../support/workspaces.ts'

/**
 * What a crash leaves is made here with the records alone: the program ends in order, and then its rows are put back to
 * how they are in the middle of an operation.
 */
let app: TestApp | undefined
afterEach(async () => {
  await app?.[Symbol.asyncDispose]()
  app = undefined
})

async function open(): Promise<TestApp> {
  app = await openWorkspaceApp()
  return app
}

async function crashInto(current: TestApp, sql: string): Promise<TestApp> {
  await current.stop()
  current.behindItsBack((db) => db.exec(sql))
  app = await openWorkspaceApp({ dataDir: current.dataDir })
  return app
}

const store = ({ dataDir }: TestApp, part: string): string[] => {
  const pid = readFileSync(join(dataDir, 'workspaces/supervisor.pid'), 'utf8').trim()
  const folder = join('/proc', pid, 'root', 'mnt/state/store', part)
  return existsSync(folder) ? readdirSync(folder).filter((name) => !name.startsWith('probe-')) : []
}
const make = (current: TestApp, name: string) => current.ask<{ workspace_id: string }>('workspace_create', { name })

describe('after a crash', () => {
  it('a workspace that was being made is gone, with all that was made of it', async () => {
    const before = await open()
    await make(before, 'half')
    const after = await crashInto(before, `UPDATE workspaces SET state = 'creating', operation = 'dead'`)
    expect(await namesFor(after)).toEqual([])
    expect(store(after, 'active')).toEqual([])
  })

  it('a workspace that was being destroyed is gone, with its snapshots and layers', async () => {
    const before = await open()
    await make(before, 'half')
    await before.ask('snapshot', { workspace_id: 'half', action: 'create', name: 's' })
    const after = await crashInto(before, `UPDATE workspaces SET state = 'destroying', operation = 'dead'`)
    expect(await namesFor(after)).toEqual([])
    expect([store(after, 'active'), store(after, 'layers')]).toEqual([[], []])
    expect(after.behindItsBack((db) => db.prepare('SELECT * FROM workspace_snapshots').all())).toEqual([])
  })

  it('a restore is finished, and an unfinished snapshot is undone', async () => {
    const before = await open()
    await make(before, 'w')
    await sh(before, 'w', 'echo one > /state')
    await before.ask('snapshot', { workspace_id: 'w', action: 'create', name: 's1' })
    await sh(before, 'w', 'echo two > /state')
    await before.ask('snapshot', { workspace_id: 'w', action: 'create', name: 's2' })
    await before.ask('snapshot', { workspace_id: 'w', action: 'create', name: 's3' })
    const middle = await crashInto(
      before,
      `UPDATE workspaces SET operation = 'dead'; UPDATE workspace_snapshots SET state = 'creating' WHERE name = 's3'`,
    )
    expect((await info(middle, 'w')).snapshots.map(({ name }) => name)).toEqual(['s1', 's2'])
    expect(store(middle, 'layers')).toHaveLength(2)
    expect((await sh(middle, 'w', 'cat /state')).stdout).toBe('two\n')
    const after = await crashInto(
      middle,
      `UPDATE workspaces SET state = 'restoring', operation = 'dead',
        layers = (SELECT layers FROM workspace_snapshots WHERE name = 's1'),
        current_snapshot_id = (SELECT id FROM workspace_snapshots WHERE name = 's1')`,
    )
    expect(await info(after, 'w')).toMatchObject({ state: 'running', snapshots: [{ name: 's1', current: true }] })
    expect((await sh(after, 'w', 'cat /state')).stdout).toBe('one\n')
    expect(store(after, 'layers')).toHaveLength(1)
  })

  it('storage that no row names is removed, and nothing that one names', async () => {
    const before = await open()
    const { workspace_id } = await make(before, 'kept')
    await make(before, 'lost')
    await before.ask('snapshot', { workspace_id: 'kept', action: 'create', name: 's' })
    await before.ask('snapshot', { workspace_id: 'lost', action: 'create', name: 's' })
    const lost = `(SELECT id FROM workspaces WHERE name = 'lost')`
    const after = await crashInto(
      before,
      `DELETE FROM workspace_snapshots WHERE workspace_id = ${lost}; DELETE FROM workspaces WHERE name = 'lost'`,
    )
    await after.ask('workspace_list')
    expect(store(after, 'active')).toEqual([workspace_id])
    expect(store(after, 'layers')).toHaveLength(1)
    expect((await sh(after, 'kept', 'hostname')).stdout).toBe('kept\n')
  })

  it('workspaces whose machine went down are stopped, and start again with their files', async () => {
    const before = await open()
    await make(before, 'w')
    await sh(before, 'w', 'echo kept > /state; sync')
    await before.stop()
    await endSupervisor(before.dataDir)
    app = await openWorkspaceApp({ dataDir: before.dataDir })
    expect(await rowsFor(app)).toMatchObject([{ name: 'w', state: 'stopped' }])
    await app.ask('workspace_start', { workspace_id: 'w' })
    expect((await sh(app, 'w', 'cat /state')).stdout).toBe('kept\n')
  })

  it('a server that may only read shows what ended as stopped, and enters nothing', async () => {
    const before = await open()
    await make(before, 'w')
    await before.stop()
    await endSupervisor(before.dataDir)
    app = await openWorkspaceApp({ dataDir: before.dataDir, config: { mode: 'READONLY' } })
    expect(await rowsFor(app)).toMatchObject([{ name: 'w', state: 'stopped' }])
    expect(app.behindItsBack((db) => db.prepare('SELECT state FROM workspaces').all())).toEqual([{ state: 'running' }])
  })

  it('workspaces that end while the server lives are shown and entered as stopped', async () => {
    const current = await open()
    await make(current, 'w')
    await endSupervisor(current.dataDir)
    expect(await rowsFor(current)).toMatchObject([{ state: 'stopped' }])
    expect((await current.refusal('exec', { workspace_id: 'w', command: 'true' })).code).toBe('ERR_WORKSPACE_STOPPED')
    await current.ask('workspace_start', { workspace_id: 'w' })
    expect((await sh(current, 'w', 'hostname')).stdout).toBe('w\n')
  })
})
