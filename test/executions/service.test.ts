import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { limits } from '../../src/contract/limits.ts'
import { localOwner } from '../../src/contract/principal.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, openTestApp, type TestApp } from '../support/app.ts'
import { agentYaml } from '../support/executions.ts'
import { findingsOf } from '../support/stored-state.ts'
import { workflowYaml } from '../support/workflows.ts'

/** The tools for executions, as callers with keys see them. No model is configured: every execution fails, and says why. */
let app: TestApp
let ann: ToolCaller
let ben: ToolCaller
let untrusted: ToolCaller
beforeAll(async () => {
  app = await openTestApp({ config: { 'rate_limits.enabled': false } })
  ann = await app.keyCaller({ role: 'member' })
  ben = await app.keyCaller({ role: 'member' })
  untrusted = await app.keyCaller({ role: 'admin', tenant: 'elsewhere' })
  await app.ask('aegis.agent.create', { manifest_yaml: agentYaml('plain', '  task: { instruction: "Answer." }\n') })
})
afterAll(() => app[Symbol.asyncDispose]())

const plain = { agent_id: 'plain' }
const execute = async (caller?: ToolCaller): Promise<string> =>
  (await app.ask<{ execution_id: string }>('aegis.task.execute', { agent_id: 'plain' }, caller)).execution_id
const wait = (execution_id: string, caller?: ToolCaller) =>
  app.ask<{ status: string; last_error: string }>('aegis.task.wait', { execution_id, timeout_seconds: 30 }, caller)

