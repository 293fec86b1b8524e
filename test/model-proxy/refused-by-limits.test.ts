import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { newDataDir } from '../support/real-server.ts'
import { type ScriptedModel, startScriptedModel } from '../support/scripted-model.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** What programs learn of a limit that refuses them, with the packages of the providers and their default of retries. */
let model: ScriptedModel
let server: ServerHere
let origin: string
let limitId: string

beforeAll(async () => {
  model = await startScriptedModel(() => ({ text: 'never' }))
  const dataDir = newDataDir()
  mkdirSync(dataDir, { recursive: true })
  const provider = (name: string, type: string, path: string, alias: string) => ({
    ...{ name, type, endpoint: `${model.url}${path}` },
    models: [{ alias, model: 'm', input_cost_per_million: 1, output_cost_per_million: 10 }],
  })
  const providers = [
    provider('first', 'openai', '/v1', 'default'),
    provider('second', 'anthropic', '/v1', 'b'),
    provider('third', 'gemini', '/v1beta', 'c'),
  ]
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers }, limits: { wait_ms: 0 } }))
  server = await startServerHere({ dataDir })
  origin = new URL(server.url).origin
  const entity = { entity_type: 'organization', entity_id: 'local', limit_type: 'token_cost' }
  const made = await tool<{ limit: { id: string } }>('create_limit', { ...entity, limit_value: 0.0001 })
  limitId = made.limit.id
})
afterAll(async () => {
  await server.stop()
  await model.stop()
})

async function tool<T>(name: string, args: object): Promise<T> {
  const response = await fetch(`${origin}/v1/tools/${name}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(args),
  })
  return (await response.json()) as T
}
const failureOf = (asked: Promise<unknown>): Promise<unknown> =>
  asked.then(
    () => undefined,
    (error: unknown) => error,
  )
const refusals = async (session: string) =>
  (await tool<{ interactions: object[] }>('interaction_list', { session, outcome: 'refused' })).interactions.length

const time = expect.stringMatching(/^\d{4}-\d{2}-\d{2}T[\d:.]+Z$/)
const details = () => ({
  limit_id: limitId,
  limit_type: 'token_cost',
  entity_type: 'organization',
  limit_value: 0.0001,
  remaining: 0.0001,
  needed: expect.any(Number),
  resets_at: time,
})
const headersAre = (headers: Headers): void => {
  expect(headers.get('x-castellan-limit-id')).toBe(limitId)
  expect(headers.get('x-castellan-limit-remaining')).toBe('0.0001')
  expect(headers.get('x-castellan-limit-resets-at')).toEqual(time)
  expect(headers.get('x-should-retry')).toBe('false')
}

it.each(['openai', 'model-router'])('the package openai sees which limit refuses it, through %s', async (address) => {
  const defaultHeaders = { 'x-castellan-session-id': address }
  const client = new OpenAI({ baseURL: `${origin}/v1/${address}`, apiKey: 'castellan', defaultHeaders })
  const name = address === 'openai' ? 'm' : 'second:m'
  const ask = { model: name, messages: [{ role: 'user' as const, content: 'hi' }], max_tokens: 100 }
  const error = await failureOf(client.chat.completions.create(ask))
  expect(error).toBeInstanceOf(OpenAI.APIError)
  expect(error).toMatchObject({
    status: 402,
    code: 'ERR_LIMIT_EXCEEDED',
    type: 'insufficient_quota',
    error: { castellan: { code: 'ERR_LIMIT_EXCEEDED', details: details() } },
  })
  headersAre((error as { headers: Headers }).headers)
  expect(await refusals(address)).toBe(1)
})

it('the package @anthropic-ai/sdk sees which limit refuses it', async () => {
  const defaultHeaders = { 'x-castellan-session-id': 'second' }
  const client = new Anthropic({ baseURL: `${origin}/v1/anthropic`, apiKey: 'castellan', defaultHeaders })
  const ask = { model: 'm', max_tokens: 100, messages: [{ role: 'user' as const, content: 'hi' }] }
  const error = await failureOf(client.messages.stream(ask).finalMessage())
  expect(error).toBeInstanceOf(Anthropic.APIError)
  expect(error).toMatchObject({
    status: 402,
    error: {
      type: 'error',
      error: { type: 'billing_error', castellan: { code: 'ERR_LIMIT_EXCEEDED', details: details() } },
    },
  })
  headersAre((error as { headers: Headers }).headers)
  expect(await refusals('second')).toBe(1)
})

it('the package @google/genai sees which limit refuses it', async () => {
  const httpOptions = { baseUrl: `${origin}/v1/gemini`, headers: { 'x-castellan-session-id': 'third' } }
  const client = new GoogleGenAI({ apiKey: 'castellan', httpOptions })
  const ask = { model: 'm', contents: 'hi', config: { maxOutputTokens: 100 } }
  const error = await failureOf(client.models.generateContent(ask))
  expect(error).toMatchObject({ name: 'ApiError', status: 402 })
  const { error: told } = JSON.parse((error as Error).message) as { error: Record<string, unknown> }
  expect(told).toMatchObject({
    code: 402,
    status: 'FAILED_PRECONDITION',
    details: [{ reason: 'ERR_LIMIT_EXCEEDED', domain: 'castellan' }],
  })
  // Members of an ErrorInfo are texts.
  const [{ metadata }] = told['details'] as [{ metadata: Record<string, unknown> }]
  expect(metadata).toMatchObject({ limit_id: limitId, remaining: '0.0001', resets_at: time })
  expect(Object.values(metadata).every((value) => typeof value === 'string')).toBe(true)
  expect(await refusals('third')).toBe(1)
})
