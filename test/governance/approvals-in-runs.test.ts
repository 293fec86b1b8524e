import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { localOwner } from '../../src/contract/principal.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, openTestApp, type TestApp } from '../support/app.ts'
import { type Approval, approvalsOf, askingPolicy, cli } from '../support/approvals.ts'
import { agentYaml } from '../support/executions.ts'
import { type Line, type ScriptedModel, type SeenRequest, startScriptedModel } from '../support/scripted-model.ts'

/** Runs that meet a policy: what it denies is the answer of one call, and for approvals they wait. */

let app: TestApp
let model: ScriptedModel
let sessions = 0
const connection = (): ToolCaller => callerOf({ ...localOwner, mcpSessionId: `s${++sessions}` })

/** An agent calls the tool that its task names, and says what it was told. */
function script({ messages, text }: SeenRequest): Line {
  const told = messages.filter(({ role }) => role === 'tool').at(-1)
  if (told !== undefined) return { text: `told: ${String(told.content)}` }
  const prompt = String(messages[0]!.content)
  if (prompt === 'You help.') return { text: 'helped' }
  if (prompt === 'You lead.') {
    const message = String(messages.at(-1)!.content)
    return { toolCalls: [{ name: 'agent__helper', arguments: { message } }] }
  }
  const title = /title (\S+)/.exec(text)?.[1] ?? 'none'
  return { toolCalls: [{ name: 'task_create', arguments: { project: 'p', title } }] }
}

beforeAll(async () => {
  model = await startScriptedModel(script)
  const dataDir = mkdtempSync(join(tmpdir(), 'castellan-approvals-'))
  const provider = { name: 'mock', type: 'openai-compatible', endpoint: `${model.url}/v1` }
  const models = { providers: [{ ...provider, models: [{ alias: 'default', model: 'mock' }] }], max_retries: 0 }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models, rate_limits: { enabled: false } }))
  app = await openTestApp({ dataDir })
  await app.ask('create_tool_invocation_policy', askingPolicy)
  await app.ask('aegis.agent.create', {
    manifest_yaml: agentYaml('asker', '  task: { instruction: "Make a task." }\n  tools: [task_create]\n'),
  })
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await model.stop()
})

const { answer, approve, get, list } = approvalsOf(() => app)

/** What the log has of the calls of a tool. */
const callsOf = async (tool: string) => (await app.log()).filter((one) => one['tool'] === tool)

/** The approval that a run waits for. */
const waiting = async (execution_id: string): Promise<Approval> => {
  await expect.poll(() => list({ execution_id, kind: 'tool_call' })).toHaveLength(1)
  return (await list({ execution_id, kind: 'tool_call' }))[0]!
}
const end = async (execution_id: string) =>
  await app.ask<{ status: string; last_output: string }>('aegis.task.wait', { execution_id, timeout_seconds: 40 })

describe('a run', () => {
  const begin = async (title: string, caller: ToolCaller): Promise<string> =>
    (
      await app.ask<{ execution_id: string }>(
        'aegis.task.execute',
        { agent_id: 'asker', intent: `Make a task with the title ${title} now.` },
        caller,
      )
    ).execution_id

  it('waits for its own approval through a restart, and then goes on', async () => {
    const origin = connection()
    const [one, two] = [await begin('ask-run-1', origin), await begin('ask-run-2', origin)]
    const [first, second] = [await waiting(one), await waiting(two)]
    expect(first).toMatchObject({ tool: 'task_create', requested_by: 'agent:asker', context: `execution:${one}` })
    expect((await answer(first.id, 'approve', origin)).failure?.code).toBe('ERR_PERMISSION_DENIED')
    app = await app.restart()
    expect(await list({ kind: 'tool_call' })).toEqual(expect.arrayContaining([first, second]))
    await app.ask('approval_answer', { id: second.id, decision: 'deny', note: 'no more tasks' }, cli)
    await approve(first.id)
    const [made, denied] = [await end(one), await end(two)]
    expect(made).toMatchObject({ status: 'completed' })
    expect(made.last_output).toContain('"task_id"')
    expect(denied).toMatchObject({ status: 'completed' })
    expect(denied.last_output).toContain('no more tasks')
    expect(await get(first.id)).toMatchObject({ status: 'used' })
  })

  it('that is cancelled asks nothing any more', async () => {
    const id = await begin('ask-run-3', connection())
    const approval = await waiting(id)
    await app.ask('aegis.task.cancel', { execution_id: id })
    await expect.poll(async () => (await get(approval.id)).status).toBe('withdrawn')
    expect(await app.ask('approval_answer', { id: approval.id, decision: 'approve' }, cli)).toMatchObject({
      status: 'withdrawn',
    })
  })

  it('takes a denial as the answer of that one call, and goes on', async () => {
    const policy = await app.ask<{ policy: { id: string } }>('create_tool_invocation_policy', {
      toolId: 'task_create',
      conditions: [{ key: 'title', operator: 'equal', value: 'never' }],
      action: 'block_always',
      reason: 'never that one',
    })
    const done = await end(await begin('never', connection()))
    expect(done).toMatchObject({ status: 'completed' })
    expect(done.last_output).toContain('ERR_POLICY_DENIED')
    expect(done.last_output).toContain('never that one')
    await app.ask('delete_tool_invocation_policy', { id: policy.policy.id })
  })
})

