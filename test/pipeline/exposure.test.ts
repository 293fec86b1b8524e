import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { limits } from '../../src/contract/limits.ts'
import { localOwner } from '../../src/contract/principal.ts'
import { loadAllTools } from '../../src/tools/index.ts'
import { createCatalog } from '../../src/tools/runtime/catalog.ts'
import { toolsets } from '../../src/tools/runtime/define-tool.ts'
import { defaultTools } from '../../src/tools/runtime/exposure.ts'
import type { Exposure } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, openTestApp, type TestApp } from '../support/app.ts'
import { newTask } from '../support/ledger.ts'

const allTools = await loadAllTools()

/** As on standard input, where there is no switching of modes. */
const catalog = createCatalog({ ...allTools, modes: [] })
let app: TestApp
beforeAll(async () => {
  app = await openTestApp({ config: { 'rate_limits.enabled': false } })
  await newTask(app)
})
afterAll(() => app[Symbol.asyncDispose]())

const listed = async (exposure: Exposure): Promise<string[]> =>
  (await app.app.host.list(callerOf(localOwner, { exposure }))).map((tool) => tool.name)
type Found = { total: number; matchCount: number; hint: string | null; tools: { toolName: string }[] }

describe('the list of tools', () => {
  it('is the curated set by default, everything in full, and what is named otherwise', async () => {
    expect((await listed('default')).sort()).toEqual([...defaultTools].sort())
    expect(await listed('full')).toEqual(catalog.names)
    for (const toolset of toolsets) {
      const members = catalog.tools.filter(({ definition }) => definition.toolset === toolset)
      expect(await listed([toolset])).toEqual(members.map(({ name }) => name))
    }
    expect(await listed(['server', 'task_get'])).toEqual(['task_get', 'server_health', 'server_ping'])
    expect(await listed(['no-such-thing'])).toEqual([])
    expect(await listed([])).toEqual([])
  })

  it('is in the same order each time, and the same object', () => {
    const caller = callerOf(localOwner)
    expect(app.app.host.list(caller)).toBe(app.app.host.list({ ...caller }))
  })

  it('hides nothing from a call by name', async () => {
    const caller = callerOf(localOwner, { exposure: ['server_ping'] })
    expect(await app.ask('task_list', {}, caller)).toMatchObject({ total_count: 1 })
  })

  it('has complete hints and schemas', async () => {
    for (const tool of await app.app.host.list(callerOf(localOwner))) {
      expect(tool.inputSchema.type).toBe('object')
      expect(tool.annotations.title).toBe(tool.title)
    }
  })
})

describe('search_tools', () => {
  it('finds every tool that the caller may use, and no other', async () => {
    const callers = [
      callerOf(localOwner),
      await app.keyCaller(),
      await app.keyCaller({ role: 'admin', scopes: ['task:read'] }),
    ]
    for (const caller of callers) {
      const usable = (await app.app.host.list(caller)).map((tool) => tool.name)
      for (const { name, definition } of catalog.tools) {
        if (['search_tools', 'run_tool'].includes(name)) continue
        const query = { query: `^${name.replaceAll('.', '\\.')}$`, mode: 'regex' }
        const { tools } = await app.ask<Found>('search_tools', query, caller)
        const isFound = usable.includes(name) && definition.aliasOf === undefined
        expect(tools.map(({ toolName }) => toolName)).toEqual(isFound ? [name] : [])
      }
    }
  })

  it('does not depend on what the connection shows', async () => {
    const narrow = callerOf(localOwner, { exposure: ['search_tools'] })
    const query = { query: 'verify audit chain' }
    expect(await app.ask('search_tools', query, narrow)).toEqual(await app.ask('search_tools', query))
  })
})

describe('run_tool', () => {
  it('answers as the tool itself does, and says what it read differently', async () => {
    const plain = await app.call('task_get', { task_id: 'T-0001' })
    const wrapped = await app.call('run_tool', { tool_name: 'task_get', tool_args: { task_id: 'T-0001' } })
    expect(wrapped).toEqual(plain)
    const loose = await app.call('run_tool', { tool_name: 'taskGet', task_id: 'T-0001' })
    expect(loose.json).toBe(plain.json)
    expect(JSON.stringify(loose.content)).toMatch(/Warning: .*taskGet.*task_get/)
    expect(JSON.stringify(loose.content)).toMatch(/Moved into tool_args/)
  })

  it('fails as the tool itself does', async () => {
    const args = { task_id: 'T-9999' }
    expect(await app.refusal('run_tool', { tool_name: 'task_get', tool_args: args })).toEqual(
      await app.refusal('task_get', args),
    )
    expect(await app.refusal('run_tool', { tool_name: 'task_gett' })).toMatchObject({
      code: 'ERR_UNKNOWN_TOOL',
      details: { nearest: expect.arrayContaining(['task_get']) },
    })
    expect((await app.refusal('run_tool', { tool_name: 'run_tool' })).code).toBe('ERR_INVALID_INPUT')
    expect((await app.refusal('run_tool', {})).code).toBe('ERR_INVALID_INPUT')
  })

  it('bears very many strays and very deep arguments', async () => {
    const strays = Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`k${index}`, 1]))
    const answer = await app.call('run_tool', { ...strays, tool_name: 'task_list', tool_args: { limit: 1 } })
    expect(answer.isError).toBe(false)
    expect(JSON.stringify(answer.content).length).toBeLessThan(10_000)
    expect(JSON.stringify(answer.content)).toMatch(/4980 more were ignored/)
    const many = Object.fromEntries(Array.from({ length: limits.argumentValuesMax }, (_, index) => [`k${index}`, 1]))
    expect(await app.refusal('run_tool', { tool_name: 'task_list', tool_args: many })).toMatchObject({
      code: 'ERR_INVALID_INPUT',
      details: { constraint: `at most ${limits.argumentValuesMax} values` },
    })
    let deep: unknown = 1
    for (let level = 0; level < 20_000; level++) deep = [deep]
    for (const args of [
      { tool_name: 'task_list', search: deep, tool_args: { search: deep } },
      { tool_name: `task_list {"search":${'['.repeat(20_000)}${']'.repeat(20_000)}}`, search: 'x' },
    ]) {
      expect((await app.refusal('run_tool', args)).code).toBe('ERR_INVALID_INPUT')
    }
  })
})

describe('names', () => {
  it('are accepted in every spelling that is offered, and the nearest are named otherwise', async () => {
    for (const name of ['server_ping', 'archestra__server_ping']) {
      expect(await app.ask(name)).toMatchObject({ ok: true })
    }
    const failure = await app.refusal('server_pong')
    expect(failure.code).toBe('ERR_UNKNOWN_TOOL')
    expect((failure.details!['nearest'] as string[]).slice(0, 2)).toEqual(['server_ping', 'server_health'])
    expect(failure.message).toContain("Did you mean 'server_ping' or 'server_health'")
  })
})
