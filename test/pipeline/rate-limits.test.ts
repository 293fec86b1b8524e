import { describe, expect, it } from 'vitest'
import { identityOf } from '../../src/contract/principal.ts'
import { loadAllTools } from '../../src/tools/index.ts'
import { createCatalog } from '../../src/tools/runtime/catalog.ts'
import type { RateCategory } from '../../src/tools/runtime/define-tool.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { movableClock, openTestApp, ownerCaller, type TestApp } from '../support/app.ts'

const allTools = await loadAllTools()

const catalog = createCatalog(allTools)
const categoryOf = (name: string): RateCategory => catalog.find(name)!.definition.rate

/** How many of so many calls pass. */
async function passing(app: TestApp, caller: ToolCaller, calls: number, name = 'server_ping'): Promise<number> {
  let passed = 0
  for (let index = 0; index < calls; index++) {
    if (!(await app.call(name, {}, caller)).isError) passed++
  }
  return passed
}

describe('the rate of calls', () => {
  it('of a key is bounded as the configuration says, and the refusal says when to try again', async () => {
    const clock = movableClock()
    await using app = await openTestApp({ clock })
    const agent = await app.keyCaller()
    expect(categoryOf('server_ping')).toBe('default')
    expect(await passing(app, agent, 30)).toBe(20)
    const failure = await app.refusal('server_ping', {}, agent)
    expect(failure).toMatchObject({ code: 'ERR_RATE_LIMITED', details: { category: 'default' } })
    const waitMs = Number(failure.details['retry_after_ms'])
    expect(waitMs).toBeGreaterThan(0)
    expect(waitMs).toBeLessThanOrEqual(500)
    expect(failure.message).toMatch(/Try again in \d+ s/)
    expect((await app.log()).at(-1)).toMatchObject({ outcome: 'refused', code: 'ERR_RATE_LIMITED' })
    clock.advance(waitMs)
    expect(await passing(app, agent, 3)).toBe(1)
    clock.advance(60_000)
    expect(await passing(app, agent, 30)).toBe(20)
  })

  it('is counted for each principal and each category on its own', async () => {
    await using app = await openTestApp({ clock: movableClock() })
    const [first, second] = [await app.keyCaller({ role: 'admin' }), await app.keyCaller()]
    expect(await passing(app, first, 25)).toBe(20)
    expect(await passing(app, second, 25)).toBe(20)
    expect(categoryOf('api_key_create')).toBe('create')
    const codes: unknown[] = []
    for (let index = 0; index < 4; index++) codes.push((await app.refusal('api_key_create', {}, first)).code)
    expect(codes).toEqual([...Array.from({ length: 3 }, () => 'ERR_INVALID_INPUT'), 'ERR_RATE_LIMITED'])
  })

  it('lets a caller set up several things, because a record that starts nothing is cheap', async () => {
    await using app = await openTestApp({ clock: movableClock() })
    const editor = await app.keyCaller({ role: 'editor' })
    for (const name of ['one', 'two', 'three', 'four']) {
      await app.ask('create_mcp_server', { name, command: 'x' }, editor)
      await app.ask('create_mcp_gateway', { name, scope: 'personal' }, editor)
      await app.ask('create_agent', { name }, editor)
    }
    const dear = ['deploy_mcp_server', 'workspace_create', 'api_key_create', 'user_create', 'secret_link_create']
    expect(dear.map(categoryOf)).toEqual(dear.map(() => 'create'))
  })

  it('of an agent is counted for its owner, under whatever name the agent runs', async () => {
    await using app = await openTestApp({ clock: movableClock() })
    const agentOf = (caller: ToolCaller, name: string): ToolCaller => ({
      ...caller,
      transport: 'agent',
      principal: {
        ...caller.principal,
        kind: 'agent',
        actor: `agent:${name}`,
        agent: name,
        onBehalfOf: identityOf(caller.principal),
      },
    })
    const [first, second] = [await app.keyCaller(), await app.keyCaller()]
    expect(await passing(app, agentOf(first, 'writer'), 15)).toBe(15)
    expect(await passing(app, agentOf(first, 'other'), 15)).toBe(5)
    expect(await passing(app, agentOf(second, 'writer'), 25)).toBe(20)
  })

  it('is that of the action, where a tool has several', async () => {
    await using app = await openTestApp({ clock: movableClock() })
    const agent = await app.keyCaller()
    const passed = async (calls: number, args: object): Promise<number> => {
      let count = 0
      for (let index = 0; index < calls; index++) {
        if ((await app.call('team', args, agent)).failure?.code !== 'ERR_RATE_LIMITED') count++
      }
      return count
    }
    const message = { action: 'message', name: 't', agent: 'a', to: 'b', content: 'x' }
    expect(await passed(60, message)).toBe(50)
    expect(await passed(5, { action: 'create', name: 't', roles: [] })).toBe(3)
    expect(await passed(30, { action: 'list' })).toBe(20)
    expect(await passing(app, agent, 1)).toBe(0)
  })

  it('counts a call through another tool as one of its target', async () => {
    await using app = await openTestApp({ clock: movableClock() })
    const agent = await app.keyCaller()
    expect(await passing(app, agent, 19)).toBe(19)
    expect((await app.call('run_tool', { tool_name: 'server_ping' }, agent)).isError).toBe(false)
    expect(await passing(app, agent, 1)).toBe(0)
  })

  it('does not count what the platform does for a run, and counts what its agent calls', async () => {
    await using app = await openTestApp({ clock: movableClock() })
    const key = await app.keyCaller()
    expect(await passing(app, { ...key, transport: 'engine' }, 40)).toBe(40)
    expect(await passing(app, { ...key, transport: 'agent' }, 40)).toBe(20)
  })

  it('does not bound the local owner, unless the configuration says so', async () => {
    await using app = await openTestApp({ clock: movableClock() })
    expect(await passing(app, ownerCaller, 400)).toBe(400)
    await using bounded = await openTestApp({
      clock: movableClock(),
      config: { 'rate_limits.owner.enabled': true, 'rate_limits.default.burst': 5 },
    })
    expect(await passing(bounded, ownerCaller, 8)).toBe(5)
  })

  it('can be switched off', async () => {
    await using app = await openTestApp({ clock: movableClock(), config: { 'rate_limits.enabled': false } })
    expect(await passing(app, await app.keyCaller(), 100)).toBe(100)
  })

  it('counts refused calls too, but not those that the caller has no right to', async () => {
    await using app = await openTestApp({ clock: movableClock() })
    const agent = await app.keyCaller()
    for (let index = 0; index < 10; index++) await app.refusal('api_key_list', {}, agent)
    expect(await passing(app, agent, 10)).toBe(10)
    for (let index = 0; index < 10; index++) await app.refusal('task_get', { task_id: 'T-9999' }, agent)
    expect(await passing(app, agent, 1)).toBe(0)
  })
})