describe('an agent that hands tasks on', () => {
  const handOn = async (intent: string): Promise<string> =>
    (await app.ask<{ execution_id: string }>('aegis.task.execute', { agent_id: 'lead', intent }, connection()))
      .execution_id
  const helps = () => model.requests.filter(({ messages }) => String(messages[0]!.content) === 'You help.').length

  let lead = { id: '' }
  beforeAll(async () => {
    const helper = await app.ask<{ id: string }>('create_agent', { name: 'helper', systemPrompt: 'You help.' })
    lead = await app.ask('create_agent', { name: 'lead', systemPrompt: 'You lead.', subAgentIds: [helper.id] })
    for (const [value, action, reason] of [
      ['^never', 'block_always', 'never hand that on'],
      ['^ask', 'require_approval', 'what asks needs a person'],
    ]) {
      const conditions = [{ key: 'message', operator: 'regex', value }]
      await app.ask('create_tool_invocation_policy', { toolId: 'agent__helper', conditions, action, reason })
    }
  })

  it('is judged as every caller, and goes on after a denial', async () => {
    const done = await end(await handOn('never this'))
    expect(done).toMatchObject({ status: 'completed' })
    expect(done.last_output).toContain('ERR_POLICY_DENIED')
    expect(done.last_output).toContain('never hand that on')
    expect(helps()).toBe(0)
    expect(await callsOf('agent__helper')).toMatchObject([
      {
        outcome: 'refused',
        code: 'ERR_POLICY_DENIED',
        decisions: [{ stage: 'invocation-policy', verdict: 'deny' }],
        principal: { actor: 'agent:lead' },
      },
    ])
    expect(await end(await handOn('now'))).toMatchObject({ status: 'completed', last_output: 'told: helped' })
    expect(await callsOf('agent__helper')).toMatchObject([{}, { outcome: 'ok' }])
  })

  it('is judged as those who call the same tool at its address', async () => {
    const there = callerOf({ ...localOwner, gateway: lead.id })
    const refused = await app.refusal('agent__helper', { message: 'never this' }, there)
    expect(refused).toMatchObject({ code: 'ERR_POLICY_DENIED', details: { reason: 'never hand that on' } })
  })

  it('waits for an approval through a restart, and hands the task on once', async () => {
    const [one, two] = [await handOn('ask this'), await handOn('ask that')]
    const [first, second] = [await waiting(one), await waiting(two)]
    expect(first).toMatchObject({
      tool: 'agent__helper',
      requested_by: 'agent:lead',
      arguments: { message: 'ask this' },
    })
    const before = helps()
    app = await app.restart()
    await approve(first.id)
    await app.ask('approval_answer', { id: second.id, decision: 'deny', note: 'not that' }, cli)
    expect(await end(one)).toMatchObject({ status: 'completed', last_output: 'told: helped' })
    expect((await end(two)).last_output).toContain('not that')
    expect(helps()).toBe(before + 1)
    expect(await get(first.id)).toMatchObject({ status: 'used' })
  })

  it('has no policies for what comes back, which is judged where it was read', async () => {
    const refused = await app.refusal('create_trusted_data_policy', {
      toolId: 'agent__helper',
      conditions: [],
      action: 'block_always',
    })
    expect(refused).toMatchObject({ code: 'ERR_INVALID_INPUT', details: { field: 'toolId' } })
    const missing = await app.refusal('create_tool_invocation_policy', {
      toolId: 'agent__nobody',
      conditions: [],
      action: 'block_always',
    })
    expect(missing.code).toBe('ERR_NOT_FOUND')
  })
})
