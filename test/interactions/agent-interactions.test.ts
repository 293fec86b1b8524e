import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { type BillingPeer, type Manner, startBillingPeer, usualBill } from '../support/billing-peer.ts'
import { agentYaml } from '../support/executions.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** Agents of the real program, whose models are a provider on this machine that writes bills. */
let peer: BillingPeer
let server: ServerHere
let next: Manner = {}

const price = {
  ...{ input_cost_per_million: 1, output_cost_per_million: 10 },
  ...{ cache_read_cost_per_million: 0.1, cache_write_cost_per_million: 1.25 },
}
const kinds = { first: ['openai', '/v1'], second: ['anthropic', '/v1'], third: ['gemini', '/v1beta'] } as const
/** In dollars, at these prices. */
const billed = ({ input, output, cacheRead, cacheWrite } = usualBill): number =>
  (input - cacheRead - cacheWrite + cacheRead * 0.1 + cacheWrite * 1.25 + output * 10) / 1_000_000

beforeAll(async () => {
  peer = await startBillingPeer(() => next)
  const dataDir = newDataDir()
  const providers = Object.entries(kinds).flatMap(([name, [type, path]]) =>
    [true, false].map((stream) => ({
      ...{ name: `${name}-${stream}`, type, stream, endpoint: `${peer.url}${path}`, api_key: 'env:MODEL_KEY' },
      models: [{ alias: `${name}-${stream}`, model: 'm', max_output_tokens: 200, ...price }],
    })),
  )
  const config = {
    models: { providers, max_retries: 1, retry_delay_ms: 1 },
    ...{ limits: { wait_ms: 0 }, executions: { max_concurrent: 60 }, rate_limits: { enabled: false } },
  }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
  process.env['MODEL_KEY'] = 'key-of-the-operator'
  server = await startServerHere({ dataDir })
  for (const alias of providers.map(({ name }) => name)) {
    const spec = `  task: { instruction: "Answer." }\n  execution: { max_iterations: 3 }\n`
    const manifest_yaml = agentYaml(`of-${alias}`, spec).replace(
      'version: "3.11" }',
      `version: "3.11", model: ${alias} }`,
    )
    await tool('aegis.agent.create', { manifest_yaml })
  }
  const key = { name: 'admin', role: 'admin', tier: 'operator' }
  adminKey = (await tool<{ secret: string }>('api_key_create', key)).secret
})
afterAll(async () => {
  await server.stop()
  await peer.stop()
  delete process.env['MODEL_KEY']
})
beforeEach(() => {
  next = {}
})

/** Reads nothing untrusted, and so may change limits. */
let adminKey: string
async function tool<T>(name: string, args: object, key?: string): Promise<T> {
  const response = await fetch(new URL(`/v1/tools/${name}`, server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key !== undefined && { authorization: `Bearer ${key}` }) },
    body: JSON.stringify(args),
  })
  return (await response.json()) as T
}
type Noted = Readonly<Record<string, unknown> & { id: string; tokens: Record<string, unknown> | null }>
const execute = async (agent: string): Promise<string> =>
  (await tool<{ execution_id: string }>('aegis.task.execute', { agent_id: agent })).execution_id
const ended = (execution_id: string) =>
  tool<{ status: string; last_error: string | null }>('aegis.task.wait', { execution_id, timeout_seconds: 30 })
const noted = async (run_id: string) =>
  (await tool<{ interactions: Noted[] }>('interaction_list', { run_id })).interactions
const budget = async (entity: object, limit_value: number) => {
  const { limit } = await tool<{ limit: { id: string } }>(
    'create_limit',
    { limit_type: 'token_cost', limit_value, ...entity },
    adminKey,
  )
  return {
    id: limit.id,
    used: async () => {
      const { limits } = await tool<{ limits: { id: string; used: number }[] }>('get_limits', {})
      return limits.find(({ id }) => id === limit.id)!.used
    },
    remove: () => tool('delete_limit', { id: limit.id }, adminKey),
  }
}
const organisation = { entity_type: 'organization', entity_id: 'local' }

it.each(Object.keys(kinds).flatMap((name) => [`of-${name}-true`, `of-${name}-false`]))(
  'what %s asks is noted and paid by the numbers of the provider',
  async (agent) => {
    const bill = agent.includes('second') ? { ...usualBill, cacheWrite: 50, reasoning: 0 } : usualBill
    next = { bill }
    const limit = await budget({ entity_type: 'agent', entity_id: agent }, 1)
    const run = await execute(agent)
    expect(await ended(run)).toMatchObject({ status: 'completed' })
    expect(await noted(run)).toMatchObject([
      {
        ...{
          outcome: 'ok',
          source: 'agent',
          run_id: run,
          model: 'm-1',
          cost_usd: Math.ceil(billed(bill) * 1e9 - 1e-3) / 1e9,
        },
        tokens: {
          ...{ input: bill.input, output: bill.output, cache_read: bill.cacheRead, cache_write: bill.cacheWrite },
          ...{ reasoning: bill.reasoning, estimated: false },
        },
      },
    ])
    expect(await limit.used()).toBe((await noted(run))[0]!['cost_usd'])
    expect(await tool('get_agent_token_usage', { id: agent })).toMatchObject({
      ...{ totalInputTokens: bill.input, totalOutputTokens: bill.output, totalTokens: bill.input + bill.output },
    })
    await limit.remove()
  },
)

