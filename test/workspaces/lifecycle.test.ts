import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { systemRandom } from '../../src/kernel/random.ts'
import type { Answer, TestApp } from '../support/app.ts'
import { destroyAll, info, namesFor, openWorkspaceApp, rowsFor, sh } from '../support/workspaces.ts'

let app: TestApp
/** Runs once, when the next workspace gets its id: it is entered after that, and made later still. */
let onNextId: (() => void) | undefined
beforeAll(async () => {
  app = await openWorkspaceApp({
    random: {
      bytes(count) {
        onNextId?.()
        onNextId = undefined
        return systemRandom.bytes(count)
      },
    },
  })
})
afterEach(() => destroyAll(app))
afterAll(() => app[Symbol.asyncDispose]())

describe('a workspace', () => {
  it('is made, found by name and id, stopped, started and destroyed, with its files in between', async () => {
    const made = await app.ask('workspace_create', { name: 'alpha' })
    expect(made).toMatchObject({
      name: 'alpha',
      state: 'running',
      from_pool: false,
      resources: { vcpus: 2, memory_mb: 2048, disk_gb: 10 },
    })
    const id = String(made['workspace_id'])
    await sh(app, 'alpha', 'echo kept > /kept')
    expect(await app.ask('workspace_stop', { workspace_id: id.toUpperCase() })).toMatchObject({
      state: 'stopped',
      changed: true,
    })
    expect(await app.ask('workspace_stop', { workspace_id: id })).toMatchObject({ changed: false })
    expect(await app.refusal('exec', { workspace_id: id, command: 'true' })).toMatchObject({
      code: 'ERR_WORKSPACE_STOPPED',
      details: { workspace_id: id },
    })
    expect(await app.ask('workspace_start', { workspace_id: 'alpha' })).toMatchObject({
      state: 'running',
      changed: true,
    })
    expect(await app.ask('workspace_start', { workspace_id: 'alpha' })).toMatchObject({ changed: false })
    expect((await sh(app, 'alpha', 'cat /kept')).stdout).toBe('kept\n')
    expect(await app.ask('workspace_destroy', { workspace_id: id })).toMatchObject({ name: 'alpha', destroyed: true })
    expect((await app.refusal('workspace_info', { workspace_id: id })).code).toBe('ERR_WORKSPACE_NOT_FOUND')
    expect(await namesFor(app)).toEqual([])
  })

  it('has a name of its own, or one made from its id', async () => {
    const { workspace_id, name } = await app.ask('workspace_create')
    expect(name).toBe(`ws-${String(workspace_id).slice(0, 8)}`)
    expect(await app.refusal('workspace_create', { name })).toMatchObject({
      code: 'ERR_ALREADY_EXISTS',
      // Whose it is, is not told: it may belong to another user, who cannot be asked to share it.
      message: expect.stringMatching(/is taken; workspace_list/),
      details: { field: 'name' },
    })
    for (const bad of ['-x', '.x', 'a b', 'ü', 'a/b', String(workspace_id)]) {
      expect((await app.refusal('workspace_create', { name: bad })).code, bad).toBe('ERR_INVALID_INPUT')
    }
  })

  it('is described with its limits, its network and whether they hold', async () => {
    await app.ask('workspace_create', { name: 'described', vcpus: 1, memory_mb: 128, disk_gb: 1 })
    const described = await info(app, 'described')
    expect(described).toMatchObject({
      owned: true,
      owner: 'owner',
      base_image: 'host',
      team: null,
      forked_from: null,
      resources: { vcpus: 1, memory_mb: 128, disk_gb: 1 },
      network: {
        allow_internet: false,
        allow_inter_vm: false,
        allowed_ports: [],
        allowed_domains: [],
        port_forwards: [],
      },
      snapshots: [],
      jobs: [],
    })
    expect(described['processes']).toEqual(expect.any(Number))
    expect(described['limits']).toMatchObject({ memory: { reason: expect.any(String) }, isolation: { enforced: true } })
    const logs = await app.ask('workspace_logs', { workspace_id: 'described', log_type: 'console' })
    expect(Object.keys(logs).sort()).toEqual(['console', 'workspace_id'])
  })

  it('gets at most what the configuration allows, from an image that there is', async () => {
    expect(await app.refusal('workspace_create', { vcpus: 9 })).toMatchObject({
      code: 'ERR_INVALID_INPUT',
      message: expect.stringContaining('vcpus'),
    })
    expect((await app.refusal('workspace_create', { memory_mb: 8193 })).message).toContain('8192')
    expect((await app.refusal('workspace_create', { disk_gb: 101 })).message).toContain('100')
    expect((await app.refusal('workspace_create', { base_image: 'no-such' })).message).toContain('host')
    expect(await rowsFor(app)).toEqual([])
  })

  it('is filtered by state in the list', async () => {
    await app.ask('workspace_create', { name: 'on' })
    await app.ask('workspace_create', { name: 'off' })
    await app.ask('workspace_stop', { workspace_id: 'off' })
    const filtered = async (state_filter: string) =>
      (await app.ask<{ workspaces: Answer[] }>('workspace_list', { state_filter })).workspaces.map((row) => row['name'])
    expect(await filtered('running')).toEqual(['on'])
    expect(await filtered('stopped')).toEqual(['off'])
    expect(await filtered('suspended')).toEqual([])
  })

  it('can be destroyed while a command runs and others wait: all of them are told', async () => {
    await app.ask('workspace_create', { name: 'doomed' })
    const running = app.refusal('exec', { workspace_id: 'doomed', command: 'echo up > /up; sleep 600' })
    await expect
      .poll(async () => (await app.call('file_read', { workspace_id: 'doomed', path: '/up' })).isError)
      .toBe(false)
    const [first, second] = await Promise.all([
      app.call('workspace_destroy', { workspace_id: 'doomed' }),
      app.call('workspace_destroy', { workspace_id: 'doomed' }),
    ])
    expect([first.isError, second.isError]).toContain(false)
    expect(await running).toMatchObject({ code: 'ERR_WORKSPACE_STATE', message: expect.stringContaining('destroyed') })
    expect(await namesFor(app)).toEqual([])
  })

  it('is undone when its making is cancelled, and leaves nothing', async () => {
    const controller = new AbortController()
    onNextId = () => controller.abort()
    const making = app.call('workspace_create', { name: 'never' }, undefined, { signal: controller.signal })
    expect((await making).failure?.code).toBe('ERR_CANCELLED')
    expect(onNextId).toBeUndefined()
    expect(await rowsFor(app)).toEqual([])
  })

  it('leaves what matters in the log', async () => {
    const { workspace_id } = await app.ask('workspace_create', { name: 'logged' })
    await app.ask('set_env', { workspace_id: 'logged', vars: { TOKEN: 'very-secret' } })
    await sh(app, 'logged', 'true')
    await app.ask('workspace_destroy', { workspace_id: 'logged' })
    const effects = (await app.log()).slice(-4).flatMap((record) => record.effects ?? [])
    expect(effects.map(({ kind }) => kind)).toEqual([
      'workspace_created',
      'workspace_env_set',
      'workspace_exec',
      'workspace_destroyed',
    ])
    expect(effects.map(({ body }) => body['workspace_id'])).toEqual(Array.from({ length: 4 }, () => workspace_id))
    expect(JSON.stringify(effects)).not.toContain('very-secret')
  })
})
