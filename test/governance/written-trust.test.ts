import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { localOwner } from '../../src/contract/principal.ts'
import { sqlTrustStore } from '../../src/stores/sql/trust-store.ts'
import { sqlWorkspaceStore } from '../../src/stores/sql/workspace-store.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, openTestApp, type TestApp } from '../support/app.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'
import { workflowYaml } from '../support/workflows.ts'

/** What an untrusted caller writes is known as untrusted before anybody can read it, and whenever the program ends. */
let app: TestApp
let upstream: McpUpstream
let sessions = 0
const connection = (): ToolCaller => callerOf({ ...localOwner, mcpSessionId: `s${++sessions}` })
const isUntrusted = async (caller: ToolCaller): Promise<unknown> =>
  (await app.ask('context_trust_get', {}, caller))['untrusted']
const tainted = async (): Promise<ToolCaller> => {
  const caller = connection()
  await app.ask('up__echo', { text: 'obey' }, caller)
  return caller
}

beforeAll(async () => {
  upstream = await startMcpUpstream()
  app = await openTestApp({ config: { 'web.allow_private_addresses': ['127.0.0.1'], 'rate_limits.enabled': false } })
  const item = await app.ask<{ id: string }>('create_mcp_server', { name: 'Up', serverUrl: upstream.url, scope: 'org' })
  await app.ask('deploy_mcp_server', { catalogId: item.id, scope: 'org' })
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

describe('what an untrusted caller writes', () => {
  const yaml = workflowYaml('lost', 'A: { kind: System, command: update_blackboard, transitions: [] }')
  it.each([
    ['create_mcp_server_installation_request', () => ({ name: 'Lost' }), 'list_mcp_server_installation_requests', {}],
    ['aegis.workflow.create', () => ({ manifest_yaml: yaml }), 'workflow_info', { name: 'lost' }],
    ['edit_mcp_config', () => ({ id: 'Lost', serverUrl: `${upstream.url}?obey` }), 'get_mcp_servers', {}],
  ] as const)('is untrusted though the program ends right after it was stored: %s', async (tool, argsOf, look, at) => {
    if (tool === 'edit_mcp_config')
      await app.ask('create_mcp_server', { name: 'Lost', serverUrl: upstream.url, scope: 'org' })
    const writer = await tainted()
    const before = connection()
    await app.call(look, at, before)
    expect(await isUntrusted(before)).toBe(false)
    const database = (await app.app.ready).database as Database
    const { write } = database
    let isStored = false
    const failing = vi.spyOn(database, 'write').mockImplementation(async (tenant, work) => {
      if (isStored) throw new Error('the program has ended')
      const written = await write.call(database, tenant, work)
      // The transaction of the tool answers something, that of a context nothing.
      isStored = written !== undefined
      return written as never
    })
    expect(await app.call(tool, argsOf(), writer)).toMatchObject({ isError: true })
    failing.mockRestore()
    const reader = connection()
    await app.ask(look, at, reader)
    expect(await isUntrusted(reader)).toBe(true)
  })
})

describe('a fork of an untrusted workspace', () => {
  it('is known as untrusted before anybody finds it', async () => {
    const writer = await tainted()
    const { workspace_id } = await app.ask<{ workspace_id: string }>('workspace_create', { name: 'forked' }, writer)
    const w = { workspace_id }
    await app.ask('file_write', { ...w, path: '/workspace/a.txt', content: 'obey' }, writer)
    await app.ask('snapshot', { ...w, action: 'create', name: 'one' }, writer)
    const database = (await app.app.ready).database as Database
    const { write } = database
    const trustedOnes: unknown[] = []
    const watching = vi.spyOn(database, 'write').mockImplementation(async (tenant, work) => {
      const written = await write.call(database, tenant, work)
      const fork = await sqlWorkspaceStore.findWorkspaceByName(database.read, localOwner.tenant, 'the-fork')
      const taint = fork && (await sqlTrustStore.findTaint(database.read, localOwner.tenant, `workspace:${fork.id}`))
      if (fork !== undefined && taint === undefined) trustedOnes.push(fork.state)
      return written as never
    })
    await app.ask('workspace_fork', { ...w, snapshot_name: 'one', new_name: 'the-fork' }, connection())
    watching.mockRestore()
    expect(trustedOnes).toEqual([])
    const reader = connection()
    await app.ask('file_read', { workspace_id: 'the-fork', path: '/workspace/a.txt' }, reader)
    expect(await isUntrusted(reader)).toBe(true)
  })
})

describe('an untrusted file of the transfer folder', () => {
  it('makes a workspace untrusted before it is there', async () => {
    const writer = await tainted()
    const { workspace_id } = await app.ask<{ workspace_id: string }>('workspace_create', { name: 'sending' }, writer)
    const w = { workspace_id }
    const path = '/workspace/a.txt'
    await app.ask('file_write', { ...w, path, content: 'obey' }, writer)
    await app.ask('file_transfer', { ...w, direction: 'download', guest_path: path, host_path: 'raced.txt' }, writer)
    const taker = connection()
    const { workspace_id: other } = await app.ask<{ workspace_id: string }>(
      'workspace_create',
      { name: 'taking' },
      taker,
    )
    const to = { workspace_id: other }
    const reader = connection()
    const database = (await app.app.ready).database as Database
    const { promise: released, resolve: release } = Promise.withResolvers<void>()
    const holding = database.write(localOwner.tenant, () => released)
    const upload = { ...to, direction: 'upload', guest_path: path, host_path: 'raced.txt' }
    const taking = app.ask('file_transfer', upload, taker)
    const look = async () =>
      (await app.ask<{ entries: { name: string }[] }>('file_list', { ...to, path: '/workspace' }, reader)).entries
    try {
      for (let looks = 0; looks < 20; looks++) expect(await look()).toEqual([])
    } finally {
      release()
    }
    await Promise.all([holding, taking])
    expect(await look()).toMatchObject([{ name: 'a.txt' }])
    expect(await Promise.all([reader, taker].map(isUntrusted))).toEqual([true, true])
  })
})
