import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest'
import { type FaultPoint, installFaultPlan } from '../../src/kernel/fault.ts'
import { type BillingPeer, startBillingPeer, usualBill } from '../support/billing-peer.ts'
import { dialects } from '../support/databases.ts'
import { createDatabase } from '../support/postgres.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/**
 * A request to a model is noted by nobody's call, so the sweep over tools does not reach it. Here every step of it fails once. A row,
 * its texts and the totals of its proxy are then there together, once, or not at all.
 */
const TURNS_MAX = 200
type Kind = 'passing' | 'lasting'
const points: readonly FaultPoint[] = [
  ...(['store.begin', 'store.query', 'store.write', 'store.commit.before', 'store.commit.after'] as const),
]
type Listed = Readonly<{
  interactions: readonly { id: string }[]
  totals: Readonly<{ interactions: number; input_tokens: number; output_tokens: number }>
}>

let peer: BillingPeer
beforeAll(async () => {
  peer = await startBillingPeer(() => ({}))
})
afterAll(() => peer.stop())
afterEach(() => installFaultPlan(undefined))

describe.each(dialects)('%s', (dialect) => {
  let server: ServerHere
  beforeAll(async () => {
    const dataDir = newDataDir()
    const models = [{ alias: 'default', model: 'm', input_cost_per_million: 1, output_cost_per_million: 10 }]
    const providers = [{ name: 'peer', type: 'openai-compatible', endpoint: `${peer.url}/v1`, models }]
    const database_url = dialect === 'SQLite' ? {} : { database_url: await createDatabase(inject('postgresUrl')) }
    const config = { models: { providers }, interactions: { bodies: 'full' }, rate_limits: { enabled: false } }
    writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ ...config, ...database_url }))
    server = await startServerHere({ dataDir })
    await tool('create_llm_proxy', { name: 'swept' })
  })
  afterAll(() => server.stop())

  const post = (path: string, body: object, headers: Record<string, string> = {}) =>
    fetch(new URL(path, server.url), {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })
  const tool = async <T>(name: string, args: object): Promise<T> =>
    (await (await post(`/v1/tools/${name}`, args)).json()) as T
  const listed = (args: object) => tool<Listed>('interaction_list', { ...args, totals: true })

  /** The store fails at the `count`-th step of one kind; that once, or from there on. Other work of the program may be in between. */
  async function askWithFault(point: FaultPoint, count: number, kind: Kind, session: string) {
    let seen = 0
    let isHit = false
    installFaultPlan((at) => {
      if (!at.startsWith('store.') || (isHit && kind === 'passing')) return
      if (at === point && ++seen === count) isHit = true
      if (isHit) throw new Error(`planned at ${at}`)
    })
    const messages = [{ role: 'user', content: session }]
    const reply = await post(
      '/v1/peer/swept/chat/completions',
      { model: 'm', messages },
      { 'x-castellan-session-id': session },
    )
    await reply.text()
    // It waits until what was noted is written or lost, whatever becomes of its own answer.
    await listed({ session })
    installFaultPlan(undefined)
    return { isHit, status: reply.status }
  }

  async function isWhole(session: string): Promise<number> {
    const { interactions } = await listed({ session })
    for (const { id } of interactions) {
      const { interaction } = await tool<{ interaction: object }>('interaction_get', { id })
      const bodies = { request: expect.stringContaining(session), answer: expect.any(String) }
      expect(interaction).toMatchObject({ tokens: { input: usualBill.input, output: usualBill.output }, bodies })
    }
    const { totals } = await listed({ proxy: 'swept' })
    expect(await tool('get_llm_proxy_token_usage', { id: 'swept' })).toMatchObject({
      ...{ totalInputTokens: totals.input_tokens, totalOutputTokens: totals.output_tokens },
    })
    expect(totals.input_tokens).toBe(totals.interactions * usualBill.input)
    return interactions.length
  }

  describe.each(['passing', 'lasting'] as const)('a failure that is %s', (kind) => {
    it.each(points)('at %s leaves a request noted once or not at all', async (point) => {
      for (let count = 1; count < TURNS_MAX; count++) {
        const session = `${kind}-${point}-${count}`
        const { isHit, status } = await askWithFault(point, count, kind, session)
        const found = await isWhole(session)
        expect(found).toBeLessThanOrEqual(1)
        // What fails once is written at the second try.
        if (status === 200 && (kind === 'passing' || !isHit)) expect(found, `step ${count}`).toBe(1)
        if (isHit) continue
        expect(status).toBe(200)
        // At least the step of the note itself has failed.
        expect(count).toBeGreaterThan(1)
        return
      }
      throw new Error('the request never came to its end')
    })
  })
})
