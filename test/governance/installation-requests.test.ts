import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { newestFirst } from '../../src/contract/list-page.ts'
import { tenantId } from '../../src/contract/principal.ts'
import type { InstallationRequest } from '../../src/domains/mcp-servers/ports.ts'
import { sqlInstallationRequestStore as store } from '../../src/stores/sql/installation-request-store.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { openTestApp, type TestApp } from '../support/app.ts'
import { dialects, openEmpty } from '../support/databases.ts'

type Request = {
  id: string
  name: string
  status: string
  notes: { author: string; text: string }[]
  decidedBy: string | null
}
const ACME = tenantId('acme')
const OTHER = tenantId('other')

describe('a request for an MCP server', () => {
  let app: TestApp
  beforeEach(async () => {
    app = await openTestApp()
  })
  afterEach(() => app[Symbol.asyncDispose]())
  const ask = async (args: object, caller?: ToolCaller) =>
    (await app.ask<{ request: Request }>('create_mcp_server_installation_request', args, caller)).request
  const listed = async (caller?: ToolCaller) =>
    (await app.ask<{ requests: Request[] }>('list_mcp_server_installation_requests', {}, caller)).requests

  it('is seen by its author and by administrators, who decide it with notes', async () => {
    const [member, other, admin] = await Promise.all([
      app.keyCaller({ role: 'member' }),
      app.keyCaller({ role: 'member' }),
      app.keyCaller({ role: 'admin' }),
    ])
    const foreign = await app.keyCaller({ role: 'admin', tenant: 'other' })
    const { id } = await ask({ name: 'GitHub', reason: 'For reviews.', serverUrl: 'https://example.org/mcp' }, member)
    expect(await listed(member)).toMatchObject([{ id, name: 'GitHub', status: 'pending', notes: [] }])
    expect((await listed(admin)).map((one) => one.id)).toEqual([id])
    expect([await listed(other), await listed(foreign)]).toEqual([[], []])
    const note = (caller: ToolCaller) =>
      app.call('add_mcp_server_installation_request_note', { id, note: 'Which one?' }, caller)
    expect((await note(other)).failure?.code).toBe('ERR_NOT_FOUND')
    expect((await note(foreign)).failure?.code).toBe('ERR_NOT_FOUND')
    await note(admin)
    const decide = (decision: string, caller: ToolCaller) =>
      app.call('decide_mcp_server_installation_request', { id, decision, note: `It is ${decision}.` }, caller)
    expect((await decide('approved', member)).failure?.code).toBe('ERR_PERMISSION_DENIED')
    expect((await decide('approved', foreign)).failure?.code).toBe('ERR_NOT_FOUND')
    await decide('declined', admin)
    await decide('approved', admin)
    const [request] = await listed(member)
    expect(request).toMatchObject({ status: 'approved', decidedBy: expect.stringMatching(/^key:/) })
    expect(request!.notes.map(({ text }) => text)).toEqual(['Which one?', 'It is declined.', 'It is approved.'])
  })

  it('names only what an administrator can follow', async () => {
    const refused = (args: object) => app.refusal('create_mcp_server_installation_request', args)
    for (const serverUrl of ['javascript:1', 'Linear', 'ftp://example.org', 'https://user:secret@example.org/mcp']) {
      expect(await refused({ name: 'X', serverUrl })).toMatchObject({
        code: 'ERR_INVALID_INPUT',
        details: { field: 'serverUrl' },
      })
    }
    for (const repository of ['javascript:1', 'data:text/html,x']) {
      expect((await refused({ name: 'X', repository })).details).toMatchObject({ field: 'repository' })
    }
    await ask({ name: 'X', repository: 'github.com/x/y' })
    expect(await refused({ name: 'X', catalogId: 'zz' })).toMatchObject({
      code: 'ERR_NOT_FOUND',
      details: { field: 'catalogId' },
    })
    const { id } = await app.ask<{ id: string }>('create_mcp_server', { name: 'There', command: 'x' })
    expect(await ask({ catalogId: 'there' })).toMatchObject({ name: 'There', catalogId: id })
    expect((await refused({ reason: 'x' })).details).toMatchObject({ field: 'name' })
    expect(await listed()).toHaveLength(2)
    const { link } = await app.ask<{ link: { url: string } }>('create_mcp_server_installation_request')
    const values = { name: 'Tickets', serverUrl: 'Linear' }
    const submitted = await app.refusal('secret_link_submit', { token: link.url.split('/').at(-1)!, values })
    expect(submitted.details).toMatchObject({ field: 'serverUrl' })
    expect(await listed()).toHaveLength(2)
  })

  it('is described by a person on a page when the caller has no words for it', async () => {
    const answer = await app.ask<{ request: null; link: { url: string } }>('create_mcp_server_installation_request')
    expect(answer.request).toBeNull()
    const token = answer.link.url.split('/').at(-1)!
    await app.ask('secret_link_submit', { token, values: { name: 'Weather', reason: 'To plan.' } })
    expect(await listed()).toMatchObject([{ name: 'Weather', reason: 'To plan.', status: 'pending' }])
  })
})

describe.each(dialects)('installation requests in %s', (dialect) => {
  let database: Database
  beforeEach(async () => {
    database = await openEmpty(dialect)
  })
  afterEach(() => database.close())

  it('keep every field, and belong to one tenant', async () => {
    const request: InstallationRequest = {
      tenant: ACME,
      id: 'r1',
      author: 'key:ann',
      server: { name: 'Ü', reason: null, serverUrl: 'https://x.example', repository: null, catalogId: null },
      status: 'pending',
      notes: [],
      decidedBy: null,
      decidedAtMs: null,
      createdAtMs: 5,
    }
    await database.write(ACME, (tx) => store.insertRequest(tx, ACME, request))
    expect(await store.findRequest(database.read, ACME, 'r1')).toEqual(request)
    expect(await store.findRequest(database.read, OTHER, 'r1')).toBeUndefined()
    const notes = [{ author: 'owner', text: '“yes”', atMs: 7 }]
    const decided: InstallationRequest = { ...request, status: 'approved', notes, decidedBy: 'owner', decidedAtMs: 8 }
    await database.write(ACME, (tx) => store.saveRequest(tx, ACME, decided))
    await database.write(ACME, (tx) =>
      store.insertRequest(tx, ACME, { ...request, id: 'r2', author: 'key:bob', createdAtMs: 9 }),
    )
    const ids = async (author?: string) =>
      (await store.listRequests(database.read, ACME, { author }).rows(newestFirst.first, 10)).map(({ id }) => id)
    expect([await ids(), await ids('key:ann')]).toEqual([['r2', 'r1'], ['r1']])
    expect(await store.findRequest(database.read, ACME, 'r1')).toEqual(decided)
    expect([await store.countRequests(database.read, ACME), await store.countRequests(database.read, OTHER)]).toEqual([
      2, 0,
    ])
  })
})
