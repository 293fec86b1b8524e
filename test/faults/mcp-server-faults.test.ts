import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { installFaultPlan } from '../../src/kernel/fault.ts'
import { type Answer, openTestApp, type TestApp } from '../support/app.ts'
import { sweepFaults } from '../support/fault-sweep.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'
import { type OauthPeer, startOauthPeer } from '../support/oauth-peer.ts'

/**
 * What is done with MCP servers in several steps, with the store failing at each of them. These calls reach outside, so they are not one
 * transaction: whichever step fails, nothing is there twice, and the same call succeeds once the store works again.
 */
let app: TestApp
let upstream: McpUpstream
let peer: OauthPeer
let guarded: McpUpstream
beforeEach(async () => {
  peer = await startOauthPeer()
  upstream = await startMcpUpstream()
  guarded = await startMcpUpstream('streamable-http', peer)
  app = await openTestApp({ config: { 'web.allow_private_addresses': ['127.0.0.1'], 'rate_limits.enabled': false } })
})
afterEach(async () => {
  installFaultPlan(undefined)
  await app[Symbol.asyncDispose]()
  for (const one of [upstream, guarded, peer]) await one[Symbol.asyncDispose]()
})

type Deployed = { id: string; catalogId: string; status: string; error: string | null; link?: { url: string } }

type Prepare = (turn: number) => Promise<() => Promise<unknown>>
const sweep = (prepare: Prepare, check: (turn: number, where: string) => Promise<void>) =>
  sweepFaults({
    check,
    async prepare(turn) {
      const attempt = await prepare(turn)
      await (await app.app.ready).database!.flush()
      return attempt
    },
  })

const make = (name: string, serverUrl: string) => app.ask<{ id: string }>('create_mcp_server', { name, serverUrl })
const deploymentsOf = async (catalogId: string) =>
  (await app.ask<{ deployments: Deployed[] }>('list_mcp_server_deployments')).deployments.filter(
    (one) => one.catalogId === catalogId,
  )

describe.each(['deploy_mcp_server', 'install_mcp_server'])('%s', (tool) => {
  it('is done again where the store failed, and is there once', async () => {
    let catalogId = ''
    const prepare = async (turn: number) => {
      catalogId = (await make(`server ${turn}`, upstream.url)).id
      return () => app.call(tool, { catalogId })
    }
    await sweep(prepare, async (_, where) => {
      const before = await deploymentsOf(catalogId)
      expect(before.length, where).toBeLessThan(2)
      const again = await app.ask<Deployed>(tool, { catalogId })
      expect(again.status, where).toBe('success')
      expect(await deploymentsOf(catalogId), where).toMatchObject([{ id: again.id, status: 'success', error: null }])
    })
  })
})

describe('a call of a tool that its server declares read-only', () => {
  it('is answered whatever the store does with its record, which is there once at most, and in order', async () => {
    const { id: catalogId } = await make('read', upstream.url)
    await app.ask('deploy_mcp_server', { catalogId })
    // The first answer makes the context untrusted, and waits for its record.
    await app.call('read__sum', { a: 1, b: 2 })
    let before = 0
    const prepare = async () => {
      before = (await app.log()).length
      return async () => {
        const answer = await app.call('read__sum', { a: 1, b: 2 })
        await (await app.app.ready).database!.flush()
        return answer.isError
      }
    }
    await sweep(prepare, async (_, where) => {
      expect((await app.call('read__sum', { a: 1, b: 2 })).isError, where).toBe(false)
      const calls = (await app.log()).slice(before).map(({ tool, outcome }) => `${tool} ${outcome}`)
      expect(['read__sum ok', 'read__sum ok,read__sum ok'], where).toContain(calls.join())
    })
  })
})

/** What a browser does with the link, up to what comes back to us. */
async function backFrom(url: string): Promise<() => Promise<Response>> {
  const page = await fetch(url)
  const next = /href="(http[^"]+)" rel="noreferrer"/.exec(await page.text())![1]!.replaceAll('&amp;', '&')
  const cookie = page.headers.getSetCookie()[0]!.split(';')[0]!
  const back = (await fetch(next, { redirect: 'manual' })).headers.get('location')!
  return () => fetch(back, { headers: { cookie } })
}

const echo = async (server: string): Promise<string> => {
  const { json, isError } = await app.call(`${server}__echo`, { text: 'hello' })
  return isError ? ((JSON.parse(json) as { error: Answer }).error['code'] as string) : 'hello'
}
/** The page does not wait until the server is connected. */
async function settled(catalogId: string): Promise<Deployed> {
  const look = async () => (await deploymentsOf(catalogId))[0]!
  await expect
    .poll(async () => (await look()).status, { timeout: 2_000 })
    .not.toBe('discovering-tools')
    .catch(() => {})
  return await look()
}
const isReady = (id: string, where: string) =>
  expect.poll(async () => (await deploymentsOf(id))[0]?.status, { message: where }).toBe('success')

describe('a grant of a person', () => {
  it('is saved whole or asked for again', async () => {
    let deployed: Deployed
    const prepare = async (turn: number) => {
      const { id } = await make(`granted ${turn}`, guarded.url)
      deployed = await app.ask<Deployed>('deploy_mcp_server', { catalogId: id })
      return await backFrom(deployed.link!.url)
    }
    await sweep(prepare, async (turn, where) => {
      const { catalogId } = deployed
      const isGranted = async () => (await echo(`granted_${turn}`)) === 'hello'
      const { id, status } = await settled(catalogId)
      // The page says that it failed, and the person asks for another link.
      if (status === 'pending') {
        const { link } = await app.ask<{ link: { url: string } }>('authorize_mcp_server', { serverId: id })
        expect((await (await backFrom(link.url))()).status, where).toBe(200)
      } else if (status !== 'success') await app.ask('deploy_mcp_server', { catalogId })
      await isReady(catalogId, where)
      expect(await isGranted(), where).toBe(true)
      await app.ask('delete_mcp_server', { id: catalogId })
      // Nothing of the tokens stays behind.
      expect(await app.ask('secret_list'), where).toMatchObject({ secrets: [] })
    })
  })

  it('is renewed and used though the store failed, and no person has to sign in again', async () => {
    const { id } = await make('renewed', guarded.url)
    const deployed = await app.ask<Deployed>('deploy_mcp_server', { catalogId: id })
    await (await backFrom(deployed.link!.url))()
    await isReady(id, 'at first')
    const prepare = async () => {
      peer.expire()
      return () => echo('renewed')
    }
    await sweep(prepare, async (_, where) => {
      await isReady(id, where)
      expect(await echo('renewed'), where).toBe('hello')
      // What was renewed is on disk by now.
      await app.ask('server_health')
    })
    const { dataDir } = app
    await app.stop()
    app = await openTestApp({ dataDir, config: { 'web.allow_private_addresses': ['127.0.0.1'] } })
    expect(await echo('renewed')).toBe('hello')
  })
})
