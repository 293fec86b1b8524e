import { afterEach, beforeEach, expect, it } from 'vitest'
import { openTestApp, type TestApp } from '../support/app.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'

/** What ends the first question to a server before it is answered: its deployment says so, or goes on. */
type View = { status: string; state: string; error: string | null }
const reachable = { 'web.allow_private_addresses': ['127.0.0.1'] } as const

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
