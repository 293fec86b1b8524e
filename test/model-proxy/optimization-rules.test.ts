import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import OpenAI from 'openai'
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest'
import { dialects } from '../support/databases.ts'
import { agentYaml } from '../support/executions.ts'
import { startModelPeer } from '../support/model-peer.ts'
import { castellanJson, newPerson, PASSWORD, type Row, signIn } from '../support/people.ts'
import { createDatabase } from '../support/postgres.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

let peer: Awaited<ReturnType<typeof startModelPeer>>
beforeAll(async () => {
  peer = await startModelPeer()
})
afterAll(() => peer.close())

const price = (output: number) => ({ input_cost_per_million: 0, output_cost_per_million: output })
const tools = [{ type: 'function' as const, function: { name: 'f', parameters: { type: 'object', properties: {} } } }]

describe.each(dialects)('rules of an organisation for cheaper models, with %s', (dialect) => {
  let server: ServerHere
  let origin: string
  let ann: Record<string, string>
  const virtual = { ann: '', local: '' }
  /** A key of its own: who reads the texts of models governs nothing afterwards. */
  let reader: Record<string, string>

  beforeAll(async () => {
    const dataDir = newDataDir()
    const models = Object.entries({ large: 100, medium: 50, small: 1 }).map(([model, output]) => ({
      ...{ alias: model === 'large' ? 'default' : model, model },
      ...price(output),
    }))
    const config = {
      models: { providers: [{ name: 'peer', type: 'openai-compatible', endpoint: peer.url, models }], max_retries: 0 },
      model_proxy: { rules: [{ name: 'operator', when: { headers: { 'x-op': '1' } }, use: 'peer:medium' }] },
      rate_limits: { enabled: false },
      ...(dialect === 'SQLite' ? {} : { database_url: await createDatabase(inject('postgresUrl')) }),
    }
    writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
    server = { ...(await startServerHere({ dataDir })), dataDir }
    origin = new URL(server.url).origin
    const person = await newPerson(server, 'ann@example.com')
    const { secret } = await tool<{ secret: string }>('api_key_create', { name: 'reader', role: 'admin' })
    reader = { authorization: `Bearer ${secret}` }
    await tool('user_team_create', { name: 'design', members: ['ann@example.com'] })
    await tool('create_llm_proxy', { name: 'Research' })
    ann = { cookie: await signIn(server, { ...person, password: PASSWORD }) }
    for (const [name, headers] of Object.entries({ ann, local: {} })) {
      virtual[name as 'ann'] = (
        await tool<{ secret: string }>('virtual_key_create', { name: `of-${name}` }, headers)
      ).secret
    }
  })
  afterAll(() => server.stop())
  afterEach(async () => {
    for (const { id } of (await tool<{ rules: { id: string }[] }>('optimization_rule_list')).rules) {
      await tool('optimization_rule_delete', { rule: id })
    }
  })

  async function tool<T = Row>(name: string, args: object = {}, headers: Record<string, string> = {}): Promise<T> {
    const reply = await fetch(`${origin}/v1/tools/${name}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin, ...headers },
      body: JSON.stringify(args),
    })
    return (await reply.json()) as T
  }
  const organisation = { entity_type: 'organization', entity_id: 'local' }
  const create = (name: string, more: object = {}) =>
    tool<{ rule: { id: string } }>('optimization_rule_create', {
      ...{ name, provider: 'peer', target_model: 'small' },
      ...{ ...organisation, ...more },
    })
  const ask = async (apiKey: string, { content = 'Hi', path = 'peer', headers = {}, more = {} } = {}) => {
    const client = new OpenAI({ apiKey, baseURL: `${origin}/v1/${path}`, maxRetries: 0, defaultHeaders: headers })
    const model = path.startsWith('model-router') ? 'peer:large' : 'large'
    const messages = [{ role: 'user' as const, content }]
    const { response } = await client.chat.completions
      .create({ model, messages, ...more, stream: false })
      .withResponse()
    return { used: peer.requests.at(-1)!.body['model'], rule: response.headers.get('x-castellan-model-rule') }
  }
  const lastInteraction = async (): Promise<Row> => {
    const { interactions } = await tool<{ interactions: { id: string }[] }>('interaction_list', { limit: 1 }, reader)
    return (await tool<{ interaction: Row }>('interaction_get', { id: interactions[0]!.id }, reader)).interaction
  }
  const long = 'word '.repeat(500)

  it('have a cheaper model used for what is short and without tools, say so, and tell what was saved', async () => {
    const { rule } = await create('short', { max_tokens: 300, has_tools: false, models: ['lar*'] })
    expect(rule).toMatchObject({ enabled: true, max_tokens: 300, has_tools: false, models: ['lar*'] })
    expect(await ask(virtual.ann)).toEqual({ used: 'small', rule: 'short' })
    expect(await lastInteraction()).toMatchObject({
      ...{ rule: { id: rule.id, name: 'short' }, requested_model: 'large', used_model: 'small' },
      ...{ cost_usd: 0.00001, saved_usd: 0.00099 },
    })
    expect(await ask(virtual.ann, { path: 'model-router' })).toEqual({ used: 'small', rule: 'short' })
    expect(await ask(virtual.ann, { content: long })).toEqual({ used: 'large', rule: null })
    expect(await ask(virtual.ann, { more: { tools } })).toEqual({ used: 'large', rule: null })
    expect(await lastInteraction()).toMatchObject({ rule: null, saved_usd: null })
    const { totals } = await tool<{ totals: Row }>('interaction_list', { totals: true })
    expect(totals).toMatchObject({ saved_usd: 0.00198 })
    // The operator comes first.
    expect(await ask(virtual.ann, { headers: { 'x-op': '1' } })).toEqual({ used: 'medium', rule: 'operator' })
    await tool('optimization_rule_update', { rule: 'short', enabled: false })
    expect(await ask(virtual.ann)).toEqual({ used: 'large', rule: null })
    const changed = await tool('optimization_rule_update', {
      rule: rule.id,
      enabled: true,
      target_model: 'medium',
      name: 'ü',
    })
    expect(changed).toMatchObject({ rule: { name: 'ü', target_model: 'medium', max_tokens: 300 } })
    expect(await ask(virtual.ann)).toEqual({ used: 'medium', rule: '%C3%BC' })
    await tool('optimization_rule_delete', { rule: rule.id })
    expect(await ask(virtual.ann)).toEqual({ used: 'large', rule: null })
  })

  it('of an agent or a proxy come before those of a team, and these before those of the organisation', async () => {
    await create('for-all', { target_model: 'medium' })
    await create('for-team', { entity_type: 'team', entity_id: 'design' })
    expect([await ask(virtual.ann), await ask(virtual.local)]).toEqual([
      { used: 'small', rule: 'for-team' },
      { used: 'medium', rule: 'for-all' },
    ])
    // One that names what was requested keeps the others from it.
    await create('for-proxy', { entity_type: 'agent', entity_id: 'research', target_model: 'large' })
    expect(await ask(virtual.local, { path: 'peer/research' })).toEqual({ used: 'large', rule: null })
  })

  it('never widen what a virtual key is for', async () => {
    await create('for-all')
    const narrow = await tool<{ secret: string }>('virtual_key_create', { name: `narrow`, models: ['large'] })
    expect(await ask(narrow.secret)).toEqual({ used: 'large', rule: null })
  })

  it('hold for the requests of agents', async () => {
    const { rule } = await create('for-agents', { max_tokens: 1_000_000 })
    const manifest_yaml = agentYaml('asks', '  task: { instruction: "Answer." }\n  execution: { max_iterations: 1 }\n')
    await tool('aegis.agent.create', { manifest_yaml })
    const { execution_id } = await tool<{ execution_id: string }>('aegis.task.execute', { agent_id: 'asks' })
    const ended = await tool('aegis.task.wait', { execution_id, timeout_seconds: 30 })
    expect(ended).toMatchObject({ status: 'completed' })
    expect(peer.requests.at(-1)!.body['model']).toBe('small')
    expect(await lastInteraction()).toMatchObject({
      ...{ source: 'agent', rule: { id: rule.id }, requested_model: 'large', used_model: 'small', saved_usd: 0.00099 },
    })
  })

  it('are for those who may, and for their organisation alone', async () => {
    const { rule } = await create('ours')
    for (const [name, args] of Object.entries({ list: {}, delete: { rule: rule.id }, update: { rule: rule.id } })) {
      expect(await tool(`optimization_rule_${name}`, args, ann)).toMatchObject({
        error: { code: 'ERR_PERMISSION_DENIED' },
      })
    }
    const { secret } = await castellanJson(server, ['keys', 'create', 'agent', '--tenant', 'other', '--role', 'admin'])
    const elsewhere = { authorization: `Bearer ${String(secret)}` }
    expect(await tool('optimization_rule_list', {}, elsewhere)).toEqual({ rules: [] })
    expect(await tool('optimization_rule_delete', { rule: rule.id }, elsewhere)).toMatchObject({
      error: { code: 'ERR_NOT_FOUND' },
    })
    expect(await ask(String(secret))).toEqual({ used: 'large', rule: null })
  })

  it('of what a caller does not see do not exist for it', async () => {
    const make = async (name: string, role: string) => ({
      authorization: `Bearer ${(await tool<{ secret: string }>('api_key_create', { name, role })).secret}`,
    })
    const [holder, editor] = [await make('holder', 'member'), await make('editor', 'editor')]
    const proxy = await tool<{ id: string }>('create_llm_proxy', { name: 'Hidden', scope: 'personal' }, holder)
    const { rule } = await create('hidden', { entity_type: 'agent', entity_id: proxy.id })
    const seen = await create('seen')
    const listed = async (headers: Record<string, string>) =>
      (await tool<{ rules: { id: string }[] }>('optimization_rule_list', {}, headers)).rules.map(({ id }) => id)
    expect(await listed(editor)).toEqual([seen.rule.id])
    expect((await listed({})).sort()).toEqual([rule.id, seen.rule.id].sort())
    for (const reference of [rule.id, 'hidden']) {
      for (const [name, args] of Object.entries({ delete: {}, update: { enabled: false } }))
        expect(await tool(`optimization_rule_${name}`, { rule: reference, ...args }, editor)).toMatchObject({
          error: { code: 'ERR_NOT_FOUND' },
        })
    }
    await tool('delete_llm_proxy', { id: proxy.id }, holder)
    expect(await tool('optimization_rule_delete', { rule: rule.id })).toMatchObject({ deleted: true })
  })

  it('for a model that the configuration does not list are created with a warning', async () => {
    const reply = await fetch(`${origin}/v1/tools/optimization_rule_create`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        ...{ name: 'unchecked', entity_type: 'organization', entity_id: 'local' },
        ...{ provider: 'gemini', target_model: 'gemini-none' },
      }),
    })
    expect(reply.ok).toBe(true)
    expect(reply.headers.get('castellan-warning')).toContain('target_model')
  })

  it('that cannot hold are refused by name', async () => {
    await create('taken')
    expect(await tool('optimization_rule_update', { rule: 'taken' })).toMatchObject({
      error: { code: 'ERR_INVALID_INPUT', message: expect.stringContaining('target_model') },
    })
    for (const [more, code, field] of [
      [{ target_model: 'huge' }, 'ERR_NOT_FOUND', 'target_model'],
      [{ provider: 'nobody' }, 'ERR_NOT_FOUND', 'provider'],
      [{ entity_id: 'other' }, 'ERR_NOT_FOUND', 'entity_id'],
      [{ entity_type: 'team', entity_id: 'none' }, 'ERR_NOT_FOUND', 'entity_id'],
      [{ name: 'taken' }, 'ERR_ALREADY_EXISTS', 'name'],
      [{ max_tokens: 0 }, 'ERR_INVALID_INPUT', 'max_tokens'],
    ] as const) {
      const refusal = await create('new', more)
      expect(refusal, field).toMatchObject({ error: { code, message: expect.stringContaining(field) } })
    }
  })
})
