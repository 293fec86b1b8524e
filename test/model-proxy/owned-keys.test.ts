import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import OpenAI from 'openai'
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest'
import { dialects } from '../support/databases.ts'
import { startModelPeer } from '../support/model-peer.ts'
import { newPerson, type Row, signIn } from '../support/people.ts'
import { createDatabase } from '../support/postgres.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** Whose a key for models is, and what others may do with it. */
describe.each(dialects)('a key for models, with %s', (dialect) => {
  let peer: Awaited<ReturnType<typeof startModelPeer>>
  let server: ServerHere
  let origin: string
  let ann: Record<string, string>

  beforeAll(async () => {
    peer = await startModelPeer()
    const dataDir = newDataDir()
    const models = [{ alias: 'default', model: 'm', input_cost_per_million: 1, output_cost_per_million: 1 }]
    const provider = { name: 'peer', type: 'openai-compatible', endpoint: peer.url, models }
    const config = {
      models: { providers: [provider], max_retries: 0 },
      rate_limits: { enabled: false },
      ...(dialect === 'SQLite' ? {} : { database_url: await createDatabase(inject('postgresUrl')) }),
    }
    writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
    server = { ...(await startServerHere({ dataDir })), dataDir }
    origin = new URL(server.url).origin
    ann = { cookie: await signIn(server, await newPerson(server, 'ann@example.com', ['--role', 'editor'])) }
  })
  afterAll(async () => {
    await server.stop()
    peer.close()
  })
  afterEach(async () => {
    const { keys } = await tool<{ keys: { id: string }[] }>('provider_key_list')
    for (const { id } of keys) await tool('provider_key_delete', { key: id })
  })

  async function tool<T = Row>(name: string, args: object = {}, headers: Record<string, string> = {}): Promise<T> {
    const reply = await fetch(`${origin}/v1/tools/${name}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin, ...headers },
      body: JSON.stringify(args),
    })
    return (await reply.json()) as T
  }
  const store = (name: string, more: object = {}, headers: Record<string, string> = {}) =>
    tool<{ id: string }>('provider_key_create', { name, provider: 'peer', secret: `sk-${name}`, ...more }, headers)
  /** The key that the provider was shown for a request with a credential of ours. */
  const paying = async (apiKey: string): Promise<string | undefined> => {
    const client = new OpenAI({ apiKey, baseURL: `${origin}/v1/peer`, maxRetries: 0 })
    await client.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'Hi' }] })
    return peer.requests.at(-1)!.headers.authorization?.replace('Bearer ', '')
  }

  it('a value belongs to who entered it, and as a part of the key to nothing else', async () => {
    const { secret } = await tool<{ secret: string }>('api_key_create', { name: 'keeper', role: 'admin' })
    const keeper = { authorization: `Bearer ${secret}` }
    const shared = await store('shared', { scope: 'org' }, keeper)
    const reference = async () => {
      const { secrets } = await tool<{ secrets: { id: string; purpose: string }[] }>('secret_list')
      return `secret:${secrets.find(({ purpose }) => purpose.endsWith(': shared'))!.id}`
    }
    const elsewhere = async (headers: Record<string, string>) => {
      const given = { name: 'elsewhere', provider: 'peer', secret: await reference() }
      const { error } = await tool<{ error: Row }>('provider_key_create', given, headers)
      return error?.['code']
    }
    expect([await elsewhere(keeper), await elsewhere({})]).toEqual(['ERR_PERMISSION_DENIED', 'ERR_NOT_FOUND'])
    await tool('provider_key_rotate', { key: shared.id, secret: 'sk-of-owner' })
    expect([await elsewhere(keeper), await elsewhere({})]).toEqual(['ERR_NOT_FOUND', 'ERR_PERMISSION_DENIED'])
    const virtualKey = await tool<{ secret: string }>('virtual_key_create', { name: 'of-keeper' }, keeper)
    expect(await paying(virtualKey.secret)).toBe('sk-of-owner')
  })

  it('an administrator can delete or revoke the personal key of another, and can neither change nor use it', async () => {
    const own = await store('of-ann', {}, ann)
    const virtualKey = await tool<{ id: string; secret: string }>('virtual_key_create', { name: 'own' }, ann)
    const refused = { error: { code: 'ERR_PERMISSION_DENIED', details: { field: 'key' } } }
    for (const [name, args] of [
      ['provider_key_rotate', { key: own.id, secret: 'sk-of-admin' }],
      ['provider_key_update', { key: own.id, primary: true }],
      ['virtual_key_rotate', { key: virtualKey.id }],
    ] as const)
      expect(await tool(name, args), name).toMatchObject(refused)
    expect(await paying(virtualKey.secret)).toBe('sk-of-ann')
    expect(await tool('provider_key_delete', { key: own.id })).toMatchObject({ deleted: true })
    expect(await tool('virtual_key_revoke', { key: virtualKey.id })).toMatchObject({ status: 'revoked' })
  })

  it('no new request has the key of a team that is gone, also of one without members', async () => {
    await tool('user_team_create', { name: 'empty', members: [] })
    await store('of-empty', { teams: ['empty'] })
    const { secret } = await tool<{ secret: string }>('virtual_key_create', { name: 'of-empty', teams: ['empty'] })
    expect(await paying(secret)).toBe('sk-of-empty')
    await tool('user_team_delete', { team: 'empty' })
    await expect(paying(secret)).rejects.toMatchObject({ status: 401 })
  })
})
