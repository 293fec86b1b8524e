import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type BillingPeer, startBillingPeer, usualBill } from '../support/billing-peer.ts'
import { isLongRun } from '../support/long-run.ts'
import { newDataDir, type RealServer, startRealServer } from '../support/real-server.ts'

/**
 * A server that forwards requests to models dies by `kill -9`, at a commit or between two. What it answered stays paid: a limit never
 * gets money back. What it showed in its list stays there, each request once, and the totals are those of the rows.
 */
const AT_ONCE = 8
const BUDGET = 1
const price = { input_cost_per_million: 1, output_cost_per_million: 10 }
const COST = (usualBill.input * price.input_cost_per_million + usualBill.output * price.output_cost_per_million) / 1e6

type Listed = Readonly<{
  interactions: readonly Readonly<{ id: string }>[]
  totals: Readonly<{ interactions: number; input_tokens: number; output_tokens: number }>
}>

let peer: BillingPeer
const dataDir = newDataDir()
/** Over all the lives of the server. */
let paid = 0
let shown: readonly string[] = []

beforeAll(async () => {
  peer = await startBillingPeer(() => ({}))
  const providers = [
    {
      ...{ name: 'peer', type: 'openai-compatible', endpoint: `${peer.url}/v1` },
      models: [{ alias: 'default', model: 'm', ...price }],
    },
  ]
  const config = { models: { providers }, interactions: { bodies: 'full' }, rate_limits: { enabled: false } }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
  const server = await startRealServer({ dataDir })
  await tool(server, 'create_llm_proxy', { name: 'busy' })
  const entity = { entity_type: 'organization', entity_id: 'local', limit_type: 'token_cost' }
  await tool(server, 'create_limit', { ...entity, limit_value: BUDGET })
  await server.stop()
})
afterAll(() => peer.stop())

async function post(server: RealServer, path: string, body: object): Promise<Response> {
  return await fetch(new URL(path, server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
}
const tool = async <T>(server: RealServer, name: string, args: object): Promise<T> =>
  (await (await post(server, `/v1/tools/${name}`, args)).json()) as T
const listed = (server: RealServer) => tool<Listed>(server, 'interaction_list', { limit: 200, totals: true })

/** Asks until the server is gone, and counts what was answered as a whole. */
async function askOn(server: RealServer, onAnswer: () => void): Promise<void> {
  const messages = [{ role: 'user', content: 'hi' }]
  for (;;) {
    try {
      const reply = await post(server, '/v1/peer/busy/chat/completions', { model: 'm', messages, max_tokens: 100 })
      const { usage } = (await reply.json()) as { usage?: object }
      if (reply.status !== 200 || usage === undefined) throw new Error(`answered with ${reply.status}`)
    } catch (error) {
      if (error instanceof TypeError || error instanceof SyntaxError) return
      throw error
    }
    paid++
    onAnswer()
  }
}

const kills = isLongRun ? [1, 5, 9, 20, 40] : [25]
const plans = isLongRun
  ? [2, 3, 5, 8, 13].flatMap((count) => [`store.commit.before:kill:${count}`, `store.commit.after:kill:${count}`])
  : ['store.commit.before:kill:3', 'store.commit.after:kill:3']

it.each([...kills.map((count) => ({ count })), ...plans.map((plan) => ({ plan }))])(
  '%o',
  {
    timeout: 120_000,
  },
  async (death: Readonly<{ count?: number; plan?: string }>) => {
    const { count, plan } = death
    const doomed = await startRealServer({ dataDir, ...(plan !== undefined && { env: { CASTELLAN_FAULT: plan } }) })
    let answers = 0
    const asking = Array.from({ length: AT_ONCE }, () =>
      askOn(doomed, () => {
        if (++answers === count) doomed.kill('SIGKILL')
      }),
    )
    // What the list shows is on disk.
    if (plan === undefined)
      shown = [...shown, ...(await listed(doomed).catch(() => ({ interactions: [] }))).interactions.map(({ id }) => id)]
    expect(await doomed.ended).toBe('SIGKILL')
    await Promise.all(asking)

    const server = await startRealServer({ dataDir })
    const { limits } = await tool<{ limits: { used: number }[] }>(server, 'get_limits', {})
    const { used } = limits[0]!
    expect(used).toBeGreaterThanOrEqual(paid * COST)
    expect(used).toBeLessThanOrEqual(BUDGET)
    const { interactions, totals } = await listed(server)
    const ids = interactions.map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
    expect(ids).toEqual(expect.arrayContaining([...shown]))
    expect(totals.interactions).toBeLessThanOrEqual(peer.seen.length)
    expect(totals.input_tokens).toBe(totals.interactions * usualBill.input)
    expect(await tool(server, 'get_llm_proxy_token_usage', { id: 'busy' })).toMatchObject({
      totalInputTokens: totals.input_tokens,
      totalOutputTokens: totals.output_tokens,
    })
    // The newest: a page of the list shows no more.
    shown = ids.slice(0, 50)
    await server.stop()
  },
)
