import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { AppError } from '../../src/contract/app-error.ts'
import { movableClock, openTestApp, type TestApp } from '../support/app.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'

/** What ends the first question to a server before it is answered: its deployment says so, or goes on. */
type View = { status: string; state: string; error: string | null }
const reachable = { 'web.allow_private_addresses': ['127.0.0.1'] } as const
const WAITING = { timeout: 20_000 }

let app: TestApp
let upstream: McpUpstream
beforeEach(async () => {
  upstream = await startMcpUpstream()
  app = await openTestApp({ config: reachable })
})
afterEach(async () => {
  await app[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

const create = async (name = 'Up', more: object = {}) =>
  (await app.ask<{ id: string }>('create_mcp_server', { name, serverUrl: upstream.url, ...more })).id
const listed = async () => (await app.ask<{ deployments: View[] }>('list_mcp_server_deployments')).deployments

describe('a deployment whose server has not answered yet', () => {
  it('asks the server again when it is deployed again, and has that answer', async () => {
    const catalogId = await create()
    const { held, release } = upstream.hold()
    const first = app.call('deploy_mcp_server', { catalogId })
    await held
    const before = upstream.requests.length
    const second = app.ask('deploy_mcp_server', { catalogId })
    await expect.poll(() => upstream.requests.length, WAITING).toBeGreaterThan(before)
    release()
    expect(await second).toMatchObject({ status: 'success', error: null, toolCount: 5 })
    await first
    expect(await listed()).toMatchObject([{ status: 'success', error: null }])
  })

  it('still needs the values that were withdrawn meanwhile', async () => {
    const { id: team } = await app.ask<{ id: string }>('user_team_create', { name: 'crew' })
    const key = await app.keyCaller({ role: 'editor' })
    const ann = { ...key, principal: { ...key.principal, teams: [team] } }
    const userConfig = { key: { type: 'string', sensitive: true, required: true, headerName: 'X-Key' } }
    const catalogId = await create('Shared', { userConfig, scope: 'team', teams: ['crew'] })
    const { held, release } = upstream.hold()
    const deploying = app.call('deploy_mcp_server', { catalogId, values: { key: 'of-ann' } }, ann)
    await held
    const another = await app.keyCaller({ role: 'editor' })
    const ben = { ...another, principal: { ...another.principal, teams: [team] } }
    await app.ask('edit_mcp_config', { id: catalogId, requiresAuth: true }, ben)
    release()
    await deploying
    expect(await listed()).toMatchObject([{ status: 'pending', error: expect.stringContaining('changed') }])
  })

  it('is an error when the call that deployed it is cancelled', async () => {
    const catalogId = await create()
    const { held, release } = upstream.hold()
    const leaving = new AbortController()
    const deploying = app.call('deploy_mcp_server', { catalogId }, undefined, { signal: leaving.signal })
    await held
    leaving.abort()
    await deploying
    const cancelled = { status: 'error', error: expect.stringMatching(/^ERR_CANCELLED: .* Deploy it again\.$/) }
    await expect.poll(listed, WAITING).toMatchObject([cancelled])
    release()
    expect(await app.ask('deploy_mcp_server', { catalogId })).toMatchObject({ status: 'success' })
  })

  it('is connected by the next program, if this one ends', async () => {
    const clock = movableClock()
    await app[Symbol.asyncDispose]()
    app = await openTestApp({ clock, config: reachable })
    const catalogId = await create()
    const { held, release } = upstream.hold()
    const told = Promise.withResolvers<void>()
    const deploying = app.call('deploy_mcp_server', { catalogId }, undefined, { progress: () => told.resolve() })
    await Promise.all([held, told.promise])
    clock.advance(45_000)
    expect(JSON.parse((await deploying).json)).toMatchObject({ status: 'discovering-tools' })
    app = await app.restart()
    expect(await listed()).toMatchObject([{ status: 'discovering-tools' }])
    release()
    await expect.poll(listed, WAITING).toMatchObject([{ status: 'success', error: null }])
    expect((await app.call('up__echo', { text: 'here' })).isError).toBe(false)
  })

  it('is connected by the next program too, if this one ends before the call', async () => {
    const catalogId = await create()
    const { held, release } = upstream.hold()
    const ending = new AbortController()
    const deploying = app.call('deploy_mcp_server', { catalogId }, undefined, { signal: ending.signal })
    await held
    ending.abort(new AppError('ERR_SHUTTING_DOWN', 'The server is shutting down.'))
    await deploying
    app = await app.restart()
    expect(await listed()).toMatchObject([{ status: 'discovering-tools', error: null }])
    release()
    await expect.poll(listed, WAITING).toMatchObject([{ status: 'success', error: null }])
  })
})

it('a deployment for which no server may be connected says so', async () => {
  await app[Symbol.asyncDispose]()
  app = await openTestApp({ config: { ...reachable, 'mcp_servers.max_running': 1 } })
  await app.ask('deploy_mcp_server', { catalogId: await create('One') })
  const leaving = new AbortController()
  const hanging = app.call('one__hang', {}, undefined, { signal: leaving.signal })
  await expect.poll(() => upstream.hanging.length, WAITING).toBe(1)
  const busy = { status: 'error', error: expect.stringContaining('ERR_BUSY: The limit of 1 connected MCP servers') }
  expect(await app.ask('deploy_mcp_server', { catalogId: await create('Two') })).toMatchObject(busy)
  leaving.abort()
  await hanging
  expect(await listed()).toMatchObject([{ status: 'success' }, busy])
})

it('a server that was stopped while it started may start again at once', async () => {
  const catalogId = await create()
  await app.ask('deploy_mcp_server', { catalogId })
  const { held, release } = upstream.hold()
  const calling = app.call('up__echo', { text: 'early' })
  await held
  await app.ask('edit_mcp_config', { id: catalogId, requiresAuth: false })
  expect((await calling).isError).toBe(true)
  expect(await listed()).toMatchObject([{ status: 'success', state: 'stopped', error: null }])
  release()
  expect((await app.call('up__echo', { text: 'again' })).isError).toBe(false)
})
