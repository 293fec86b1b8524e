import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest'
import { runCastellanHere } from '../support/castellan-here.ts'
import { dialects } from '../support/databases.ts'
import { agentYaml } from '../support/executions.ts'
import { answerChat, type PeerRequest, startModelPeer } from '../support/model-peer.ts'
import { castellanJson, newPerson, type Row, signIn } from '../support/people.ts'
import { createDatabase } from '../support/postgres.ts'
import { newDataDir, startRealServer } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

const messages = [{ role: 'user' as const, content: 'Hi' }]

/** As Anthropic and OpenAI answer, by the address. */
function answerBoth(request: PeerRequest): void {
  if (!request.url.endsWith('/messages')) {
    answerChat(request)
    return
  }
  const message = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [{ type: 'text', text: 'Hello.' }],
  }
  const usage = { input_tokens: 10, output_tokens: 10 }
  request.response.writeHead(200, { 'content-type': 'application/json' })
  request.response.end(JSON.stringify({ ...message, stop_reason: 'end_turn', stop_sequence: null, usage }))
}

/** What the peer was shown last. */
const shown = ({ headers }: PeerRequest): string | undefined =>
  headers['x-api-key']?.toString() ?? headers.authorization?.replace('Bearer ', '')

function configure(peerUrl: string, more: object = {}): string {
  const dataDir = newDataDir()
  const price = { input_cost_per_million: 1, output_cost_per_million: 10 }
  const providers = [
    {
      ...{ name: 'peer', type: 'openai-compatible', endpoint: peerUrl, api_key: 'env:PROVIDER_KEYS_TEST' },
      models: [{ alias: 'default', model: 'm', ...price }],
    },
    { name: 'claude', type: 'anthropic', endpoint: peerUrl, models: [{ alias: 'c', model: 'm', ...price }] },
  ]
  const config = { models: { providers, max_retries: 0 }, rate_limits: { enabled: false }, ...more }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
  return dataDir
}

let peer: Awaited<ReturnType<typeof startModelPeer>>
beforeAll(async () => {
  process.env['PROVIDER_KEYS_TEST'] = 'sk-operator'
  peer = await startModelPeer()
  peer.answer = answerBoth
})
afterAll(() => {
  peer.close()
  delete process.env['PROVIDER_KEYS_TEST']
})

