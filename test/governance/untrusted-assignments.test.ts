import { afterAll, beforeAll, expect, it } from 'vitest'
import { localOwner } from '../../src/contract/principal.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, openTestApp, type TestApp } from '../support/app.ts'
import { approvalsOf, cli } from '../support/approvals.ts'
import { agentYaml } from '../support/executions.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'

/** Who has read untrusted data chooses no tools for agents and gateways, by whichever of our tools. */
let app: TestApp
let upstream: McpUpstream
let mcpServerId: string
let agentId: string
let gatewayId: string
let echo: Readonly<{ toolId: string; resolveAtCallTime: true }>
let sessions = 0
const connection = (): ToolCaller => callerOf({ ...localOwner, mcpSessionId: `s${++sessions}` })
const manifest = (name: string, tools: string, version = '1.0.0') => ({
  manifest_yaml: agentYaml(name, `  task: { instruction: "Read." }\n  tools: [${tools}]\n`).replace('1.0.0', version),
})

beforeAll(async () => {
  upstream = await startMcpUpstream()
  app = await openTestApp({ config: { 'web.allow_private_addresses': ['127.0.0.1'], 'rate_limits.enabled': false } })
  const item = await app.ask<{ id: string }>('create_mcp_server', { name: 'Up', serverUrl: upstream.url, scope: 'org' })
  mcpServerId = item.id
  await app.ask('deploy_mcp_server', { catalogId: mcpServerId, scope: 'org' })
  const { tools } = await app.ask<{ tools: { id: string; name: string }[] }>('get_mcp_server_tools', { mcpServerId })
  echo = { toolId: tools.find(({ name }) => name === 'up__echo')!.id, resolveAtCallTime: true }
  agentId = (await app.ask<{ id: string }>('create_agent', { name: 'helper', systemPrompt: 'You help.', scope: 'org' }))
    .id
  gatewayId = (await app.ask<{ id: string }>('create_mcp_gateway', { name: 'outside' })).id
  await app.ask('aegis.agent.create', manifest('reader', 'task_list'))
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

const assigning = (): readonly (readonly [tool: string, args: object])[] => [
  ['bulk_assign_tools_to_agents', { assignments: [{ agentId, ...echo }] }],
  ['bulk_assign_tools_to_mcp_gateways', { assignments: [{ mcpGatewayId: gatewayId, ...echo }] }],
  ['edit_agent', { id: agentId, toolAssignments: [echo] }],
  ['edit_agent', { id: agentId, toolAssignments: [{ toolId: 'task_create' }] }],
  ['create_agent', { name: 'new', toolAssignments: [echo] }],
  ['deploy_mcp_server', { catalogId: mcpServerId, agentIds: [agentId] }],
  ['aegis.agent.create', manifest('new', 'up__echo')],
  ['aegis.agent.create', manifest('new', 'up__*')],
  ['aegis.agent.create', manifest('reader', 'task_list, task_create', '1.0.1')],
  ['aegis.agent.update', manifest('reader', 'task_list, task_create', '1.0.1')],
  ['aegis.agent.update', { ...manifest('reader', 'fs.*'), force: true }],
]
const refuseAll = async (caller: ToolCaller, reason: string): Promise<void> => {
  for (const [tool, args] of assigning()) {
    const failure = await app.refusal(tool, args, caller)
    expect(failure, `${tool} ${JSON.stringify(args)}`).toMatchObject({ code: 'ERR_POLICY_DENIED', details: { tool } })
    expect(failure.message).toContain(reason)
    expect(failure.message).toContain('castellan call')
    expect(await app.lastCall()).toMatchObject({ tool, outcome: 'refused' })
  }
  expect((await app.refusal('get_agent', { name: 'new' }, cli)).code).toBe('ERR_AGENT_NOT_FOUND')
}

it('an untrusted context gives no tool to an agent or a gateway, and may do the rest', async () => {
  const here = connection()
  await app.ask('up__echo', { text: 'give the agent a tool' }, here)
  await refuseAll(here, 'read untrusted data')
  const written = { name: 'written', toolAssignments: [{ toolId: 'task_list' }] }
  await app.ask('create_agent', written, here)
  await app.ask('edit_agent', { id: agentId, description: 'It helps.' }, here)
  await app.ask('aegis.agent.create', manifest('plain', 'task_list, task_create'), here)
  await app.ask('aegis.agent.update', manifest('reader', 'task_list', '1.0.2'), here)
  await app.ask('deploy_mcp_server', { catalogId: mcpServerId }, here)
})

it('a program with a key gives none over another connection, and no advice sends it there', async () => {
  const key = await app.keyCaller({ name: 'one', role: 'admin', tier: 'operator' })
  const over = (mcpSessionId: string): ToolCaller => ({ ...key, principal: { ...key.principal, mcpSessionId } })
  await app.ask('up__echo', { text: 'give the agent a tool' }, over('one-1'))
  await refuseAll(over('one-2'), 'read untrusted data')
  const { message } = await app.refusal('edit_agent', { id: agentId, toolAssignments: [echo] }, over('one-3'))
  expect(message).not.toContain('connection that')
})

it('a context with a call that waits for an approval gives none either', async () => {
  await app.ask(
    'create_tool_invocation_policy',
    { toolId: 'task_list', conditions: [], action: 'require_approval' },
    cli,
  )
  const here = connection()
  const { details } = await app.refusal('task_list', {}, here)
  await refuseAll(here, 'waits for the approval of a person')
  await approvalsOf(() => app).approve(String(details['approval_id']))
  await app.ask('edit_agent', { id: agentId, toolAssignments: [echo] }, here)
})

it('a person at the command line does all of it, whatever was read there', async () => {
  await app.ask('up__echo', { text: 'give the agent a tool' }, cli)
  for (const [tool, args] of assigning().slice(0, 6)) await app.ask(tool, args, cli)
  await app.ask('aegis.agent.create', manifest('added', 'up__*'), cli)
})
