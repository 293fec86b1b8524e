import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { limits } from '../../src/contract/limits.ts'
import type { TestApp } from '../support/app.ts'
import { destroyAll, info, namesFor, openWorkspaceApp, sh } from '../support/workspaces.ts'

/** What is left of a workspace that was destroyed with keep_snapshots. */
let app: TestApp
beforeAll(async () => {
  app = await openWorkspaceApp()
})
afterAll(() => app[Symbol.asyncDispose]())

/** The same installation with another configuration. */
async function open(config: Record<string, number> = {}): Promise<TestApp> {
  await app.stop()
  app = await openWorkspaceApp({ config, dataDir: app.dataDir })
  return app
}
async function reopen(current: TestApp, sql: string): Promise<TestApp> {
  await current.stop()
  current.behindItsBack((db) => db.exec(sql))
  return await open()
}

/** Each begins with nothing stored. */
afterEach(async () => {
  const at = await open()
  await destroyAll(at)
  for (const name of await archived(at)) await at.ask('workspace_destroy', { workspace_id: name })
  expect([stored(at, 'active'), stored(at, 'layers')]).toEqual([[], []])
})

async function archive(at: TestApp, name: string, caller?: Parameters<TestApp['ask']>[2]): Promise<void> {
  await at.ask('workspace_create', { name, memory_mb: 64, disk_gb: 1 }, caller)
  await sh(at, name, `echo ${name} > /state`, {}, caller)
  await at.ask('snapshot', { workspace_id: name, action: 'create', name: 's' }, caller)
  expect(await at.ask('workspace_destroy', { workspace_id: name, keep_snapshots: true }, caller)).toMatchObject({
    destroyed: true,
    snapshots_kept: ['s'],
  })
}
const archived = async (at: TestApp, caller?: Parameters<TestApp['ask']>[2]): Promise<string[]> => {
  const { workspaces } = await at.ask<{ workspaces: { name: string }[] }>(
    'workspace_list',
    { state_filter: 'archived' },
    caller,
  )
  return workspaces.map(({ name }) => name)
}
const stored = ({ dataDir }: TestApp, part: string): string[] => {
  const pid = readFileSync(join(dataDir, 'workspaces/supervisor.pid'), 'utf8').trim()
  const folder = join('/proc', pid, 'root', 'mnt/state/store', part)
  return existsSync(folder) ? readdirSync(folder).filter((name) => !name.startsWith('probe-')) : []
}

describe('an archived workspace', () => {
  it('is in nobody’s way and can only be forked', async () => {
    const at = await open({ 'workspaces.max_workspaces': 1 })
    await archive(at, 'w')
    expect(await namesFor(at)).toEqual([])
    expect(await archived(at)).toEqual(['w'])
    expect(stored(at, 'active')).toEqual([])
    expect(await info(at, 'w')).toMatchObject({ state: 'archived', ip: '', snapshots: [{ name: 's' }] })
    for (const [tool, args] of [
      ['workspace_start', {}],
      ['workspace_stop', {}],
      ['exec', { command: 'true' }],
      ['snapshot', { action: 'create', name: 't' }],
      ['snapshot', { action: 'restore', name: 's' }],
      ['network_policy', { allowed_domains: [] }],
      ['workspace_resize', { vcpus: 1 }],
      ['file_read', { path: '/state' }],
    ] as const) {
      const refusal = await at.refusal(tool, { workspace_id: 'w', ...args })
      expect(refusal, tool).toMatchObject({
        code: 'ERR_WORKSPACE_STATE',
        message: expect.stringContaining('workspace_fork'),
      })
    }
    await at.ask('workspace_fork', { workspace_id: 'w', snapshot_name: 's', new_name: 'f' })
    expect((await sh(at, 'f', 'cat /state')).stdout).toBe('w\n')
    await at.ask('workspace_destroy', { workspace_id: 'w' })
    expect(await archived(at)).toEqual([])
    expect((await sh(at, 'f', 'cat /state')).stdout).toBe('w\n')
    await at.ask('workspace_destroy', { workspace_id: 'f', keep_snapshots: true })
    expect([await archived(at), stored(at, 'layers')]).toEqual([[], []])
  })

  it('is gone with its last snapshot', async () => {
    const at = await open()
    await archive(at, 'w')
    await at.ask('snapshot', { workspace_id: 'w', action: 'delete', name: 's' })
    expect([await archived(at), stored(at, 'layers')]).toEqual([[], []])
  })

  it('outlives a restart, and is finished after a crash in the middle', async () => {
    const before = await open()
    await archive(before, 'w')
    await before.ask('workspace_create', { name: 'half', memory_mb: 64 })
    await before.ask('snapshot', { workspace_id: 'half', action: 'create', name: 's' })
    const sql = "UPDATE workspaces SET state = 'archived', operation = 'dead' WHERE name = 'half'"
    const after = await reopen(before, sql)
    expect(await archived(after)).toEqual(['w', 'half'])
    expect(stored(after, 'active')).toEqual([])
    for (const workspace_id of ['w', 'half']) expect(await info(after, workspace_id)).toMatchObject({ ip: '' })
    await after.ask('workspace_fork', { workspace_id: 'half', snapshot_name: 's', new_name: 'f' })
    const late = await reopen(after, 'UPDATE workspace_snapshots SET created_at = 1')
    expect(await archived(late)).toEqual([])
    expect(stored(late, 'layers')).toHaveLength(1)
  })

  it('makes room for newer ones and for what its owner wants', async () => {
    const at = await open({ 'workspaces.quota.disk_gb': 3 })
    const caller = await at.keyCaller({ name: 'ann' })
    for (const name of ['a', 'b', 'c', 'd']) await archive(at, name, caller)
    expect(await archived(at, caller)).toEqual(['b', 'c', 'd'])
    const fork = { workspace_id: 'b', snapshot_name: 's', new_name: 'f' }
    await at.ask('workspace_fork', fork, caller)
    expect((await sh(at, 'f', 'cat /state', {}, caller)).stdout).toBe('b\n')
    expect(await archived(at, caller)).toEqual(['c', 'd'])
    await at.ask('workspace_create', { name: 'x', disk_gb: 2, memory_mb: 64 }, caller)
    expect(await archived(at, caller)).toEqual([])
    expect(stored(at, 'layers')).toHaveLength(1)
    expect(await at.refusal('workspace_create', { name: 'y', disk_gb: 1 }, caller)).toMatchObject({
      code: 'ERR_QUOTA_EXCEEDED',
    })
  })

  it('is one of so many of its owner', async () => {
    const at = await open()
    const names = Array.from({ length: limits.archivedWorkspacesMax + 1 }, (_, index) => `w${index}`)
    for (const name of names) await archive(at, name)
    expect(await archived(at)).toEqual(names.slice(1))
    expect(stored(at, 'layers')).toHaveLength(limits.archivedWorkspacesMax)
  })
})