const toolsOf =
  (origin: () => string, heard: string[] = []) =>
  async <T = Row>(name: string, args: object = {}, headers: Record<string, string> = {}): Promise<T> => {
    const reply = await fetch(`${origin()}/v1/tools/${name}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin: origin(), ...headers },
      body: JSON.stringify(args),
    })
    const text = await reply.text()
    heard.push(text)
    return JSON.parse(text) as T
  }

describe.each(dialects)('stored keys of providers, with %s', (dialect) => {
  let server: ServerHere
  let origin: string
  /** Headers of a person, and a virtual key of theirs. */
  let ann: Record<string, string>
  let bob: Record<string, string>
  const virtual = { ann: '', bob: '', owner: '' }
  /** A key of its own: who reads the texts of models governs nothing afterwards. */
  let reader: Record<string, string>
  const heard: string[] = []
  const tool = toolsOf(() => origin, heard)

  beforeAll(async () => {
    const database_url = dialect === 'SQLite' ? {} : { database_url: await createDatabase(inject('postgresUrl')) }
    const dataDir = configure(peer.url, database_url)
    server = { ...(await startServerHere({ dataDir })), dataDir }
    origin = new URL(server.url).origin
    const person = async (email: string) => ({
      cookie: await signIn(server, await newPerson(server, email, ['--role', 'editor'])),
    })
    ann = await person('ann@example.com')
    bob = await person('bob@example.com')
    const { secret } = await tool<{ secret: string }>('api_key_create', { name: 'reader', role: 'admin' })
    reader = { authorization: `Bearer ${secret}` }
    await tool('user_team_create', { name: 'design', members: ['ann@example.com'] })
    ann = { cookie: await signIn(server, { email: 'ann@example.com', password: 'correct horse battery staple' }) }
    for (const [name, headers] of Object.entries({ ann, bob, owner: {} })) {
      virtual[name as 'ann'] = (
        await tool<{ secret: string }>('virtual_key_create', { name: `of-${name}` }, headers)
      ).secret
    }
  })
  afterAll(() => server.stop())
  afterEach(async () => {
    const { keys } = await tool<{ keys: { id: string }[] }>('provider_key_list')
    for (const { id } of keys) await tool('provider_key_delete', { key: id })
  })

  const store = (name: string, more: object = {}, headers: Record<string, string> = {}) =>
    tool<{ id: string }>('provider_key_create', { name, provider: 'peer', secret: `sk-${name}`, ...more }, headers)
  const openai = (apiKey: string, path = 'peer') =>
    new OpenAI({ apiKey, baseURL: `${origin}/v1/${path}`, maxRetries: 0 })
  /** The key that the provider was shown for a request with a credential of ours. */
  const paying = async (apiKey: string, path = 'peer', model = 'm'): Promise<string | undefined> => {
    await openai(apiKey, path).chat.completions.create({ model, messages })
    return shown(peer.requests.at(-1)!)
  }
  const payingClaude = async (apiKey: string, path = 'anthropic'): Promise<string | undefined> => {
    const claude = new Anthropic({ apiKey, baseURL: `${origin}/v1/${path}`, maxRetries: 0 })
    await claude.messages.create({ model: 'm', max_tokens: 10, messages })
    return shown(peer.requests.at(-1)!)
  }
  const scopeOfLast = async (): Promise<unknown> => {
    const { interactions } = await tool<{ interactions: { id: string }[] }>('interaction_list', { limit: 1 }, reader)
    const { interaction } = await tool<{ interaction: Row }>('interaction_get', { id: interactions[0]!.id }, reader)
    return interaction['provider_key']
  }

  it('one’s own comes before that of a team, of the organisation and of the operator, and stops at once', async () => {
    expect(await paying(virtual.ann)).toBe('sk-operator')
    expect(await scopeOfLast()).toBe('configuration')
    expect(await paying(virtual.ann, 'model-router', 'peer:m')).toBe('sk-operator')
    const org = await store('org', { scope: 'org' })
    expect(await paying(virtual.ann)).toBe('sk-org')
    expect(await scopeOfLast()).toBe('org')
    const team = await store('team', { teams: ['design'] }, ann)
    expect(team).toMatchObject({ scope: 'team', teams: [{ name: 'design' }], status: 'live' })
    expect([await paying(virtual.ann), await paying(virtual.bob)]).toEqual(['sk-team', 'sk-org'])
    const own = await store('own', {}, ann)
    expect(await paying(virtual.ann)).toBe('sk-own')
    expect(await scopeOfLast()).toBe('personal')
    expect(await paying(virtual.ann, 'model-router', 'peer:m')).toBe('sk-own')
    // Who administers all keys uses their own alone.
    expect([await paying(virtual.bob), await paying(virtual.owner)]).toEqual(['sk-org', 'sk-org'])
    expect(
      await openai(virtual.ann)
        .models.list()
        .catch(() => undefined)
        .then(() => shown(peer.requests.at(-1)!)),
    ).toBe('sk-own')
    await tool('provider_key_rotate', { key: own.id, secret: 'sk-own-new' }, ann)
    expect(await paying(virtual.ann)).toBe('sk-own-new')
    for (const [key, next] of [
      [own, 'sk-team'],
      [team, 'sk-org'],
      [org, 'sk-operator'],
    ] as const) {
      expect(await tool('provider_key_delete', { key: key.id })).toEqual({ id: key.id, deleted: true })
      expect(await paying(virtual.ann)).toBe(next)
    }
  })

  it('a provider is known by its name, and the first of a type by that of the type', async () => {
    expect(await payingClaude(virtual.bob)).toBeUndefined()
    const key = await store('by-type', { provider: 'anthropic' }, bob)
    expect([await payingClaude(virtual.bob), await payingClaude(virtual.bob, 'claude')]).toEqual([
      'sk-by-type',
      'sk-by-type',
    ])
    await tool('provider_key_delete', { key: key.id }, bob)
    expect(await store('nowhere', { provider: 'nobody' })).toMatchObject({ error: { code: 'ERR_NOT_FOUND' } })
  })

  it('of several the primary one pays, otherwise the oldest', async () => {
    const first = await store('first', {}, bob)
    const second = await store('second', {}, bob)
    expect(await paying(virtual.bob)).toBe('sk-first')
    const updated = await tool('provider_key_update', { key: 'second', name: 'preferred', primary: true }, bob)
    expect(updated).toMatchObject({ id: second.id, name: 'preferred', primary: true })
    expect(await paying(virtual.bob)).toBe('sk-second')
    await tool('provider_key_update', { key: first.id, primary: true }, bob)
    expect(await paying(virtual.bob)).toBe('sk-first')
    expect(await store('first', {}, bob)).toMatchObject({ error: { code: 'ERR_ALREADY_EXISTS' } })
    for (const { id } of [first, second]) await tool('provider_key_delete', { key: id }, bob)
  })

  it('nobody else uses, sees or changes it', async () => {
    const own = await store('hidden', {}, ann)
    const { secret: foreign } = await castellanJson(server, [
      'keys',
      'create',
      'agent',
      '--tenant',
      'other',
      '--role',
      'admin',
    ])
    const elsewhere = { authorization: `Bearer ${String(foreign)}` }
    expect([await paying(virtual.bob), await paying(String(foreign))]).toEqual(['sk-operator', 'sk-operator'])
    for (const headers of [bob, elsewhere]) {
      expect(JSON.stringify(await tool('provider_key_list', {}, headers))).not.toContain('hidden')
      for (const [name, more] of [
        ['delete', {}],
        ['update', { name: 'x' }],
        ['rotate', { secret: 'sk-x' }],
      ] as const) {
        const [theirs, none] = await Promise.all(
          [own.id, 'pkey_none'].map((key) => tool(`provider_key_${name}`, { key, ...more }, headers)),
        )
        expect(JSON.stringify(theirs).replaceAll(own.id, 'pkey_none')).toBe(JSON.stringify(none))
      }
    }
    expect(await store('too-far', { scope: 'org' }, ann)).toMatchObject({ error: { code: 'ERR_PERMISSION_DENIED' } })
    expect(await store('not-mine', { teams: ['design'] }, bob)).toMatchObject({
      error: { code: 'ERR_PERMISSION_DENIED' },
    })
    const org = await store('of-all', { scope: 'org' })
    expect(await tool('provider_key_delete', { key: org.id }, ann)).toMatchObject({
      error: { code: 'ERR_PERMISSION_DENIED' },
    })
    expect(await paying(virtual.ann)).toBe('sk-hidden')
    for (const { id } of [own, org]) await tool('provider_key_delete', { key: id })
  })

  it('the value comes through a one-time link or from the input of a command', async () => {
    const link = await tool<{ reference: string; url: string }>('secret_link_create', { purpose: 'Key' }, bob)
    const given = { name: 'by-link', provider: 'peer', secret: link.reference }
    expect(await tool('provider_key_create', given, bob)).toMatchObject({ error: { code: 'ERR_SECRET_UNAVAILABLE' } })
    const token = new URL(link.url).pathname.split('/').at(-1)
    await tool('secret_link_submit', { token, values: { value: 'sk-linked' } }, bob)
    expect(await tool('provider_key_create', given, ann)).toMatchObject({ error: { code: 'ERR_NOT_FOUND' } })
    const key = await tool<{ id: string }>('provider_key_create', given, bob)
    expect(await paying(virtual.bob)).toBe('sk-linked')
    expect(await tool('secret_delete', { id: link.reference }, bob)).toMatchObject({
      error: { code: 'ERR_SECRET_IN_USE' },
    })
    await tool('provider_key_delete', { key: key.id }, bob)
    expect(await tool('secret_delete', { id: link.reference }, bob)).toMatchObject({ deleted: true })
    const args = [
      'call',
      'provider_key_create',
      'name=piped',
      'provider=peer',
      'secret=@-',
      '--data-dir',
      server.dataDir,
    ]
    const piped = await runCastellanHere(args, { home: server.dataDir, input: 'sk-piped\n' })
    expect(piped).toMatchObject({ code: 0 })
    expect(piped.stdout).not.toContain('sk-piped')
    expect(await paying(virtual.owner)).toBe('sk-piped')
    await tool('provider_key_delete', { key: 'piped' })
  })

  it('what is no key of a provider is refused by name', async () => {
    for (const [secret, code] of [
      [virtual.ann, 'ERR_INVALID_INPUT'],
      [`x${virtual.ann}`, 'ERR_INVALID_INPUT'],
      [`sk-${virtual.ann}-y`, 'ERR_INVALID_INPUT'],
      ['with a space', 'ERR_INVALID_INPUT'],
      ['line\nbreak', 'ERR_INVALID_INPUT'],
      ['env:PATH', 'ERR_INVALID_INPUT'],
      ['secret:sec_none', 'ERR_NOT_FOUND'],
    ]) {
      const refusal = await tool<{ error: Row }>('provider_key_create', { name: 'bad', provider: 'peer', secret })
      expect(refusal, secret).toMatchObject({ error: { code } })
      expect(JSON.stringify(refusal)).not.toContain(virtual.ann)
    }
  })

  it('a request for which there is no key says what to do, in the form of the provider', async () => {
    const refused = await paying(virtual.owner, 'openai').catch((error: unknown) => error)
    expect(refused).toMatchObject({ status: 401, code: 'ERR_PROVIDER_KEY_MISSING' })
    expect(String(refused)).toContain('provider_key_create')
    const gemini = await fetch(`${origin}/v1/gemini/v1beta/models/m:generateContent`, {
      method: 'POST',
      body: '{"contents":[]}',
    })
    expect(await gemini.json()).toMatchObject({
      error: { code: 401, message: expect.stringContaining('provider_key_create') },
    })
  })

  it('a refusal that repeats the key reaches the caller without it', async () => {
    await store('wrong-key-1234', { scope: 'org' })
    peer.answer = ({ response, headers }) => {
      const message = `Incorrect API key provided: ${headers.authorization}. ü`
      response.writeHead(401, { 'content-type': 'application/json', 'x-request-id': 'r1' })
      response.end(JSON.stringify({ error: { message, code: 'invalid_api_key' } }))
    }
    const refusal = await paying(virtual.bob).catch((error: { status: number; message: string; code: string }) => error)
    peer.answer = answerBoth
    expect(refusal).toMatchObject({ status: 401, code: 'invalid_api_key' })
    expect(String(refusal)).toContain('provided: Bearer [redacted]. ü')
  })

  it('a virtual key uses the one that it names, and no other', async () => {
    const named = await store('named', { scope: 'org' })
    const own = await store('mine', {}, ann)
    const make = (more: object, headers: Record<string, string> = {}) =>
      tool<{ secret: string; provider_keys: string[] }>('virtual_key_create', more, headers)
    const chosen = await make({ name: 'chosen', provider_keys: ['named'] }, ann)
    expect(chosen.provider_keys).toEqual([named.id])
    expect([await paying(chosen.secret), await paying(virtual.ann)]).toEqual(['sk-named', 'sk-mine'])
    expect(await make({ name: 'for-all', scope: 'org', provider_keys: [own.id] })).toMatchObject({
      error: { code: 'ERR_PERMISSION_DENIED' },
    })
    expect(await make({ name: 'theirs', provider_keys: [own.id] }, bob)).toMatchObject({
      error: { code: 'ERR_NOT_FOUND' },
    })
    await store('claude', { provider: 'anthropic', scope: 'org' })
    expect(await payingClaude(virtual.ann)).toBe('sk-claude')
    for (const other of [payingClaude, (key: string) => paying(key, 'openai')])
      await expect(other(chosen.secret)).rejects.toMatchObject({
        status: 401,
        message: expect.stringContaining('none of them is for'),
      })
    await tool('provider_key_delete', { key: named.id })
    await expect(paying(chosen.secret)).rejects.toMatchObject({ status: 401, code: 'ERR_PROVIDER_KEY_MISSING' })
    await tool('provider_key_delete', { key: own.id }, ann)
  })

  it('an agent uses the key of the user who runs it', async () => {
    const manifest_yaml = agentYaml('asks', '  task: { instruction: "Answer." }\n  execution: { max_iterations: 1 }\n')
    await tool('aegis.agent.create', { manifest_yaml })
    const run = async (headers: Record<string, string> = {}) => {
      const { execution_id } = await tool<{ execution_id: string }>('aegis.task.execute', { agent_id: 'asks' }, headers)
      const ended = await tool('aegis.task.wait', { execution_id, timeout_seconds: 30 }, headers)
      expect(ended).toMatchObject({ status: 'completed' })
      return shown(peer.requests.at(-1)!)
    }
    expect(await run()).toBe('sk-operator')
    const { id } = await store('for-runs')
    expect(await run()).toBe('sk-for-runs')
    expect(await scopeOfLast()).toBe('personal')
    await tool('provider_key_delete', { key: id })
    expect(await run()).toBe('sk-operator')
  })

  it('ends with its user and with its team', async () => {
    const eve = { cookie: await signIn(server, await newPerson(server, 'eve@example.com', ['--role', 'editor'])) }
    const ofEve = await store('of-eve', {}, eve)
    await tool('user_team_create', { name: 'short', members: ['ann@example.com'] })
    const ofTeam = await store('of-team', { teams: ['short'] })
    const listed = async () => (await tool<{ keys: Row[] }>('provider_key_list')).keys.map(({ id }) => id)
    expect(await listed()).toEqual(expect.arrayContaining([ofEve.id, ofTeam.id]))
    await castellanJson(server, ['users', 'delete', 'eve@example.com'])
    await tool('user_team_delete', { team: 'short' })
    expect(await listed()).not.toEqual(expect.arrayContaining([expect.stringMatching(`${ofEve.id}|${ofTeam.id}`)]))
    expect(JSON.stringify(await tool('secret_list'))).not.toMatch(/of-eve|of-team/)
  })

  it('no answer, export or file has one', async () => {
    await store('canary-0123456789', { scope: 'org' })
    expect(await paying(virtual.bob)).toBe('sk-canary-0123456789')
    const exported = await runCastellanHere(['export', '-', '--data-dir', server.dataDir], { home: server.dataDir })
    expect(exported).toMatchObject({ code: 0 })
    const files = readdirSync(server.dataDir, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'latin1'))
    expect(heard.join('').length).toBeGreaterThan(1_000)
    for (const text of [exported.stdout, ...files, ...heard]) expect(text).not.toMatch(/sk-(?!operator)[a-z]/)
  })
})

it('what is stored survives the death of the server', async () => {
  const dataDir = configure(peer.url)
  const first = await startRealServer({ dataDir })
  const tool = toolsOf(() => new URL(first.url).origin)
  const created = await tool('provider_key_create', { name: 'kept', provider: 'peer', secret: 'sk-kept', scope: 'org' })
  expect(created).toMatchObject({ name: 'kept' })
  first.kill('SIGKILL')
  await first.ended
  const second = await startServerHere({ dataDir })
  const openai = new OpenAI({ apiKey: 'castellan', baseURL: `${new URL(second.url).origin}/v1/peer`, maxRetries: 0 })
  await openai.chat.completions.create({ model: 'm', messages })
  expect(shown(peer.requests.at(-1)!)).toBe('sk-kept')
  await second.stop()
})
