import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type FaultPoint, installFaultPlan } from '../../src/kernel/fault.ts'
import { type Answer, openTestApp, type TestApp } from '../support/app.ts'
import { isLongRun } from '../support/long-run.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'
import { type OauthPeer, startOauthPeer } from '../support/oauth-peer.ts'

/**
 * What is done with MCP servers in several steps, with the store failing at each of them. These calls reach outside, so they are not one
 * transaction: whichever step fails, nothing is there twice, and the same call succeeds once the store works again. A short round tries
 * the first steps and then every third.
 */
const TURNS_MAX = 200
const STRIDE = isLongRun ? 1 : 3
const FIRST = 4

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

/** Calls `attempt` with the store failing once, at each step; `check` gets what it answered, with the store working again. */
async function sweep(
  prepare: (turn: number) => Promise<() => Promise<unknown>>,
  check: (turn: number, where: string) => Promise<void>,
): Promise<void> {
  const seen = new Set<FaultPoint>()
  for (let count = 1; count < TURNS_MAX; count += count < FIRST ? 1 : STRIDE) {
    const attempt = await prepare(count)
    await (await app.app.ready).database!.flush()
    let left = count
    let hit: FaultPoint | undefined
    installFaultPlan((point) => {
      left--
      if (left !== 0) return
      hit = point
      throw new Error(`planned at ${point}`)
    })
    await attempt().catch(() => {})
    installFaultPlan(undefined)
    await check(count, `${hit ?? 'no fault'}, step ${count}`)
    if (hit === undefined) {
      expect([...seen]).toEqual(expect.arrayContaining(['store.write']))
      return
    }
    seen.add(hit)
  }
  throw new Error('the operation never came to its end')
}

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
  expect.poll(async () => (await deploymentsOf(id))[0]?.status, { timeout: 10_000, message: where }).toBe('success')

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
