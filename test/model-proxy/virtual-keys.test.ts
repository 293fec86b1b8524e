import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { answerChat, type ModelPeer, startModelPeer } from '../support/model-peer.ts'
import { castellanJson, newPerson, type Row, signIn } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ScriptedModel, startScriptedModel } from '../support/scripted-model.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** Keys for models, through the real program, with the packages of the providers. */
let peer: Awaited<ReturnType<typeof startModelPeer>>
let scripted: ScriptedModel
let server: ServerHere
let origin: string
let ann: string

beforeAll(async () => {
  peer = await startModelPeer()
  scripted = await startScriptedModel(() => ({ text: 'Hello.' }))
  const dataDir = newDataDir()
  mkdirSync(dataDir, { recursive: true })
  const models = [{ alias: 'default', model: 'm', input_cost_per_million: 0, output_cost_per_million: 10 }]
  const providers = [
    { name: 'peer', type: 'openai-compatible', endpoint: peer.url, models },
    { name: 'anthropic', type: 'anthropic', endpoint: `${scripted.url}/v1`, models: [{ alias: 'a', model: 'm' }] },
    { name: 'gemini', type: 'gemini', endpoint: `${scripted.url}/v1beta`, models: [{ alias: 'g', model: 'm' }] },
  ]
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers }, limits: { wait_ms: 0 } }))
  server = { ...(await startServerHere({ dataDir })), dataDir }
  origin = new URL(server.url).origin
  ann = await signIn(server, await newPerson(server, 'ann@example.com'))
})
afterAll(async () => {
  await server.stop()
  await scripted.stop()
  peer.close()
})
beforeEach(() => {
  peer.answer = answerChat
})

type Key = Readonly<{ id: string; secret: string; name: string; status: string }>

