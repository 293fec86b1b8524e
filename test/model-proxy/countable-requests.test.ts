import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { newDataDir } from '../support/real-server.ts'
import { type ScriptedModel, startScriptedModel } from '../support/scripted-model.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** What a request may not say if its cost, or its model, is limited. */
let model: ScriptedModel
let server: ServerHere
let origin: string
let limited: string
let oneModel: string

beforeAll(async () => {
  model = await startScriptedModel(() => ({ text: 'Hello.', tokens: { input: 1, output: 1 } }))
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
  const key = (name: string, more: object) =>
    tool<{ id: string; secret: string }>('virtual_key_create', { name, scope: 'org', ...more })
  const counted = await key('counted', {})
  limited = counted.secret
  oneModel = (await key('one-model', { models: ['m'] })).secret
  await tool('create_limit', {
    ...{ entity_type: 'virtual_key', entity_id: counted.id, limit_type: 'token_cost', limit_value: 1 },
  })
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
const chat = (apiKey: string, more: object) =>
  new OpenAI({ apiKey, baseURL: `${origin}/v1/openai`, maxRetries: 0 }).chat.completions.create({
    ...{ model: 'm', messages: [{ role: 'user' as const, content: 'hi' }] },
    ...more,
  })
const respond = (apiKey: string, more: object) =>
  new OpenAI({ apiKey, baseURL: `${origin}/v1/openai`, maxRetries: 0 }).responses.create({
    ...{ model: 'm', input: 'hi' },
    ...more,
  })
const message = (apiKey: string, more: object) =>
  new Anthropic({ apiKey, baseURL: `${origin}/v1/anthropic`, maxRetries: 0 }).messages.create({
    ...{ model: 'm', max_tokens: 9, messages: [{ role: 'user' as const, content: 'hi' }] },
    ...more,
  })
const generate = (apiKey: string, config: object) =>
  new GoogleGenAI({ apiKey, httpOptions: { baseUrl: `${origin}/v1/gemini` } }).models.generateContent({
    ...{ model: 'm', contents: 'hi', config },
  })

it.each([0, '1', 1e-9, 1.5, -1, {}, true])(
  'a number of tokens that is %j is refused where the cost is limited',
  async (odd) => {
    const before = model.requests.length
    const refusals: [() => Promise<unknown>, string][] = [
      [() => chat(limited, { max_tokens: odd }), 'max_tokens: must be a positive whole number'],
      [() => chat(limited, { max_completion_tokens: odd }), 'max_completion_tokens: must be'],
      [() => chat(limited, { n: odd, max_tokens: 9 }), 'n: must be'],
      [() => respond(limited, { max_output_tokens: odd }), 'max_output_tokens: must be'],
      [() => message(limited, { max_tokens: odd }), 'max_tokens: must be'],
    ]
    if (odd !== '1')
      refusals.push([() => generate(limited, { maxOutputTokens: odd }), 'generationConfig.maxOutputTokens: must be'])
    for (const [asked, text] of refusals)
      await expect(asked()).rejects.toMatchObject({ status: 400, message: expect.stringContaining(text) })
    expect(model.requests).toHaveLength(before)
  },
)

it('no bound at all is not an odd one', async () => {
  await chat(limited, { max_tokens: null })
  await respond(limited, { max_output_tokens: null })
  await chat(limited, { max_tokens: 1, n: 1 })
  await generate(limited, { maxOutputTokens: 5 })
})

it('what is dearer than the usual price is refused where the cost is limited', async () => {
  const before = model.requests.length
  for (const service_tier of ['priority', 'Priority', 'scale', 1]) {
    for (const asked of [() => chat(limited, { service_tier }), () => respond(limited, { service_tier })])
      await expect(asked()).rejects.toMatchObject({
        status: 400,
        message: expect.stringContaining('service_tier: must be one of'),
      })
  }
  await expect(message(limited, { speed: 'fast' })).rejects.toMatchObject({ status: 400 })
  expect(model.requests).toHaveLength(before)
  for (const service_tier of ['auto', 'default', 'flex', null]) await chat(limited, { service_tier })
})

it.each(['models', 'route', 'provider', 'transforms', 'preset', 'fallbacks'])(
  'the field %s of routers is refused for a key of some models, and where the cost is limited',
  async (field) => {
    const before = model.requests.length
    for (const key of [oneModel, limited]) {
      for (const asked of [() => chat(key, { [field]: ['other'] }), () => message(key, { [field]: ['other'] })])
        await expect(asked()).rejects.toMatchObject({
          status: 400,
          message: expect.stringContaining(`${field}: with it, the p`),
        })
    }
    await expect(chat(oneModel, { [field.toUpperCase()]: ['other'] })).rejects.toMatchObject({ status: 400 })
    expect(model.requests).toHaveLength(before)
    await chat(oneModel, { [field]: null })
  },
)

it('without such limits, the provider decides', async () => {
  await chat('castellan', { models: ['other'], service_tier: 'priority', max_tokens: 0 })
})
