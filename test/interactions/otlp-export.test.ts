import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { limits } from '../../src/contract/limits.ts'
import { localOwner } from '../../src/contract/principal.ts'
import type { StoredInteraction } from '../../src/domains/interactions/ports.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { createOtlpExporter, type OtlpSettings } from '../../src/telemetry/otlp-exporter.ts'
import { type Manner, startBillingPeer, usualBill } from '../support/billing-peer.ts'
import { agentYaml } from '../support/executions.ts'
import { startOtlpCollector } from '../support/otlp-collector.ts'
import { newDataDir } from '../support/real-server.ts'
import { startServerHere } from '../support/server-here.ts'

it('requests of programs and of agents are spans at the collector', async () => {
  let next: Manner = {}
  const peer = await startBillingPeer(() => next)
  await using collector = await startOtlpCollector()
  const dataDir = newDataDir()
  const models = [{ alias: 'default', model: 'm', input_cost_per_million: 1, output_cost_per_million: 10 }]
  const config = {
    models: {
      providers: [{ name: 'peer', type: 'openai', endpoint: `${peer.url}/v1`, api_key: 'env:MODEL_KEY', models }],
    },
    interactions: {
      bodies: 'full',
      otlp: { endpoint: `${collector.url}/`, headers: { authorization: 'env:OTLP_KEY', 'x-team': 'a,b' } },
    },
  }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
  const env = { MODEL_KEY: 'k', OTLP_KEY: 'Bearer of-the-collector' }
  const server = await startServerHere({ dataDir, env })
  const post = async (path: string, body: object, headers: Record<string, string> = {}) =>
    (
      await fetch(new URL(path, server.url), {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      })
    ).json() as Promise<Record<string, unknown>>
  const asked = { model: 'm', messages: [{ role: 'user', content: 'a private text' }] }
  const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  await post('/v1/peer/chat/completions', asked, { traceparent: trace, 'x-castellan-session-id': 'talk-1' })
  next = { manner: 400 }
  await post('/v1/peer/chat/completions', asked)
  next = {}
  const manifest_yaml = agentYaml('asker', '  task: { instruction: "Answer." }\n')
  await post('/v1/tools/aegis.agent.create', { manifest_yaml })
  const { execution_id } = await post('/v1/tools/aegis.task.execute', { agent_id: 'asker' })
  await post('/v1/tools/aegis.task.wait', { execution_id, timeout_seconds: 30 })
  const { interactions } = (await post('/v1/tools/interaction_list', {})) as { interactions: { id: string }[] }
  // What still waits is sent when the program ends.
  await server.stop()
  await peer.stop()

  expect(collector.seen.every(({ path }) => path === '/v1/traces')).toBe(true)
  expect(collector.seen[0]!.headers).toMatchObject({ authorization: 'Bearer of-the-collector', 'x-team': 'a,b' })
  const spans = collector.seen.flatMap((request) => request.spans)
  expect(JSON.stringify(collector.seen)).not.toContain('a private text')
  expect(spans.map(({ attributes }) => attributes['castellan.interaction.id'])).toEqual(
    interactions.map(({ id }) => id).toReversed(),
  )
  const [ofProgram, failed, ofAgent] = spans
  expect(ofProgram).toMatchObject({
    ...{ traceId: '0af7651916cd43dd8448eb211c80319c', parentSpanId: 'b7ad6b7169203331', name: 'chat m', kind: 3 },
    spanId: expect.stringMatching(/^[0-9a-f]{16}$/),
    status: { code: 0 },
    attributes: {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'openai',
      'gen_ai.request.model': 'm',
      'gen_ai.response.model': 'm-1',
      'gen_ai.usage.input_tokens': String(usualBill.input),
      'gen_ai.usage.output_tokens': String(usualBill.output),
      'gen_ai.usage.cache_read.input_tokens': String(usualBill.cacheRead),
      'gen_ai.usage.cache_creation.input_tokens': String(usualBill.cacheWrite),
      'gen_ai.conversation.id': 'talk-1',
      // A number with decimals in other spans, and so a double in all.
      'castellan.cost_microdollars': usualBill.input + usualBill.output * 10,
    },
  })
  expect(BigInt(ofProgram!.endTimeUnixNano)).toBeGreaterThan(BigInt(ofProgram!.startTimeUnixNano))
  expect(ofProgram!.attributes).not.toHaveProperty(['error.type'])
  expect(failed).toMatchObject({ status: { code: 2 }, attributes: { 'error.type': expect.any(String) } })
  expect(failed!.attributes).not.toHaveProperty(['gen_ai.usage.input_tokens'])
  expect(ofAgent).toMatchObject({
    traceId: expect.stringMatching(/^[0-9a-f]{32}$/),
    attributes: { 'castellan.source': 'agent', 'castellan.run.id': execution_id, 'gen_ai.operation.name': 'chat' },
  })
})