it('tries that fail, and answers that break off, are settled each', async () => {
  const limit = await budget(organisation, 1)
  let tries = 0
  Object.defineProperty(next, 'manner', { get: () => (['cut', 'whole'] as const)[tries++] })
  const cut = await execute('of-second-true')
  expect(await ended(cut)).toMatchObject({ status: 'completed' })
  expect(await noted(cut)).toMatchObject([
    { outcome: 'ok', tokens: { estimated: false } },
    { outcome: 'cut_off', tokens: { estimated: true, input: usualBill.input } },
  ])
  next = { manner: 400 }
  const refused = await execute('of-first-false')
  expect(await ended(refused)).toMatchObject({ status: 'failed' })
  expect(await noted(refused)).toMatchObject([{ outcome: 'failed', tokens: null, cost_usd: 0 }])
  const spent = [...(await noted(cut)), ...(await noted(refused))].map(({ cost_usd }) => Number(cost_usd))
  expect(await limit.used()).toBeCloseTo(
    spent.reduce((sum, one) => sum + one, 0),
    9,
  )
  await limit.remove()
})

it.each([
  ['hang', 'of-first-true', 1, 200],
  ['silent', 'of-first-false', 200, 200],
  ['silent', 'of-second-true', 0, 0],
] as const)(
  'a run that is cancelled in an answer (%s, %s) pays for what the provider may bill',
  async (manner, agent, least, most) => {
    const limit = await budget(organisation, 1)
    const before = peer.seen.length
    next = { manner }
    const run = await execute(agent)
    await expect.poll(() => peer.seen.length).toBe(before + 1)
    await tool('aegis.task.cancel', { execution_id: run })
    await expect.poll(() => noted(run)).toMatchObject([{ outcome: 'cut_off' }])
    const [one] = await noted(run)
    expect(one).toMatchObject({ tokens: { estimated: true } })
    expect(one!.tokens!['output']).toBeGreaterThanOrEqual(least)
    expect(one!.tokens!['output']).toBeLessThanOrEqual(most)
    expect(await limit.used()).toBe(one!['cost_usd'])
    await limit.remove()
  },
)

it('a run that a limit refuses fails at once and says which limit it is, what is left and when it begins anew', async () => {
  const limit = await budget({ entity_type: 'agent', entity_id: 'of-first-true' }, 0.0001)
  const before = peer.seen.length
  const run = await execute('of-first-true')
  const { status, last_error } = await ended(run)
  expect(status).toBe('failed')
  expect(last_error).toContain('ERR_LIMIT_EXCEEDED')
  expect(last_error).toContain('limit of the agent does not cover this request: of 0.0001 US dollars, 0.0001 are left')
  expect(last_error).toMatch(/may cost [\d.]+\. .*max_output_tokens of its model.*update_limit.* it resets at \d{4}-/)
  expect(peer.seen).toHaveLength(before)
  const found = await noted(run)
  expect(found).toMatchObject([{ outcome: 'refused', error_code: 'ERR_LIMIT_EXCEEDED', tokens: null }])
  const { interaction } = await tool<{ interaction: object }>('interaction_get', { id: found[0]!.id })
  expect(interaction).toMatchObject({ decisions: [{ policy: limit.id, verdict: 'deny' }] })
  const other = await execute('of-second-true')
  expect(await ended(other)).toMatchObject({ status: 'completed' })
  await limit.remove()
})

it('fifty agents that come together never exceed a budget', async () => {
  const limit = await budget(organisation, 0.02)
  const runs = await Promise.all(Array.from({ length: 50 }, () => execute('of-first-true')))
  const ends = await Promise.all(runs.map(ended))
  const served = ends.filter(({ status }) => status === 'completed').length
  expect(served).toBeGreaterThan(0)
  expect(served).toBeLessThan(50)
  expect(ends.filter(({ last_error }) => last_error?.includes('ERR_LIMIT_EXCEEDED'))).toHaveLength(50 - served)
  expect(await limit.used()).toBeLessThanOrEqual(0.02)
  expect(await limit.used()).toBeCloseTo(served * (Math.ceil(billed() * 1e9 - 1e-3) / 1e9), 9)
  await limit.remove()
})
