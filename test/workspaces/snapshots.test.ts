import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Answer, TestApp } from '../support/app.ts'
import { destroyAll, info, openWorkspaceApp, rowsFor, sh } from '../support/workspaces.ts'

let app: TestApp
beforeAll(async () => {
  app = await openWorkspaceApp({
    config: { 'workspaces.max_snapshots_per_workspace': 4, 'workspaces.quota.workspaces': 4 },
  })
})
afterEach(async () => {
  await destroyAll(app)
  expect(layers()).toEqual([])
})
afterAll(() => app[Symbol.asyncDispose]())

const make = async (name: string, file: string): Promise<void> => {
  await app.ask('workspace_create', { name })
  await sh(app, name, `echo ${file} > /state`)
}
const snapshot = (workspace_id: string, action: string, more: object = {}) =>
  app.ask<Answer & { snapshots: Answer[] }>('snapshot', { workspace_id, action, ...more })
const stateIn = async (workspace: string): Promise<string> => (await sh(app, workspace, 'cat /state')).stdout.trim()

const supervisorPid = (): string => readFileSync(join(app.dataDir, 'workspaces/supervisor.pid'), 'utf8').trim()

/** What the records name. */
const layers = (): string[] =>
  app.behindItsBack((db) =>
    ['workspaces', 'workspace_snapshots'].flatMap((table) =>
      db
        .prepare(`SELECT layers FROM ${table}`)
        .all()
        .flatMap((row) => JSON.parse(String(row['layers'])) as string[]),
    ),
  )

describe('the id of a snapshot', () => {
  it('is as good as its name, and answers name it', async () => {
    await make('w', 'one')
    const { snapshot_id } = await snapshot('w', 'create', { name: 's1' })
    await sh(app, 'w', 'echo two > /state')
    const other = await snapshot('w', 'create', { name: 's2' })
    const byId = { name: String(snapshot_id).toUpperCase() }
    expect(await snapshot('w', 'restore', byId)).toMatchObject({
      name: 's1',
      removed_snapshots: ['s2'],
      message: 'Workspace w is as it was at s1. 1 newer snapshot was removed.',
    })
    expect(await stateIn('w')).toBe('one')
    const fork = { workspace_id: 'w', snapshot_name: snapshot_id, new_name: 'f' }
    expect(await app.ask('workspace_fork', fork)).toMatchObject({
      snapshot_name: 's1',
      forked_from: { snapshot_name: 's1' },
    })
    const swarm = { golden_workspace: 'w', snapshot_name: snapshot_id, tasks: [{ name: 't', command: 'cat /state' }] }
    expect(await app.ask('swarm_run', swarm)).toMatchObject({ snapshot_name: 's1', tasks: [{ stdout: 'one\n' }] })
    const team = { action: 'create', name: 'crew', roles: [{ name: 'a', role: 'r' }], golden_workspace: 'w' }
    await app.ask('team', { ...team, base_snapshot: snapshot_id })
    expect(await stateIn('crew-a')).toBe('one')
    await app.ask('team', { action: 'destroy', name: 'crew' })
    const gone = { workspace_id: 'w', action: 'delete', name: other['snapshot_id'] }
    expect(await app.refusal('snapshot', gone)).toMatchObject({ code: 'ERR_SNAPSHOT_NOT_FOUND' })
    expect(await snapshot('w', 'delete', byId)).toMatchObject({
      name: 's1',
      message: 'Snapshot s1 was deleted. 1 fork keeps what it needs of it.',
    })
    expect((await snapshot('w', 'list')).snapshots).toEqual([])
  })
})