const interaction = (id: string): StoredInteraction => ({
  ...{ id, tenant: localOwner.tenant, owner: 'owner', actor: 'owner', authenticatedBy: 'local_owner' },
  ...{ userId: null, keyId: null, virtualKeyId: null, teams: [], source: 'proxy', proxyId: null, agentId: null },
  ...{ runId: null, provider: 'peer', protocol: 'gemini', operation: 'generate', requestedModel: 'm', usedModel: null },
  ...{ isStream: false, outcome: 'cut_off', httpStatus: null, errorCode: null, tokens: null, isEstimated: false },
  ...{ costNanodollars: null, startedAtMs: 1_700_000_000_000, firstTokenMs: null, durationMs: 1.5 },
  ...{ requestBytes: 0, answerBytes: 0, decisions: [], labels: {} },
})

/** An exporter to this address, and what it tells the operator. */
function exporterTo(endpoint: string, more: Partial<OtlpSettings> = {}) {
  const told: Record<string, unknown>[] = []
  const logger = { ...silentLogger, warn: (_: string, fields = {}) => void told.push(fields) }
  const exporter = createOtlpExporter({ endpoint, headers: () => ({}), version: '1', logger, ...more })
  const addAll = (count: number) => {
    for (let index = 0; index < count; index++) exporter.add(interaction(`ix-${index}`))
  }
  return { exporter, told, addAll }
}
const atOnce = { 'retry-after': '0' }

it('what a collector cannot take now is sent again, and is the same span', async () => {
  const statuses = [503, 429, 200]
  await using collector = await startOtlpCollector((response, position) =>
    response.writeHead(statuses[position]!, atOnce).end('{}'),
  )
  const { exporter, told, addAll } = exporterTo(collector.url)
  addAll(limits.otlpBatchMax)
  await expect.poll(() => collector.seen.length).toBe(3)
  await exporter.close()
  expect(collector.seen[2]!.spans).toEqual(collector.seen[0]!.spans)
  expect(collector.seen[0]!.spans[0]).toMatchObject({
    ...{ name: 'generate_content m', startTimeUnixNano: '1700000000000000000', endTimeUnixNano: '1700000000001500000' },
    attributes: { 'gen_ai.provider.name': 'gcp.gemini', 'error.type': 'cut_off' },
  })
  expect(told).toEqual([])
})

type Refusal = Readonly<{
  answer: Parameters<typeof startOtlpCollector>[0]
  requests: number
  lost: number
  reason: string
}>
const all = limits.otlpBatchMax
const refusals: Readonly<Record<string, Refusal>> = {
  'a refusal': {
    answer: (response) => response.writeHead(400).end('{}'),
    ...{ requests: 1, lost: all, reason: 'the collector answered 400' },
  },
  'a redirection': {
    answer: (response) => response.writeHead(307, { location: '/other' }).end(),
    ...{ requests: 1, lost: all, reason: 'the collector answered 307' },
  },
  'a failure that lasts': {
    answer: (response) => response.writeHead(500, atOnce).end(),
    ...{ requests: limits.otlpTriesMax, lost: all, reason: 'the collector answered 500' },
  },
  'spans that are rejected among others': {
    answer: (response) => response.end('{"partialSuccess":{"rejectedSpans":"2"}}'),
    ...{ requests: 1, lost: 2, reason: 'the collector rejected them' },
  },
}
it.each(Object.entries(refusals))('of %s the operator is told', async (_, { answer, requests, lost, reason }) => {
  await using collector = await startOtlpCollector(answer)
  const { exporter, told, addAll } = exporterTo(collector.url)
  expect(exporter.problem()).toBeUndefined()
  addAll(all)
  await expect.poll(() => told.length).toBe(1)
  expect(exporter.problem()).toContain(`${reason}. ${lost} spans were lost`)
  await exporter.close()
  expect(told).toEqual([{ count: lost, count_since_start: lost, reason }])
  expect(collector.seen).toHaveLength(requests)
})

it('only so many wait for a collector that does not answer, and the program ends all the same', async () => {
  await using collector = await startOtlpCollector(() => {})
  const { exporter, told, addAll } = exporterTo(collector.url, { pendingMax: 2, closeMs: 100 })
  addAll(5)
  await exporter.close()
  expect(told).toEqual([
    expect.objectContaining({ count: 3, reason: 'too many waited for the collector' }),
    expect.objectContaining({ count: 2, count_since_start: 5 }),
  ])
  exporter.add(interaction('late'))
  await exporter.close()
  expect(told.at(-1)).toMatchObject({ count: 1, reason: 'the program ended' })
})

it('a collector that is not there loses spans and nothing else', async () => {
  const { exporter, told, addAll } = exporterTo('http://127.0.0.1:9')
  addAll(1)
  await exporter.close()
  expect(told).toMatchObject([{ count: 1, reason: expect.stringMatching(/^the collector cannot be reached: /) }])
})
