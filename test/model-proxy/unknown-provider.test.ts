import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

let server: ServerHere
beforeAll(async () => {
  const dataDir = newDataDir()
  mkdirSync(dataDir, { recursive: true })
  const models = [{ alias: 'default', model: 'm' }]
  const providers = [{ name: 'closed', type: 'openai', endpoint: 'http://127.0.0.1:1/v1', models }]
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models: { providers } }))
  server = await startServerHere({ dataDir })
})
afterAll(() => server.stop())

describe('an address below /v1 that no provider has', () => {
  const refusalOf = async (path: string, headers: Record<string, string> = {}) => {
    const res = await fetch(new URL(path, server.url), {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: '{"model":"m","messages":[]}',
    })
    return { status: res.status, ...((await res.json()) as { error: { code: string; message: string } }).error }
  }

  it('says which providers there are, and only to those who are known the names of the configuration', async () => {
    const refused = await refusalOf('/v1/banana/chat/completions')
    expect(refused).toMatchObject({ status: 404, code: 'ERR_ROUTE_NOT_FOUND' })
    expect(refused.message).toContain('/v1/PROVIDER/…: anthropic, closed, gemini, model-router, openai.')
    for (const headers of [{ authorization: 'Bearer cst_unknown' }, { 'x-forwarded-for': '203.0.113.9' }]) {
      const { status, message } = await refusalOf('/v1/banana/chat/completions', headers)
      expect(status).toBe(404)
      expect(message).toContain('anthropic, gemini, model-router, openai or a name in models.providers.')
    }
  })

  it('suggests the nearest provider, in the form of OpenAI, also to a program that sends the key of a provider', async () => {
    const refused = await refusalOf('/v1/clsoed/chat/completions', { authorization: 'Bearer sk-mine' })
    expect(refused).toMatchObject({ status: 404, code: 'ERR_ROUTE_NOT_FOUND', type: 'invalid_request_error' })
    expect(refused.message).toMatch(/anthropic, closed, gemini.* Did you mean \/v1\/closed\/…\?$/)
  })

  it('lists the operations of a provider for one that is not forwarded', async () => {
    const openai = await refusalOf('/v1/closed/chat/completion')
    expect(openai).toMatchObject({ status: 404, code: 'ERR_ROUTE_NOT_FOUND' })
    expect(openai.message).toMatch(/'closed'\. It takes POST chat\/completions, POST responses, .*GET models/)
    expect((await refusalOf('/v1/anthropic/v1/complete')).message).toContain('It takes POST v1/messages, ')
    expect((await refusalOf('/v1/gemini/v1beta/models/m:predict')).message).toContain(':generateContent')
  })

  it('says what the base address of an SDK is where one has a version too many', async () => {
    const { status, message } = await refusalOf('/v1/anthropic/v1/v1/messages')
    expect(status).toBe(404)
    expect(message).toMatch(/no model proxy at this address.*base address of its package ends with \/v1\/PROVIDER/)
  })

  it('says nothing of providers where something else is', async () => {
    for (const path of ['/v1/tools/a/b', '/v1/agents/a/b/c', '/v2/banana/x', '/v1/banana']) {
      expect([path, (await refusalOf(path)).message]).toEqual([path, expect.not.stringContaining('PROVIDER')])
    }
  })
})
