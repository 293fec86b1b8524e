import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest'
import type { TestApp } from '../support/app.ts'
import { type CuttingProxy, startCuttingProxy } from '../support/cutting-proxy.ts'
import { createDatabase, withClient } from '../support/postgres.ts'
import { destroyAll, openWorkspaceApp, rowsFor } from '../support/workspaces.ts'

/**
 * The store goes away between the first entry of an operation, which takes the workspace, and its last, which says what
 * became of it. When it is back, the next call finds out, without a restart.
 */
let directUrl = ''
let proxy: CuttingProxy
let app: TestApp
beforeAll(async () => {
  directUrl = await createDatabase(inject('postgresUrl'))
  proxy = await startCuttingProxy(directUrl)
  app = await openWorkspaceApp({ config: { database_url: proxy.url } })
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await proxy.close()
})
afterEach(async () => {
  proxy.mend()
  await destroyAll(app)
})

const recorded = () =>
  withClient(directUrl, async (client) => (await client.query('SELECT name, state, operation FROM workspaces')).rows)

/** The call fails after it has taken its workspace, and nobody reaches the store until it is mended. */
async function loseOutcome(tool: string, args: object): Promise<void> {
  // The name of this process, by which it takes a workspace for an operation.
  proxy.cutAfter(new RegExp(`${process.pid}-\\d+-[0-9a-f]{12}`))
  expect(await app.refusal(tool, args)).toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' })
  expect(proxy.isCut()).toBe(true)
  expect(await recorded()).toMatchObject([{ operation: expect.any(String) }])
  proxy.mend()
}
const at = { workspace_id: 'w' }

const recordedTeams = () =>
  withClient(directUrl, async (client) => (await client.query('SELECT name, state FROM teams')).rows)
const team = { action: 'create', name: 't', roles: [{ name: 'one', role: 'worker', skills: [], description: '' }] }

describe('a team whose outcome the store did not take', () => {
  it.each([
    ['making', team],
    ['destroying', { action: 'destroy', name: 't' }],
  ] as const)('is free again, after its %s', async (_what, args) => {
    if (args.action === 'destroy') await app.ask('team', team)
    proxy.cutAfter(new RegExp(`${process.pid}-\\d+-[0-9a-f]{12}`))
    expect(await app.refusal('team', args)).toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' })
    expect(await recordedTeams()).toHaveLength(1)
    proxy.mend()
    await app.ask('team', { action: 'destroy', name: 't' })
    expect(await recordedTeams()).toEqual([])
    await app.ask('team', team)
    await app.ask('team', { action: 'destroy', name: 't' })
    expect(await recorded()).toEqual([])
  })
})

describe('an operation whose outcome the store did not take', () => {
  it.each([
    ['workspace_stop', at],
    ['snapshot', { ...at, action: 'create', name: 'lost' }],
    ['snapshot', { ...at, action: 'restore', name: 's' }],
    ['network_policy', { ...at, allowed_ports: [80] }],
    ['workspace_resize', { ...at, vcpus: 1 }],
  ] as const)('%s %j is settled by the next call', async (tool, args) => {
    await app.ask('workspace_create', { name: 'w' })
    await app.ask('snapshot', { ...at, action: 'create', name: 's' })
    await loseOutcome(tool, args)
    await app.ask('workspace_start', at)
    expect(await recorded()).toEqual([{ name: 'w', state: 'running', operation: null }])
    expect(await app.ask('exec', { ...at, command: 'true' })).toMatchObject({ exit_code: 0 })
    expect(await app.ask('snapshot', { ...at, action: 'list' })).toMatchObject({ snapshots: [{ name: 's' }] })
  })

  it('workspace_start is settled by the next call', async () => {
    await app.ask('workspace_create', { name: 'w' })
    await app.ask('workspace_stop', at)
    await loseOutcome('workspace_start', at)
    expect(await rowsFor(app)).toMatchObject([{ name: 'w', state: 'running' }])
    await app.ask('workspace_stop', at)
  })

  it('workspace_create leaves nothing', async () => {
    await loseOutcome('workspace_create', { name: 'w' })
    expect(await rowsFor(app)).toEqual([])
    expect(await recorded()).toEqual([])
    await app.ask('workspace_create', { name: 'w' })
  })

  it('workspace_destroy is finished', async () => {
    await app.ask('workspace_create', { name: 'w' })
    await loseOutcome('workspace_destroy', at)
    expect(await rowsFor(app)).toEqual([])
    expect(await recorded()).toEqual([])
  })
})
