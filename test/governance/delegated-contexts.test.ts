import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestApp, type TestApp } from '../support/app.ts'
import { agentYaml } from '../support/executions.ts'
import { type Line, type ScriptedModel, type SeenRequest, startScriptedModel } from '../support/scripted-model.ts'

/** A security context binds what an agent hands on as it binds what the agent does. */
let app: TestApp
let model: ScriptedModel

/** A lead hands its task on; a worker makes a task; both say what they were told. */
function script({ messages, text }: SeenRequest): Line {
  const told = messages.filter(({ role }) => role === 'tool').at(-1)
  if (told !== undefined) return { text: `told: ${String(told.content)}` }
  if (text.includes('You work.'))
    return { toolCalls: [{ name: 'task_create', arguments: { project: 'p', title: 't' } }] }
  return { toolCalls: [{ name: 'agent__worker', arguments: { message: 'make a task' } }] }
}

const context = (name: string, tools: readonly string[], deny_list: readonly string[] = []) => ({
  name,
  capabilities: tools.map((tool_pattern) => ({ tool_pattern })),
  deny_list,
})

beforeAll(async () => {
  model = await startScriptedModel(script)
  const dataDir = mkdtempSync(join(tmpdir(), 'castellan-delegated-'))
  const provider = { name: 'mock', type: 'openai-compatible', endpoint: `${model.url}/v1` }
  const models = { providers: [{ ...provider, models: [{ alias: 'default', model: 'mock' }] }], max_retries: 0 }
  const security_contexts = [
    context('narrow', ['task_list']),
    context('wide', ['task_list', 'task_create']),
    context('alone', ['task_list', 'task_create'], ['agent__worker']),
  ]
  writeFileSync(
    join(dataDir, 'castellan.yaml'),
    JSON.stringify({ models, security_contexts, rate_limits: { enabled: false } }),
  )
  app = await openTestApp({ dataDir })
  const worker = await app.ask<{ id: string }>('create_agent', {
    name: 'worker',
    systemPrompt: 'You work.',
    toolAssignments: [{ toolId: 'task_create' }],
  })
  for (const name of ['narrow', 'wide', 'alone']) {
    const spec = `  security_context: ${name}\n  task: { instruction: "Lead." }\n  tools: [task_list]\n`
    const { agent_id } = await app.ask<{ agent_id: string }>('aegis.agent.create', {
      manifest_yaml: agentYaml(`lead-${name}`, spec),
    })
    await app.ask('edit_agent', { id: agent_id, subAgentIds: [worker.id] })
  }
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await model.stop()
})

const run = async (agent_id: string) => {
  const { execution_id } = await app.ask<{ execution_id: string }>('aegis.task.execute', { agent_id, intent: 'go' })
  return await app.ask<{ last_output: string }>('aegis.task.wait', { execution_id, timeout_seconds: 40 })
}
const lastOf = async (tool: string) => (await app.log()).filter((one) => one.tool === tool).at(-1)

describe('the security context of an agent', () => {
  it('binds the sub-agent to which it hands a task on', async () => {
    const { last_output } = await run('lead-narrow')
    expect(last_output).toContain("'task_create'")
    expect(last_output).not.toContain('task_id')
    expect(await lastOf('task_create')).toBeUndefined()
    expect(await lastOf('agent__worker')).toMatchObject({ outcome: 'ok' })
  })

  it('lets it do what both may', async () => {
    expect((await run('lead-wide')).last_output).toContain('task_id')
  })

  it('that denies handing on by name refuses that', async () => {
    expect((await run('lead-alone')).last_output).toContain("the security context 'alone' refused 'agent__worker'")
    expect(await lastOf('agent__worker')).toMatchObject({ outcome: 'refused', code: 'ERR_POLICY_VIOLATION' })
  })
})