async function tool<T = Row>(name: string, args: object = {}, headers: Record<string, string> = {}): Promise<T> {
  const reply = await fetch(`${origin}/v1/tools/${name}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin, ...headers },
    body: JSON.stringify(args),
  })
  return (await reply.json()) as T
}
let made = 0
const newKey = (more: object = {}, headers: Record<string, string> = {}) =>
  tool<Key>('virtual_key_create', { name: `key-${made++}`, ...more }, headers)
const asAnn = () => ({ cookie: ann })

const openai = (apiKey: string, path = 'peer') => new OpenAI({ apiKey, baseURL: `${origin}/v1/${path}`, maxRetries: 0 })
const messages = [{ role: 'user' as const, content: 'Hi' }]
const ask = (apiKey: string, { model = 'm', path = 'peer' } = {}) =>
  openai(apiKey, path).chat.completions.create({ model, messages, max_tokens: 100 })

describe('a virtual key', () => {
  it('says what it allows where it refuses a provider or a model', async () => {
    const { secret } = await newKey({ providers: ['peer'], models: ['m', 'n-*'] })
    const refusal = async (path: string, model: string | undefined): Promise<string> => {
      const body = JSON.stringify({ model, messages })
      const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
      const reply = await fetch(`${origin}/v1/${path}`, { method: 'POST', headers, body })
      expect(reply.status).toBe(403)
      return ((await reply.json()) as { error: { message: string } }).error.message
    }
    expect(await refusal('anthropic/v1/messages', 'm')).toBe(
      "This key does not allow the provider 'anthropic'. It allows: peer.",
    )
    expect(await refusal('peer/chat/completions', 'other')).toBe(
      'model: this key does not allow this model. It allows: m, n-*.',
    )
    expect(await refusal('peer/chat/completions', undefined)).toBe(
      'model: is missing, and this key allows only some models. It allows: m, n-*.',
    )
  })

  it('reaches models with the packages of the providers, and nothing else; the provider never sees it', async () => {
    const { secret, id } = await newKey()
    expect(secret).toMatch(/^cvk_/)
    expect((await ask(secret)).choices[0]!.message.content).toBe('Hello.')
    expect(JSON.stringify(peer.requests.at(-1)!.headers)).not.toContain('cvk_')
    const stream = await openai(secret).chat.completions.create({ model: 'm', messages, stream: true })
    let text = ''
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ''
    expect(text).toBe('Hello.')
    const claude = new Anthropic({ apiKey: secret, baseURL: `${origin}/v1/anthropic`, maxRetries: 0 })
    expect(await claude.messages.create({ model: 'm', max_tokens: 10, messages })).toMatchObject({ role: 'assistant' })
    const gemini = new GoogleGenAI({ apiKey: secret, httpOptions: { baseUrl: `${origin}/v1/gemini` } })
    expect((await gemini.models.generateContent({ model: 'm', contents: 'Hi' })).text).toBe('Hello.')
    for (const headers of [{ authorization: `Bearer ${secret}` }, { 'x-api-key': secret }]) {
      expect(await tool('task_list', {}, headers)).toMatchObject({ error: { code: 'ERR_UNAUTHENTICATED' } })
    }
    const listed = await tool<{ keys: Row[] }>('virtual_key_list')
    expect(listed.keys.find((key) => key['id'] === id)).toMatchObject({ status: 'live', scope: 'personal' })
    expect(JSON.stringify(listed)).not.toContain(secret)
  })

  it('is for the proxies, providers and models that it names', async () => {
    await tool('create_llm_proxy', { name: 'Research' })
    const { secret } = await newKey({ proxies: ['research'], providers: ['peer'], models: ['gpt-5*', 'peer:m'] })
    await ask(secret, { path: 'peer/research' })
    await ask(secret, { path: 'peer/research', model: 'gpt-5-mini' })
    await ask(secret, { path: 'model-router/research', model: 'peer:m' })
    for (const [path, model] of [
      ['peer/research', 'gpt-4'],
      ['peer', 'm'],
      ['openai/research', 'gpt-5'],
      ['model-router/research', 'openai:gpt-5'],
    ] as const) {
      await expect(ask(secret, { path, model }), `${path} ${model}`).rejects.toMatchObject({
        status: 403,
        code: 'ERR_PERMISSION_DENIED',
      })
    }
    const routed = await openai(secret, 'model-router/research').models.list()
    expect(routed.data.map(({ id }) => id)).toEqual(['peer:m'])
    expect(await newKey({ providers: ['nobody'] })).toMatchObject({ error: { code: 'ERR_NOT_FOUND' } })
    expect(await newKey({ proxies: ['nowhere'] })).toMatchObject({ error: { code: 'ERR_NOT_FOUND' } })
  })

  it('has a budget of its own', async () => {
    const { secret, id } = await newKey()
    const limit = { entity_type: 'virtual_key', entity_id: id, limit_type: 'token_cost', limit_value: 0.00105 }
    expect(await tool('create_limit', limit)).toMatchObject({ limit: { entityId: id } })
    await ask(secret)
    await expect(ask(secret)).rejects.toMatchObject({ status: 402, code: 'ERR_LIMIT_EXCEEDED' })
    await ask((await newKey()).secret)
  })

  it('that is rotated works with its new secret alone', async () => {
    const before = await newKey()
    const after = await tool<Key>('virtual_key_rotate', { key: before.name })
    expect(after).toMatchObject({ id: before.id })
    await ask(after.secret)
    await expect(ask(before.secret)).rejects.toMatchObject({ status: 401 })
  })

  it('that expires or is unknown is refused in the same words', async () => {
    const { secret } = await newKey()
    const wrong = `${secret.slice(0, -3)}AAA`
    const refusals = new Set<string>()
    for (const key of [wrong, secret.replace(/^cvk_......../, 'cvk_00000000'), 'cvk_short']) {
      await ask(key).catch((error: { status: number; message: string }) =>
        refusals.add(`${error.status} ${error.message}`),
      )
    }
    expect([...refusals]).toEqual([expect.stringMatching(/^401 /)])
    expect(await newKey({ expires_in: '0s' })).toMatchObject({ error: { code: 'ERR_INVALID_INPUT' } })
  })
})

/** A request that the provider has started to answer. */
async function streaming(secret: string) {
  const started = Promise.withResolvers<ModelPeer['requests'][number]>()
  peer.answer = (request) => {
    request.response.writeHead(200, { 'content-type': 'text/event-stream' })
    request.response.write('data: {"choices":[{"index":0,"delta":{"content":"Once"}}]}\n\n')
    started.resolve(request)
  }
  const stream = await openai(secret).chat.completions.create({ model: 'm', messages, stream: true })
  const { response } = await started.promise
  const upstreamEnded = new Promise<void>((resolve) => response.once('close', resolve))
  const ended = (async () => {
    for await (const chunk of stream) expect(chunk.choices).toHaveLength(1)
  })().catch((error: unknown) => error)
  return { ended, upstreamEnded }
}

describe('what is under way with a virtual key', () => {
  it('ends at once when the key is revoked', async () => {
    const { secret, id } = await newKey()
    const { ended, upstreamEnded } = await streaming(secret)
    expect(await tool('virtual_key_revoke', { key: id })).toMatchObject({ status: 'revoked' })
    expect(await ended).toBeInstanceOf(Error)
    await upstreamEnded
    await expect(ask(secret)).rejects.toMatchObject({ status: 401 })
    expect(await tool('virtual_key_revoke', { key: id })).toMatchObject({ status: 'revoked' })
    expect(await tool('virtual_key_rotate', { key: id })).toMatchObject({ error: { code: 'ERR_INVALID_INPUT' } })
  })

  it('ends for a key of the organisation too', async () => {
    const { secret, id } = await newKey({ scope: 'org' })
    const { ended } = await streaming(secret)
    await tool('virtual_key_revoke', { key: id })
    expect(await ended).toBeInstanceOf(Error)
  })

  it('ends at once with the last team whose key it is, and not with another', async () => {
    for (const name of ['owls', 'larks']) await tool('user_team_create', { name })
    const { secret, id } = await newKey({ teams: ['owls', 'larks'] })
    const { ended, upstreamEnded } = await streaming(secret)
    let isOver = false
    void ended.then(() => {
      isOver = true
    })
    await tool('user_team_delete', { team: 'larks' })
    await expect.poll(() => tool('virtual_key_get', { key: id })).toMatchObject({ teams: [{ name: 'owls' }] })
    expect(isOver).toBe(false)
    await tool('user_team_delete', { team: 'owls' })
    expect(await ended).toBeInstanceOf(Error)
    await upstreamEnded
    await expect(ask(secret)).rejects.toMatchObject({ status: 401 })
    expect(await tool('virtual_key_get', { key: id })).toMatchObject({ status: 'ownerless' })
  })

  it('ends with the user whose key it is, who is gone', async () => {
    const bob = await signIn(server, await newPerson(server, 'bob@example.com'))
    const { secret, id } = await newKey({}, { cookie: bob })
    const { ended, upstreamEnded } = await streaming(secret)
    await castellanJson(server, ['users', 'delete', 'bob@example.com'])
    expect(await ended).toBeInstanceOf(Error)
    await upstreamEnded
    await expect(ask(secret)).rejects.toMatchObject({ status: 401 })
    expect(await tool('virtual_key_get', { key: id })).toMatchObject({ status: 'ownerless' })
  })
})

describe('who has virtual keys', () => {
  it('a member makes, sees and revokes its own, and shares none', async () => {
    const { id, secret } = await newKey({}, asAnn())
    const others = await newKey()
    await ask(secret)
    const listed = await tool<{ keys: Row[] }>('virtual_key_list', {}, asAnn())
    expect(listed.keys.filter((key) => key['scope'] === 'personal').map((key) => key['id'])).toEqual([id])
    expect(await newKey({ scope: 'org' }, asAnn())).toMatchObject({ error: { code: 'ERR_PERMISSION_DENIED' } })
    const hidden = await tool('virtual_key_get', { key: others.id }, asAnn())
    const missing = await tool('virtual_key_get', { key: 'vkey_none' }, asAnn())
    expect(JSON.stringify(hidden).replaceAll(others.id, 'vkey_none')).toBe(JSON.stringify(missing))
    expect(await tool('virtual_key_revoke', { key: id }, asAnn())).toMatchObject({ status: 'revoked' })
  })

  it('a key of a team belongs to the team and is bounded by its budget', async () => {
    const team = await tool<{ id: string }>('user_team_create', { name: 'design' })
    const { secret, ...key } = await newKey({ teams: ['design'] })
    expect(key).toMatchObject({ scope: 'team', teams: [{ id: team.id, name: 'design' }] })
    const limit = { entity_type: 'team', entity_id: 'design', limit_type: 'token_cost', limit_value: 0.00105 }
    await tool('create_limit', limit)
    await ask(secret)
    await expect(ask(secret)).rejects.toMatchObject({ status: 402 })
    await tool('user_team_delete', { team: 'design' })
    await expect.poll(() => ask(secret).catch((error: { status: number }) => error.status)).toBe(401)
  })

  it('the log tells which key a request came with', async () => {
    const { secret, id } = await newKey()
    await ask(secret)
    await expect
      .poll(() => {
        using db = new DatabaseSync(join(server.dataDir, 'castellan.db'), { readOnly: true })
        return db
          .prepare('SELECT record FROM log_entries')
          .all()
          .some(({ record }) => String(record).includes(`"virtual_key":"${id}"`))
      })
      .toBe(true)
  })
})

it('who tries many keys is slowed and recorded, and a good key from there works', async () => {
  const { secret } = await newKey()
  const wrong = (turn: number) => `cvk_${String(turn).padStart(8, '0')}_${'A'.repeat(43)}`
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, turn) =>
      ask(wrong(turn)).catch((error: { status: number; headers: Headers }) => ({
        status: error.status,
        after: error.headers.get('retry-after'),
      })),
    ),
  )
  expect(new Set(answers.map((answer) => ('status' in answer ? answer.status : 200)))).toEqual(new Set([401, 429]))
  expect(answers.at(-1)).toEqual({ status: 429, after: '60' })
  expect((await ask(secret)).choices).toHaveLength(1)
  await expect
    .poll(async () => (await tool<{ attempts: Row[] }>('sign_in_list')).attempts)
    .toContainEqual(expect.objectContaining({ outcome: 'slowed', address: '127.0.0.1' }))
})
