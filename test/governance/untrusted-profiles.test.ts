import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { localOwner } from '../../src/contract/principal.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, openTestApp, ownerCaller, type TestApp } from '../support/app.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ScriptedModel, startScriptedModel } from '../support/scripted-model.ts'
import { answer, serveWeb, type WebServer } from '../support/web-server.ts'

/** Agents, gateways and proxies whose context is untrusted from the start, and who may end that. */
let app: TestApp
let model: ScriptedModel
let web: WebServer
let sessions = 0
const connection = (more: object = {}): ToolCaller =>
  callerOf({ ...localOwner, mcpSessionId: `s${++sessions}`, ...more })
const untrusted = async (): Promise<ToolCaller> => {
  const caller = connection()
  await app.ask('web.fetch', { url: web.at('/') }, caller)
  return caller
}

beforeAll(async () => {
  model = await startScriptedModel(() => ({ text: 'done' }))
  web = await serveWeb({ '/': answer('trust me') })
  const dataDir = newDataDir()
  const provider = { name: 'mock', type: 'openai-compatible', endpoint: `${model.url}/v1` }
  const config = {
    models: { providers: [{ ...provider, models: [{ alias: 'default', model: 'mock' }] }] },
    web: { allow_private_addresses: ['127.0.0.1'] },
    rate_limits: { enabled: false },
  }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify(config))
  app = await openTestApp({ dataDir })
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await model.stop()
  await web[Symbol.asyncDispose]()
})

const kinds = [
  ['create_agent', 'edit_agent', 'get_agent'],
  ['create_mcp_gateway', 'edit_mcp_gateway', 'get_mcp_gateway'],
  ['create_llm_proxy', 'edit_llm_proxy', 'get_llm_proxy'],
] as const

describe.each(kinds)('%s', (create, edit, get) => {
  it('makes one that is never trusted, which no untrusted context ends', async () => {
    const made = await app.ask<{ id: string }>(create, { name: create, considerContextUntrusted: true })
    const { id } = made
    expect(made).toMatchObject({ considerContextUntrusted: true })
    const trusting = { id, considerContextUntrusted: false }
    const program = await untrusted()
    for (const [tool, args] of [
      [edit, trusting] as const,
      ['run_tool', { tool_name: edit, tool_args: trusting }] as const,
    ]) {
      const refused = await app.refusal(tool, args, program)
      expect(refused).toMatchObject({ code: 'ERR_POLICY_DENIED', details: { context: 'untrusted' } })
      expect(refused.message).toContain('castellan call')
    }
    expect(await app.ask(get, { id })).toMatchObject({ considerContextUntrusted: true })
    // Renaming leaves it, and people end it.
    await app.ask(edit, { id, name: `${create} again` }, connection())
    expect(await app.ask(get, { id })).toMatchObject({ considerContextUntrusted: true })
    const cli: ToolCaller = { ...program, transport: 'cli' }
    expect(await app.ask(edit, trusting, cli)).toMatchObject({ considerContextUntrusted: false })
    expect(await app.ask(create, { name: `${create} usual` })).toMatchObject({ considerContextUntrusted: false })
  })
})

it('every run of such an agent is untrusted from its beginning, and its address too', async () => {
  const { id } = await app.ask<{ id: string }>('create_agent', { name: 'Outside', considerContextUntrusted: true })
  const started = await app.ask<{ execution_id: string }>(
    'aegis.task.execute',
    { agent_id: id, intent: 'go' },
    connection(),
  )
  expect(
    await app.ask('context_trust_get', { context: `execution:${started.execution_id}` }, ownerCaller),
  ).toMatchObject({
    untrusted: true,
    cause: { kind: 'profile', from: `agent:${id}` },
  })
  const gateway = await app.ask<{ id: string }>('create_mcp_gateway', { name: 'In', considerContextUntrusted: true })
  const toolIds = ['context_trust_get', 'task_create']
  const assignments = toolIds.map((toolId) => ({ mcpGatewayId: gateway.id, toolId }))
  await app.ask('bulk_assign_tools_to_mcp_gateways', { assignments })
  expect(await app.ask('context_trust_get', {}, connection({ gateway: gateway.id }))).toMatchObject({ untrusted: true })
})

it('an untrusted context assigns no tools, and tools are assigned from a trusted one', async () => {
  const agent = await app.ask<{ id: string }>('create_agent', { name: 'Tooled' })
  const gateway = await app.ask<{ id: string }>('create_mcp_gateway', { name: 'Tooled' })
  for (const [tool, target] of [
    ['bulk_assign_tools_to_agents', { agentId: agent.id }],
    ['bulk_assign_tools_to_mcp_gateways', { mcpGatewayId: gateway.id }],
  ] as const) {
    const args = { assignments: [{ ...target, toolId: 'git_push' }] }
    expect(await app.refusal(tool, args, await untrusted())).toMatchObject({
      code: 'ERR_POLICY_DENIED',
      details: { tool },
    })
    expect((await app.ask<{ succeeded: object[] }>(tool, args, connection())).succeeded).toHaveLength(1)
  }
  // What an untrusted context gives an agent otherwise makes the agent untrusted.
  await app.ask('edit_agent', { id: agent.id, systemPrompt: 'Do as it says.' }, await untrusted())
  expect(await app.ask('context_trust_get', { context: `agent:${agent.id}` })).toMatchObject({ untrusted: true })
})

it('an edit without anything to change is refused, with what could be changed', async () => {
  const { id } = await app.ask<{ id: string }>('create_agent', { name: 'Still' })
  for (const args of [{ id }, { id, name: null }]) {
    const refused = await app.refusal('edit_agent', args)
    expect(refused).toMatchObject({ code: 'ERR_INVALID_INPUT', details: { field: 'subAgentIds' } })
    expect(refused.message).toMatch(/systemPrompt.*: give at least one of them/)
  }
  const { task_id } = await app.ask<{ task_id: number }>('task_create', { project: 'p', title: 't' })
  expect((await app.refusal('task_update', { task_id })).code).toBe('ERR_INVALID_INPUT')
})
