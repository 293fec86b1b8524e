import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { movableClock, openTestApp, type TestApp } from '../support/app.ts'

type Limit = Record<string, unknown> & { id: string }

describe('limits of an organisation', () => {
  let app: TestApp
  let clock: ReturnType<typeof movableClock>
  beforeEach(async () => {
    clock = movableClock()
    app = await openTestApp({ clock })
  })
  afterEach(() => app[Symbol.asyncDispose]())
  const create = async (args: object, caller?: ToolCaller) =>
    (
      await app.ask<{ limit: Limit }>(
        'create_limit',
        { entity_type: 'organization', entity_id: 'local', limit_type: 'token_cost', limit_value: 5, ...args },
        caller,
      )
    ).limit
  const listed = async (args: object = {}, caller?: ToolCaller) =>
    (await app.ask<{ limits: Limit[] }>('get_limits', args, caller)).limits
  const lists = { limit_type: 'tool_calls', mcp_server_name: 'castellan', tool_name: 'task_list' }

  it('are created, listed, changed and deleted', async () => {
    const made = await create({ model: ['gpt-5'] })
    expect(made).toEqual({
      ...{ id: expect.stringMatching(/^limit_/), entityType: 'organization', entityId: 'local', entityName: 'local' },
      ...{ limitType: 'token_cost', limitValue: 5, cleanupInterval: 'calendar_month', model: ['gpt-5'] },
      ...{ mcpServerName: null, toolName: null, used: 0, remaining: 5, resetsAt: '2026-05-01T00:00:00.000Z' },
    })
    clock.advance(1)
    const daily = await create({ cleanup_interval: 'calendar_day' })
    expect((await listed()).map(({ id }) => id)).toEqual([made.id, daily.id])
    expect(await listed({ entity_type: 'team' })).toEqual([])
    expect(await listed({ entity_type: 'organization', entity_id: 'local' })).toHaveLength(2)
    const { limit } = await app.ask<{ limit: Limit }>('update_limit', { id: made.id, limit_value: 7 })
    expect(limit).toMatchObject({ limitValue: 7, cleanupInterval: 'calendar_month' })
    expect(await app.ask('delete_limit', { id: made.id })).toEqual({ success: true, id: made.id })
    expect((await listed()).map(({ id }) => id)).toEqual([daily.id])
  })

  it('bind calls of a tool under every name of it', async () => {
    await create({ ...lists, tool_name: 'aegis.task.wait', limit_value: 1 })
    const wait = { execution_id: 'nothing' }
    expect(await app.refusal('aegis.agent.wait', wait)).toMatchObject({ code: 'ERR_EXECUTION_NOT_FOUND' })
    expect(await app.refusal('aegis.task.wait', wait)).toMatchObject({ code: 'ERR_LIMIT_EXCEEDED' })
    expect(await app.refusal('aegis.agent.wait', wait)).toMatchObject({ code: 'ERR_LIMIT_EXCEEDED' })
    const again = {
      entity_type: 'organization',
      entity_id: 'local',
      ...lists,
      tool_name: 'aegis.agent.wait',
      limit_value: 9,
    }
    const { code, details } = await app.refusal('create_limit', again)
    const { limits } = await app.ask<{ limits: { id: string; tool_name?: string }[] }>('get_limits')
    expect([code, limits.map(({ id }) => id)]).toEqual(['ERR_ALREADY_EXISTS', expect.arrayContaining([details['id']])])
  })

  it('bind calls of every caller from the next one on, and let go with the next period', async () => {
    const editor = await app.keyCaller({ role: 'editor' })
    const limit = await create({ ...lists, limit_value: 3, cleanup_interval: '1h' })
    await app.ask('task_list')
    await app.ask('run_tool', { tool_name: 'task_list', tool_args: {} }, editor)
    await app.ask('task_list', {}, editor)
    const refused = await app.refusal('task_list')
    expect(refused).toMatchObject({ code: 'ERR_LIMIT_EXCEEDED', details: { limit_id: limit.id, remaining: 0 } })
    expect(refused.message).toContain('It resets at 2026-04-08T23:15:30.000Z.')
    expect(await listed()).toMatchObject([{ used: 3, remaining: 0, toolName: 'task_list' }])
    await app.ask('server_ping')
    clock.advance(3_600_000)
    await app.ask('task_list')
    await app.ask('update_limit', { id: limit.id, limit_value: 1 })
    expect((await app.refusal('task_list')).code).toBe('ERR_LIMIT_EXCEEDED')
    await app.ask('update_limit', { id: limit.id, cleanup_interval: '12h' })
    await app.ask('task_list')
  })

  it('never keep anybody from changing them', async () => {
    const { id } = await create({ limit_type: 'mcp_server_calls', mcp_server_name: 'castellan', limit_value: 0 })
    expect((await app.refusal('task_list')).code).toBe('ERR_LIMIT_EXCEEDED')
    await app.ask('server_health')
    await app.ask('delete_limit', { id })
    await app.ask('task_list')
  })

  it('are counted again after a restart', async () => {
    await create({ ...lists, limit_value: 2 })
    await app.ask('task_list')
    app = await app.restart()
    await app.ask('task_list')
    expect((await app.refusal('task_list')).code).toBe('ERR_LIMIT_EXCEEDED')
  })

  it.each([
    [{ entity_id: 'other' }, 'ERR_NOT_FOUND', 'entity_id'],
    [{ entity_type: 'team', entity_id: 'nobody' }, 'ERR_NOT_FOUND', 'entity_id'],
    [{ entity_type: 'user', entity_id: 'nobody@example.org' }, 'ERR_NOT_FOUND', 'entity_id'],
    [{ entity_type: 'agent', entity_id: 'nobody' }, 'ERR_NOT_FOUND', 'entity_id'],
    [{ entity_type: 'virtual_key', entity_id: 'nobody' }, 'ERR_NOT_FOUND', 'entity_id'],
    [{ mcp_server_name: 'castellan' }, 'ERR_INVALID_INPUT', 'mcp_server_name'],
    [{ limit_type: 'tool_calls', mcp_server_name: 'castellan' }, 'ERR_INVALID_INPUT', 'tool_name'],
    [{ limit_type: 'mcp_server_calls' }, 'ERR_INVALID_INPUT', 'mcp_server_name'],
    [{ limit_type: 'mcp_server_calls', mcp_server_name: 'nowhere' }, 'ERR_NOT_FOUND', 'mcp_server_name'],
    [{ ...lists, tool_name: 'no_such_tool' }, 'ERR_NOT_FOUND', 'tool_name'],
    [{ ...lists, model: ['gpt-5'] }, 'ERR_INVALID_INPUT', 'model'],
    [{ ...lists, limit_value: 1.5 }, 'ERR_INVALID_INPUT', 'limit_value'],
    [{ limit_value: -1 }, 'ERR_INVALID_INPUT', 'limit_value'],
  ])('are refused with %j', async (args, code, field) => {
    const base = { entity_type: 'organization', entity_id: 'local', limit_type: 'token_cost', limit_value: 5 }
    const refused = await app.refusal('create_limit', { ...base, ...args })
    expect(refused).toMatchObject({ code, details: { field } })
    expect(await listed()).toEqual([])
  })

  it('are unique, and those of another organisation are not there', async () => {
    const admin = await app.keyCaller({ role: 'admin', tenant: 'other' })
    const limit = await create({})
    expect(
      (
        await app.refusal('create_limit', {
          entity_type: 'organization',
          entity_id: 'local',
          limit_type: 'token_cost',
          limit_value: 9,
        })
      ).code,
    ).toBe('ERR_ALREADY_EXISTS')
    expect(await listed({}, admin)).toEqual([])
    expect((await app.refusal('update_limit', { id: limit.id, limit_value: 1 }, admin)).code).toBe('ERR_NOT_FOUND')
    expect((await app.refusal('delete_limit', { id: limit.id }, admin)).code).toBe('ERR_NOT_FOUND')
    expect((await app.refusal('update_limit', { id: limit.id })).code).toBe('ERR_INVALID_INPUT')
    const member = await app.keyCaller({ role: 'member' })
    expect((await app.refusal('get_limits', {}, member)).code).toBe('ERR_PERMISSION_DENIED')
  })
})