describe('snapshot', () => {
  it('keeps a state and goes back to it, running again, without the newer ones', async () => {
    await make('w', 'one')
    expect(await snapshot('w', 'create', { name: 's1' })).toMatchObject({ name: 's1', has_memory: false })
    await sh(app, 'w', 'echo two > /state; echo new > /new')
    await snapshot('w', 'create', { name: 's2' })
    await sh(app, 'w', 'echo three > /state')
    await snapshot('w', 'create', { name: 's3' })
    expect((await snapshot('w', 'list')).snapshots).toMatchObject([
      { name: 's1', parent: null, current: false },
      { name: 's2', parent: 's1' },
      { name: 's3', parent: 's2', current: true },
    ])
    expect(await snapshot('w', 'restore', { name: 's1' })).toMatchObject({
      state: 'running',
      removed_snapshots: ['s2', 's3'],
    })
    expect(await stateIn('w')).toBe('one')
    expect((await sh(app, 'w', 'test -e /new')).exit_code).toBe(1)
    await sh(app, 'w', 'echo four > /state')
    await snapshot('w', 'create', { name: 's4' })
    expect((await info(app, 'w')).snapshots).toMatchObject([
      { name: 's1' },
      { name: 's4', parent: 's1', current: true },
    ])
    await snapshot('w', 'restore', { name: 's4' })
    expect(await stateIn('w')).toBe('four')
  })

  it('leaves a stopped workspace stopped', async () => {
    await make('w', 'one')
    await snapshot('w', 'create', { name: 's1' })
    await sh(app, 'w', 'echo two > /state')
    await app.ask('workspace_stop', { workspace_id: 'w' })
    expect(await snapshot('w', 'restore', { name: 's1' })).toMatchObject({ state: 'stopped' })
    await app.ask('workspace_start', { workspace_id: 'w' })
    expect(await stateIn('w')).toBe('one')
  })

  it('is deleted in any order, forks keep what they need, and the tree stays whole', async () => {
    await make('w', 'one')
    for (const name of ['s1', 's2', 's3']) await snapshot('w', 'create', { name })
    const { workspace_id } = await app.ask('workspace_fork', { workspace_id: 'w', snapshot_name: 's2', new_name: 'f' })
    expect(await snapshot('w', 'delete', { name: 's2' })).toMatchObject({
      dependents: [{ workspace_id, name: 'f' }],
      dependent_count: 1,
    })
    expect((await snapshot('w', 'list')).snapshots).toMatchObject([{ name: 's1' }, { name: 's3', parent: 's1' }])
    expect(await snapshot('w', 'delete', { name: 's1' })).toMatchObject({ dependents: [], dependent_count: 0 })
    await snapshot('w', 'restore', { name: 's3' })
    await app.ask('workspace_destroy', { workspace_id: 'w' })
    expect(await stateIn('f')).toBe('one')
    await app.ask('workspace_stop', { workspace_id: 'f' })
    await app.ask('workspace_start', { workspace_id: 'f' })
    expect(await stateIn('f')).toBe('one')
    expect(await info(app, 'f')).toMatchObject({
      forked_from: { source_workspace_name: 'w', snapshot_name: 's2' },
    })
  })

  it('refuses names that are taken or none, more than allowed, and memory before anything happens', async () => {
    await make('w', 'one')
    await snapshot('w', 'create', { name: 's1' })
    const refusal = (args: object) => app.refusal('snapshot', { workspace_id: 'w', ...args })
    expect((await refusal({ action: 'create', name: 's1' })).code).toBe('ERR_ALREADY_EXISTS')
    expect((await refusal({ action: 'create', name: '../x' })).code).toBe('ERR_INVALID_INPUT')
    expect(await refusal({ action: 'create' })).toMatchObject({ code: 'ERR_INVALID_INPUT', details: { field: 'name' } })
    expect((await refusal({ action: 'restore', name: 'none' })).code).toBe('ERR_SNAPSHOT_NOT_FOUND')
    expect(await refusal({ action: 'create', name: 'm', include_memory: true })).toMatchObject({
      code: 'ERR_CAPABILITY_MISSING',
      details: { capability: 'memory_snapshot' },
    })
    for (const name of ['s2', 's3', 's4']) await snapshot('w', 'create', { name })
    expect(await refusal({ action: 'create', name: 's5' })).toMatchObject({
      code: 'ERR_QUOTA_EXCEEDED',
      details: { quota: 'max_snapshots_per_workspace', used: 4, limit: 4 },
    })
    expect((await snapshot('w', 'list')).snapshots).toHaveLength(4)
  })

  it('stops a caller that starts one program after the other', async () => {
    await make('w', 'one')
    const command = 'for n in $(seq 20); do (while :; do sleep 0.01; done) & done; wait'
    await app.ask('exec_background', { workspace_id: 'w', action: 'start', command })
    for (let count = 0; count < 20; count++) {
      await snapshot('w', 'create', { name: 's' })
      await snapshot('w', 'delete', { name: 's' })
    }
  })
})

