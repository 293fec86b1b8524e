import { afterAll, beforeAll, expect, it } from 'vitest'
import type { TestApp } from '../support/app.ts'
import { info, openWorkspaceApp, sh } from '../support/workspaces.ts'

/** Where the store enforces the size of disks: on btrfs, with root. Blocks that are only set aside count, and cost no time. */
let app: TestApp
beforeAll(async () => {
  app = await openWorkspaceApp({ config: { 'workspaces.store_gb': 8 } })
})
afterAll(() => app[Symbol.asyncDispose]())

const resize = (workspace_id: string, disk_gb: number) => app.ask('workspace_resize', { workspace_id, disk_gb })
const take = async (name: string, mb: number): Promise<string> => {
  const file = `/workspace/f${mb}`
  const command = `fallocate -l ${mb}M ${file} && sync -f /workspace && echo all || { rm -f ${file}; echo refused; }`
  return (await sh(app, name, command)).stdout.trim()
}

it('grows the disk of a workspace that runs, with everything that it runs', async () => {
  await app.ask('workspace_create', { name: 'grows', disk_gb: 1 })
  await app.ask('exec_background', { workspace_id: 'grows', action: 'start', command: 'sleep 1000' })
  expect(await take('grows', 1200)).toBe('refused')
  expect(await resize('grows', 2)).toMatchObject({ state: 'running', resources: { disk_gb: 2 } })
  expect(await take('grows', 1200)).toBe('all')
  expect((await sh(app, 'grows', 'pgrep -xc sleep')).stdout).toBe('1\n')
  expect(await info(app, 'grows')).toMatchObject({ resources: { disk_gb: 2 }, disk_volsize_bytes: 2 * 1024 ** 3 })
})

it('shrinks it when what is in use fits, and refuses otherwise', async () => {
  await app.ask('workspace_create', { name: 'shrinks', disk_gb: 3 })
  expect(await take('shrinks', 1100)).toBe('all')
  const refused = await app.refusal('workspace_resize', { workspace_id: 'shrinks', disk_gb: 1 })
  expect(refused).toMatchObject({ code: 'ERR_DISK_FULL', details: { field: 'disk_gb' } })
  expect(refused.message).toMatch(/^disk_gb: 11\d\d MiB .*remove files/)
  expect(await info(app, 'shrinks')).toMatchObject({ resources: { disk_gb: 3 } })
  expect(await take('shrinks', 1300)).toBe('all')
  await sh(app, 'shrinks', 'rm /workspace/f1300')
  expect(await resize('shrinks', 2)).toMatchObject({ resources: { disk_gb: 2 } })
  expect(await take('shrinks', 1300)).toBe('refused')
  expect((await sh(app, 'shrinks', 'stat -c %s /workspace/f1100')).stdout).toBe(`${1100 * 1024 ** 2}\n`)
})

it('resizes the disk of one that is stopped, and a snapshot of before comes back with the new size', async () => {
  await app.ask('workspace_create', { name: 'stopped', disk_gb: 1 })
  await app.ask('snapshot', { workspace_id: 'stopped', action: 'create', name: 'first' })
  await app.ask('workspace_stop', { workspace_id: 'stopped' })
  expect(await resize('stopped', 2)).toMatchObject({ state: 'stopped', resources: { disk_gb: 2 } })
  await app.ask('workspace_start', { workspace_id: 'stopped' })
  expect(await take('stopped', 1200)).toBe('all')
  await app.ask('snapshot', { workspace_id: 'stopped', action: 'restore', name: 'first' })
  expect(await take('stopped', 1200)).toBe('all')
})

it('keeps to what the configuration allows one workspace, and its owner', async () => {
  const member = await app.keyCaller()
  await app.ask('workspace_create', { name: 'mine', disk_gb: 1 }, member)
  await app.ask('workspace_create', { name: 'other', disk_gb: 60 }, member)
  const tooLarge = await app.refusal('workspace_resize', { workspace_id: 'mine', disk_gb: 10_000 }, member)
  expect(tooLarge.message).toMatch(/^disk_gb: .*at most 100/)
  const tooMuch = await app.refusal('workspace_resize', { workspace_id: 'mine', disk_gb: 41 }, member)
  expect(tooMuch).toMatchObject({ code: 'ERR_QUOTA_EXCEEDED', details: { quota: 'disk_gb', wanted: 40 } })
  expect((await app.refusal('workspace_resize', { workspace_id: 'mine', disk_gb: 0 }, member)).code).toBe(
    'ERR_INVALID_INPUT',
  )
  for (const workspace_id of ['mine', 'other']) await app.ask('workspace_destroy', { workspace_id }, member)
})