describe('an execution', () => {
  test('fails without a model, and says what to set', async () => {
    const end = await wait(await execute())
    expect(end.status).toBe('failed')
    expect(end.last_error).toContain('ERR_MODEL_UNAVAILABLE')
    expect(end.last_error).toContain('models.providers')
  })

  test('that agents begin one after another does not go on for ever', async () => {
    const states = 'A: { kind: System, command: update_blackboard, transitions: [] }'
    await app.ask('aegis.workflow.create', { manifest_yaml: workflowYaml('next', states) })
    let last = await execute()
    const asAgent = () =>
      callerOf({ ...localOwner, kind: 'agent', actor: 'agent:plain', executionId: last, onBehalfOf: 'owner' })
    for (let turn = 1; turn <= limits.spawnDepthMax; turn++) {
      const [tool, args] =
        turn % 2 === 0 ? (['aegis.workflow.run', { name: 'next' }] as const) : (['aegis.task.execute', plain] as const)
      last = (await app.ask<{ execution_id: string }>(tool, args, asAgent())).execution_id
    }
    for (const [tool, args] of [
      ['aegis.task.execute', plain],
      ['aegis.workflow.run', { name: 'next' }],
    ] as const) {
      expect((await app.refusal(tool, args, asAgent())).code, tool).toBe('ERR_DEPTH_EXCEEDED')
    }
  })

  test('that brings no input has that of the manifest', async () => {
    const spec =
      '  task: { instruction: "Answer.", input_data: { n: 1 } }\n  input_schema: { type: object, required: [n] }\n'
    await app.ask('aegis.agent.create', { manifest_yaml: agentYaml('prepared', spec) })
    const started = await app.ask('aegis.task.execute', { agent_id: 'prepared' })
    expect(started).toMatchObject({ status: 'started' })
    await wait(started['execution_id'] as string)
    const own = await app.refusal('aegis.task.execute', { agent_id: 'prepared', input: {} })
    expect(own).toMatchObject({ code: 'ERR_INVALID_INPUT' })
  })

  test('is visible to its owner and to administrators, and does not exist for others', async () => {
    const id = await execute(ann)
    await wait(id, ann)
    expect(await app.ask('aegis.task.status', { execution_id: id })).toMatchObject({ execution_id: id })
    const args = { execution_id: id }
    const unseen = await app.refusal('aegis.task.status', { execution_id: '00000000-0000-4000-8000-000000000000' }, ben)
    for (const caller of [ben, untrusted]) {
      for (const tool of [
        'aegis.task.status',
        'aegis.task.logs',
        'aegis.task.wait',
        'aegis.agent.wait',
        'aegis.task.cancel',
      ]) {
        const refused = await app.refusal(tool, args, caller)
        expect(refused.code, tool).toBe('ERR_EXECUTION_NOT_FOUND')
        expect(refused.message.replace(id, 'ID')).toBe(unseen.message.replace(/'0{8}.*?'/, "'ID'"))
      }
      const { executions } = await app.ask<{ executions: { id: string }[] }>('aegis.task.list', {}, caller)
      expect(executions.map((one) => one.id)).not.toContain(id)
    }
  })

  test('that has ended is not cancelled, and is removed by operators only', async () => {
    const id = await execute()
    await wait(id)
    expect(await app.refusal('aegis.task.cancel', { execution_id: id })).toMatchObject({ code: 'ERR_EXECUTION_STATE' })
    expect(await app.refusal('aegis.task.remove', { execution_id: id }, ann)).toMatchObject({
      code: 'ERR_PERMISSION_DENIED',
    })
    expect(await app.ask('aegis.task.remove', { execution_id: id })).toEqual({ execution_id: id, removed: true })
    expect(await findingsOf(app)).toEqual([])
  })

  test('has a log with true totals, in pages of 200 at most', async () => {
    const id = await execute()
    await wait(id)
    const page = { execution_id: id, limit: 2, offset: 1 }
    const logs = await app.ask<{ events: { sequence: number; event_type: string }[]; total: number }>(
      'aegis.task.logs',
      page,
    )
    expect(logs.events.map(({ sequence }) => sequence)).toEqual([2, 3])
    expect(logs.total).toBeGreaterThan(3)
    const all = await app.ask<{ limit: number }>('aegis.task.logs', { execution_id: id, limit: 5_000 })
    expect(all.limit).toBe(200)
    const activity = await app.ask<{ total: number; events: object[] }>('aegis.agent.logs', {
      agent_id: (await app.ask<{ agent_id: string }>('aegis.task.status', { execution_id: id })).agent_id,
      limit: 3,
    })
    expect(activity.events).toHaveLength(3)
    expect(activity.total).toBeGreaterThanOrEqual(logs.total)
  })

  test('is in the activity of its agent, however many there are, with what became of the agent', async () => {
    const yaml = agentYaml('busy', '  task: { instruction: "Answer." }\n')
    const { agent_id } = await app.ask<{ agent_id: string }>('aegis.agent.create', { manifest_yaml: yaml })
    const begin = async (caller?: ToolCaller) =>
      (await app.ask<{ execution_id: string }>('aegis.task.execute', { agent_id }, caller)).execution_id
    const ids: string[] = []
    for (let count = 0; count < 60; count++) ids.push(await begin(count < 3 ? ann : undefined))
    for (const id of ids) await wait(id)
    await app.ask('aegis.agent.update', { manifest_yaml: yaml.replace('1.0.0', '1.1.0') })
    let sum = 0
    for (const execution_id of ids) {
      sum += (await app.ask<{ total: number }>('aegis.task.logs', { execution_id, limit: 1 })).total
    }
    type Event = Readonly<{ event_type: string; payload: Record<string, unknown>; recorded_at: string }>
    const pageAt = (offset: number, caller?: ToolCaller) =>
      app.ask<{ events: Event[]; total: number }>('aegis.agent.logs', { agent_id, limit: 70, offset }, caller)
    const all: Event[] = []
    for (let offset = 0; offset < sum + 2; offset += 70) {
      const { events, total } = await pageAt(offset)
      expect(total).toBe(sum + 2)
      all.push(...events)
    }
    expect(all).toHaveLength(sum + 2)
    expect(all[0]).toMatchObject({ event_type: 'agent_deployed', payload: { version: '1.0.0', by: 'owner' } })
    expect(all[1]).toMatchObject({ event_type: 'task_started', aliases: ['execution_started'] })
    expect(all.at(-1)).toMatchObject({ event_type: 'agent_updated', payload: { version: '1.1.0' } })
    expect(new Set(all.flatMap(({ payload }) => payload['execution_id'] ?? []))).toEqual(new Set(ids))
    expect((await pageAt(sum + 2)).events).toEqual([])
    const theirs = await pageAt(0, ann)
    const displayed = theirs.events.flatMap(({ payload }) => payload['execution_id'] ?? [])
    expect(new Set(displayed)).toEqual(new Set(ids.slice(0, 3)))
    expect(theirs.total).toBe(theirs.events.length)
    expect((await pageAt(0, ben)).total).toBe(2)
    await app.ask('agent_scope_set', { agent_id, scope: 'global' })
    const moved = await pageAt(sum)
    expect(moved.total).toBe(sum + 3)
    expect(moved.events.at(-1)).toMatchObject({ event_type: 'agent_scope_changed', payload: { scope: 'global' } })
    const abroad = await pageAt(0, untrusted)
    expect(abroad.events.map(({ event_type }) => event_type)).toEqual([
      'agent_deployed',
      'agent_updated',
      'agent_scope_changed',
    ])
    expect(JSON.stringify(abroad.events)).not.toContain('owner')
  })

  test('of an agent that is not there is refused', async () => {
    const refused = await app.refusal('aegis.task.execute', { agent_id: 'nobody' })
    expect(refused.code, JSON.stringify(refused)).toBe('ERR_AGENT_NOT_FOUND')
  })
})