describe('workspace_fork', () => {
  it('makes independent copies with the resources, policy and variables of the source', async () => {
    await app.ask('workspace_create', { name: 'w', vcpus: 1, memory_mb: 256, disk_gb: 2 })
    await app.ask('set_env', { workspace_id: 'w', vars: { KEPT: 'yes' } })
    await app.ask('network_policy', { workspace_id: 'w', allow_inter_vm: true, allowed_ports: [80] })
    await sh(app, 'w', 'echo base > /state')
    await snapshot('w', 'create', { name: 'golden' })
    const answer = await app.ask<Answer & { workers: Answer[] }>('workspace_fork', {
      workspace_id: 'w',
      snapshot_name: 'golden',
      count: 4,
      name_prefix: 'copy',
    })
    expect(answer).toMatchObject({ requested_count: 4, success_count: 4, failure_count: 0, failures: [] })
    expect(answer.workers.map(({ name }) => name)).toEqual(['copy-1', 'copy-2', 'copy-3', 'copy-4'])
    expect(new Set(answer.workers.map(({ ip }) => ip)).size).toBe(4)
    await sh(app, 'copy-1', 'echo changed > /state')
    expect([await stateIn('copy-1'), await stateIn('copy-2'), await stateIn('w')]).toEqual(['changed', 'base', 'base'])
    expect((await sh(app, 'copy-3', 'echo $KEPT; hostname')).stdout).toBe('yes\ncopy-3\n')
    expect(await info(app, 'copy-4')).toMatchObject({
      resources: { vcpus: 1, memory_mb: 256, disk_gb: 2 },
      network: { allow_inter_vm: true, allowed_ports: [80] },
      snapshots: [],
    })
  })

  it('gives free numbers, whatever was forked before', async () => {
    await make('worker-2', 'x')
    await snapshot('worker-2', 'create', { name: 's' })
    const answer = await app.ask<Answer & { workers: Answer[] }>('workspace_fork', {
      workspace_id: 'worker-2',
      snapshot_name: 's',
      count: 3,
    })
    expect(answer).toMatchObject({ success_count: 3, failures: [] })
    expect(answer.workers.map(({ name }) => name)).toEqual(['worker-1', 'worker-3', 'worker-4'])
    await app.ask('workspace_destroy', { workspace_id: 'worker-3' })
    const fork = () => app.ask<Answer>('workspace_fork', { workspace_id: 'worker-2', snapshot_name: 's', count: 2 })
    const both = await Promise.all([fork(), fork()])
    expect(both).toMatchObject([{ success_count: 2 }, { success_count: 2 }])
    const names = (await rowsFor(app)).map(({ name }) => name).sort()
    expect(names).toEqual([1, 2, 3, 4, 5, 6, 7].map((number) => `worker-${number}`))
    const one = await app.ask('workspace_fork', { workspace_id: 'worker-2', snapshot_name: 's' })
    expect(one['name']).toBe(`fork-${String(one['workspace_id']).slice(0, 8)}`)
    expect(one).toMatchObject({ state: 'running', forked_from: { source_workspace_name: 'worker-2' } })
  })

  it('makes as many as the quota has room for, and fails when that is none', async () => {
    const ann = await app.keyCaller()
    await app.ask('workspace_create', { name: 'w' }, ann)
    await app.ask('snapshot', { workspace_id: 'w', action: 'create', name: 's' }, ann)
    const request = { workspace_id: 'w', snapshot_name: 's', count: 2 }
    const some = await app.ask<Answer>('workspace_fork', { ...request, count: 6 }, ann)
    expect(some).toMatchObject({ success_count: 3, failure_count: 3 })
    const nameOf = ({ name }: { name: string }) => name
    const { workers, failures } = some as unknown as Record<'workers' | 'failures', { name: string }[]>
    const names = [...workers.map(nameOf), ...failures.map(nameOf)]
    expect(names.every((name) => /^worker-\d+$/.test(name))).toBe(true)
    expect(new Set(names).size).toBe(6)
    expect(await app.refusal('workspace_fork', request, ann)).toMatchObject({
      code: 'ERR_QUOTA_EXCEEDED',
      message: expect.stringMatching(/^None of the 2 forks could be created\. Your quota /),
      details: { failures: [{ index: 0 }, { index: 1 }] },
    })
  })

  it('validates names and the snapshot, and fails as a whole when there is one', async () => {
    await make('w', 'x')
    await snapshot('w', 'create', { name: 's' })
    const refusal = (args: object) => app.refusal('workspace_fork', { workspace_id: 'w', snapshot_name: 's', ...args })
    expect((await refusal({ new_name: '.x' })).code).toBe('ERR_INVALID_INPUT')
    expect((await refusal({ new_name: 'w' })).code).toBe('ERR_ALREADY_EXISTS')
    expect((await refusal({ new_name: 'y', count: 2 })).code).toBe('ERR_INVALID_INPUT')
    expect((await refusal({ count: 2, name_prefix: 'a b' })).code).toBe('ERR_INVALID_INPUT')
    expect((await refusal({ snapshot_name: 'none' })).code).toBe('ERR_SNAPSHOT_NOT_FOUND')
    expect(await rowsFor(app)).toHaveLength(1)
  })
})

describe('the storage of layers', () => {
  it('is given back when the last row that names it is gone', async () => {
    await make('w', 'x')
    await snapshot('w', 'create', { name: 's1' })
    const [layer] = layers()
    const folder = join('/proc', supervisorPid(), 'root', 'mnt/state/store/layers', layer!)
    expect(existsSync(folder)).toBe(true)
    await app.ask('workspace_fork', { workspace_id: 'w', snapshot_name: 's1', new_name: 'f' })
    await snapshot('w', 'delete', { name: 's1' })
    await app.ask('workspace_destroy', { workspace_id: 'w' })
    expect(existsSync(folder)).toBe(true)
    await app.ask('workspace_destroy', { workspace_id: 'f' })
    expect(existsSync(folder)).toBe(false)
  })
})
