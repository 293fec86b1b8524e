import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { openTestApp, type TestApp } from '../support/app.ts'

let app: TestApp
let editor: ToolCaller
let member: ToolCaller

beforeAll(async () => {
  app = await openTestApp({ config: { 'rate_limits.enabled': false } })
  editor = await app.keyCaller({ name: 'editor', role: 'editor' })
  member = await app.keyCaller({ name: 'member', role: 'member' })
})
afterAll(() => app[Symbol.asyncDispose]())

type Proxy = Readonly<{ id: string; slug: string; path: string }>

describe('a model proxy', () => {
  it('is for the organisation unless it says otherwise, and keeps its address', async () => {
    const labels = [{ key: 'env', value: 'prod' }]
    const made = await app.ask<Proxy>('create_llm_proxy', { name: 'All Models', labels })
    expect(made).toMatchObject({ scope: 'org', path: '/v1/{provider}/all-models', agentType: 'llm_proxy', labels })
    for (const args of [{ id: made.id }, { name: 'ALL models' }, { name: 'all-models' }]) {
      expect(await app.ask('get_llm_proxy', args, member)).toEqual(made)
    }
    expect(await app.ask('list_llm_proxies', { name: 'models' }, member)).toMatchObject({
      total: 1,
      proxies: [{ id: made.id, path: made.path }],
    })
    const edited = await app.ask<Proxy>('edit_llm_proxy', { id: made.id, name: 'Models', description: 'For all.' })
    expect(edited).toMatchObject({ name: 'Models', slug: made.slug, description: 'For all.' })
    expect(await app.refusal('edit_llm_proxy', { id: made.id, name: 'Mine' }, member)).toMatchObject({
      code: 'ERR_PERMISSION_DENIED',
      details: { permission: 'llmProxy:admin' },
    })
    expect(await app.refusal('delete_llm_proxy', { id: made.id }, editor)).toMatchObject({
      code: 'ERR_PERMISSION_DENIED',
    })
  })

  it('of one caller is for others as none, and is not found among gateways', async () => {
    const { id } = await app.ask<Proxy>('create_llm_proxy', { name: 'Mine', scope: 'personal' }, editor)
    const none = '00000000-0000-4000-8000-00000000dead'
    for (const [tool, args] of [
      ['get_llm_proxy', {}],
      ['edit_llm_proxy', { name: 'Taken' }],
      ['delete_llm_proxy', {}],
    ] as const) {
      const answers = await Promise.all([id, none].map((one) => app.call(tool, { ...args, id: one }, member)))
      expect(answers[0]!.json.replaceAll(id, none), tool).toBe(answers[1]!.json)
    }
    expect((await app.refusal('get_mcp_gateway', { id }, editor)).code).toBe('ERR_NOT_FOUND')
    expect(await app.ask('delete_llm_proxy', { id }, editor)).toEqual({ id, deleted: true })
    expect((await app.refusal('get_llm_proxy', { id }, editor)).code).toBe('ERR_NOT_FOUND')
    expect((await app.refusal('get_llm_proxy', {}, editor)).code).toBe('ERR_INVALID_INPUT')
  })
})
