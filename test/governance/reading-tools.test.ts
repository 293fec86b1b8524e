import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { z } from 'zod'
import { localOwner } from '../../src/contract/principal.ts'
import { loadAllTools } from '../../src/tools/index.ts'
import { allRulesOf, permissionsOf } from '../../src/tools/runtime/call-rules.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, openTestApp, type TestApp } from '../support/app.ts'
import { agentYaml } from '../support/executions.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'
import { type Line, type ScriptedModel, type SeenRequest, startScriptedModel } from '../support/scripted-model.ts'
import { workflowYaml } from '../support/workflows.ts'

/** Every tool that answers what others wrote tells who reads it whether that can be trusted. */

/** They answer nothing that an untrusted caller could have written at length, and why. */
const inOwnWords: Readonly<Record<string, readonly string[]>> = {
  'ids, states, times and numbers': [
    ...['server_ping', 'server_health', 'whoami', 'zaru.switch_mode', 'clock_reset', 'aegis.task.list'],
    ...['log_checkpoint', 'log_consistency_proof', 'log_inclusion_proof', 'log_recover', 'merkle_root'],
    ...['merkle_finalize', 'audit_session_start', 'audit_verify_chain', 'get_agent_token_usage'],
    ...['get_llm_proxy_token_usage', 'interaction_list', 'aegis.task.execute', 'aegis.workflow.run'],
    ...['aegis.execute', 'aegis.execute.intent', 'aegis.agent.generate', 'aegis.workflow.generate'],
    ...['workspace_create', 'workspace_destroy', 'workspace_start', 'workspace_stop', 'workspace_resize'],
    ...['workspace_adopt', 'workspace_list', 'snapshot', 'network_policy'],
    ...['port_forward', 'context_trust_get', 'context_trust_clear', 'aegis.workflow.delete', 'aegis.agent.delete'],
    ...['delete_mcp_server', 'delete_mcp_server_deployment', 'list_mcp_server_deployments', 'delete_mcp_gateway'],
    ...['delete_llm_proxy', 'policy_simulate', 'aegis.workflow.promote', 'aegis.workflow.demote', 'agent_scope_set'],
    ...['finish_mcp_authorization', 'authorize_mcp_server'],
  ],
  'what comes with the program, or what its operator configured': [
    ...['aegis.runtime.list', 'aegis.schema.get', 'aegis.schema.validate', 'aegis.system.config'],
    ...['aegis.system.info', 'skill_list', 'get_autonomy_policy_operators', 'aegis.workflow.validate'],
  ],
  'tools, with the descriptions that every client has in its list': [
    ...['run_tool', 'search_tools', 'aegis.tools.list', 'aegis.tools.search', 'get_mcp_server_tools'],
    ...['bulk_assign_tools_to_agents', 'bulk_assign_tools_to_mcp_gateways', 'unassign_tools_from_mcp_gateway'],
  ],
  'rules, which no untrusted caller writes': [
    ...['get_tool_invocation_policies', 'get_tool_invocation_policy', 'get_trusted_data_policies'],
    ...['get_trusted_data_policy', 'policy_explain', 'get_limits', 'create_limit'],
  ],
  'short names and labels of people, keys, teams, roles, proxies, rules for models and projects, and answers without a purpose of a secret':
    [
      ...['api_key_list', 'api_key_revoke', 'role_list', 'role_delete', 'user_list', 'user_delete', 'user_team_list'],
      ...['user_team_create', 'user_team_update', 'user_team_delete', 'user_session_list', 'user_session_revoke'],
      ...['invitation_list', 'invitation_accept', 'invitation_cancel', 'oauth_client_list'],
      ...['oauth_client_delete', 'seal_session_create'],
      ...['secret_delete', 'secret_link_create', 'secret_link_submit', 'secret_rotate', 'virtual_key_create'],
      ...['virtual_key_get', 'virtual_key_list', 'virtual_key_revoke', 'virtual_key_rotate', 'create_llm_proxy'],
      ...['edit_llm_proxy', 'get_llm_proxy', 'list_llm_proxies', 'project_create', 'project_list'],
      ...['optimization_rule_create', 'optimization_rule_delete', 'optimization_rule_list', 'optimization_rule_update'],
      ...[
        'provider_key_create',
        'provider_key_delete',
        'provider_key_list',
        'provider_key_rotate',
        'provider_key_update',
      ],
    ],
}

const ownTools = Object.values(await loadAllTools()).flat()
let app: TestApp
let model: ScriptedModel
let upstream: McpUpstream
let sessions = 0
const connection = (more: object = {}): ToolCaller =>
  callerOf({ ...localOwner, mcpSessionId: `s${++sessions}`, ...more })
const isUntrusted = async (caller: ToolCaller): Promise<unknown> =>
  (await app.ask('context_trust_get', {}, caller))['untrusted']
const tainted = async (): Promise<ToolCaller> => {
  const caller = connection()
  await app.ask('up__echo', { text: 'obey' }, caller)
  return caller
}

/** Whether each call leaves a caller untrusted that was trusted before it. */
async function readersOf(calls: readonly (readonly [string, object])[], more: object = {}) {
  const found: Record<string, unknown> = {}
  for (const [tool, args] of calls) {
    const reader = connection(more)
    const { failure } = await app.call(tool, args, reader)
    found[tool] = failure === undefined ? await isUntrusted(reader) : failure
  }
  return found
}
const allOf = (calls: readonly (readonly [string, object])[], value: boolean) =>
  Object.fromEntries(calls.map(([tool]) => [tool, value]))

/** The lead hands its task on to the helper, which reads what nobody trusts. */
function script({ messages }: SeenRequest): Line {
  const isEndless = messages.some(({ content }) => String(content).includes('for ever'))
  if (messages.at(-1)!.role === 'tool' && !isEndless) return { text: 'done' }
  const prompt = String(messages[0]!.content)
  if (prompt === 'You lead.') return { toolCalls: [{ name: 'agent__helper', arguments: { message: 'read' } }] }
  return prompt === 'You read.' ? { toolCalls: [{ name: 'up__echo', arguments: { text: 'obey' } }] } : { text: 'plain' }
}

beforeAll(async () => {
  upstream = await startMcpUpstream()
  model = await startScriptedModel(script)
  const dataDir = mkdtempSync(join(tmpdir(), 'castellan-reading-'))
  const provider = { name: 'mock', type: 'openai-compatible', endpoint: `${model.url}/v1` }
  const models = { providers: [{ ...provider, models: [{ alias: 'default', model: 'mock' }] }], max_retries: 0 }
  const web = { allow_private_addresses: ['127.0.0.1'] }
  writeFileSync(join(dataDir, 'castellan.yaml'), JSON.stringify({ models, web, rate_limits: { enabled: false } }))
  app = await openTestApp({ dataDir })
  const item = await app.ask<{ id: string }>('create_mcp_server', { name: 'Up', serverUrl: upstream.url, scope: 'org' })
  await app.ask('deploy_mcp_server', { catalogId: item.id, scope: 'org' })
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await model.stop()
  await upstream[Symbol.asyncDispose]()
})

describe('every tool', () => {
  it('says that its answers carry trust, or is known to answer nothing that does', () => {
    const listed = Object.values(inOwnWords).flat()
    expect(listed.filter((name, index) => listed.indexOf(name) !== index)).toEqual([])
    const known = new Set(listed)
    const declared = ownTools.filter(({ trust }) => trust?.source ?? trust?.carries ?? trust?.reads ?? trust?.governs)
    for (const { name } of declared) known.add(name)
    expect(ownTools.map(({ name }) => name).filter((name) => !known.has(name))).toEqual([])
    const names = new Set(ownTools.map(({ name }) => name))
    expect(listed.filter((name) => !names.has(name))).toEqual([])
  })

  it('that runs programs of a workspace, or gives one a network, says that it can send', () => {
    const isRunning = (tool: (typeof ownTools)[number]) =>
      allRulesOf(tool).some((rules) => permissionsOf(rules).includes('workspace:exec'))
    const isOpening = ({ input }: (typeof ownTools)[number]) =>
      ['allow_internet', 'allowed_domains'].some((name) => name in (input as z.ZodObject).shape)
    const found = ownTools.filter((tool) => isRunning(tool) || isOpening(tool) || tool.name === 'workspace_fork')
    expect(found.length).toBeGreaterThan(10)
    // They start a run, which calls exec itself.
    const ofRun = ['aegis.execute', 'aegis.execute.intent']
    const silent = found.filter(({ trust }) => trust?.sends === undefined).map(({ name }) => name)
    expect(silent.sort()).toEqual(ofRun)
  })
})

describe('the output of a run that read untrusted data', () => {
  it('makes untrusted who reads it, by the id of any run in it', async () => {
    const helper = await app.ask<{ id: string }>('create_agent', {
      name: 'helper',
      systemPrompt: 'You read.',
      toolAssignments: [{ toolId: 'up__echo', resolveAtCallTime: true }],
    })
    await app.ask('create_agent', { name: 'lead', systemPrompt: 'You lead.', subAgentIds: [helper.id] })
    const run = async (agent_id: string) => {
      const started = await app.ask<{ execution_id: string }>(
        'aegis.task.execute',
        { agent_id, intent: 'go' },
        connection(),
      )
      await app.ask('aegis.task.wait', { execution_id: started.execution_id, timeout_seconds: 40 }, connection())
      return started.execution_id
    }
    const root = await run('lead')
    const { executions } = await app.ask<{ executions: { id: string }[] }>('aegis.task.list', { agent_id: 'helper' })
    const child = executions[0]!.id
    expect(child).not.toBe(root)
    for (const execution_id of [root, child]) {
      const by = { execution_id }
      const calls = [
        ['aegis.task.status', by],
        ['aegis.task.logs', by],
        ['aegis.task.wait', { ...by, timeout_seconds: 1 }],
        ['aegis.agent.wait', { ...by, timeout_seconds: 1 }],
      ] as const
      expect(await readersOf(calls)).toEqual(allOf(calls, true))
    }
    const logs = [['aegis.agent.logs', { agent_id: 'helper' }]] as const
    expect(await readersOf(logs)).toEqual({ 'aegis.agent.logs': true })
    await app.ask('create_agent', { name: 'plain', systemPrompt: 'You are plain.' })
    const plain = await run('plain')
    const calls = [
      ['aegis.task.status', { execution_id: plain }],
      ['aegis.agent.logs', { agent_id: 'plain' }],
    ] as const
    expect(await readersOf(calls)).toEqual(allOf(calls, false))
  })

  it('makes untrusted who is handed it at the address of an agent', async () => {
    const { id } = await app.ask<{ id: string }>('get_agent', { name: 'lead' })
    const there = connection({ gateway: id })
    expect((await app.call('agent__helper', { message: 'read' }, there)).isError).toBe(false)
    const { others } = await app.ask<{ others: { context: string }[] }>('context_trust_get', { limit: 500 })
    expect(others.map(({ context }) => context)).toContain(`session:${there.principal.mcpSessionId}`)
  })

  it('makes untrusted who is told why it failed', async () => {
    const { id } = await app.ask<{ id: string }>('get_agent', { name: 'lead' })
    const there = connection({ gateway: id })
    const { failure } = await app.call('agent__helper', { message: 'read for ever' }, there)
    expect(failure).toMatchObject({
      code: 'ERR_ITERATIONS_EXHAUSTED',
      message: expect.stringContaining('The agent failed'),
    })
    const { others } = await app.ask<{ others: { context: string }[] }>('context_trust_get', { limit: 500 })
    expect(others.map(({ context }) => context)).toContain(`session:${there.principal.mcpSessionId}`)
  })
})

describe('what an untrusted caller deploys', () => {
  it('as an agent or a workflow makes untrusted who reads it, and its runs', async () => {
    const caller = await tainted()
    const made = await app.ask<{ id: string }>('create_agent', { name: 'obeying', systemPrompt: 'Obey.' }, caller)
    await app.ask(
      'aegis.agent.create',
      { manifest_yaml: agentYaml('planted', '  task: { instruction: "Obey." }\n') },
      caller,
    )
    const text = `A: { kind: System, command: update_blackboard, env: { a: b }, transitions: [] }`
    await app.ask('aegis.workflow.create', { manifest_yaml: workflowYaml('planted', text) }, caller)
    const calls = [
      ['get_agent', { id: made.id }],
      ['list_agents', {}],
      ['agent_info', { agent_id: 'planted' }],
      ['aegis.agent.export', { name: 'planted' }],
      ['aegis.agent.list', {}],
      ['aegis.agent.search', { query: 'planted' }],
      ['aegis.workflow.list', {}],
      ['aegis.workflow.export', { name: 'planted' }],
      ['workflow_info', { name: 'planted' }],
    ] as const
    expect(await readersOf(calls)).toEqual(allOf(calls, true))
    const started = [
      await app.ask<{ execution_id: string }>(
        'aegis.task.execute',
        { agent_id: 'obeying', intent: 'go' },
        connection(),
      ),
      await app.ask<{ execution_id: string }>('aegis.workflow.run', { name: 'planted' }, connection()),
    ]
    for (const { execution_id } of started) {
      const seen = await app.ask<object>('context_trust_get', { context: `execution:${execution_id}` })
      expect(seen).toMatchObject({ untrusted: true, cause: { kind: 'inherited' } })
    }
    const by = { execution_id: started[1]!.execution_id }
    const shown = [
      ['aegis.workflow.executions.get', by],
      ['aegis.workflow.status', by],
      ['aegis.workflow.logs', by],
      ['aegis.workflow.wait', { ...by, timeout_seconds: 1 }],
    ] as const
    expect(await readersOf(shown)).toEqual(allOf(shown, true))
    const clean = [['agent_info', { agent_id: 'plain' }]] as const
    expect(await readersOf(clean)).toEqual({ agent_info: false })
  })

  it('as an MCP server or a request for one makes untrusted who reads it', async () => {
    const caller = await tainted()
    await app.ask('create_mcp_server', { name: 'Planted', serverUrl: upstream.url, description: 'obey' }, caller)
    await app.ask(
      'create_mcp_server_installation_request',
      { name: 'planted', serverUrl: 'https://example.com/mcp', reason: 'obey' },
      caller,
    )
    const calls = [
      ['get_mcp_servers', {}],
      ['search_private_mcp_registry', { query: 'planted' }],
      ['list_mcp_server_installation_requests', {}],
      ['list_registry_servers', {}],
    ] as const
    expect(await readersOf(calls)).toEqual(allOf(calls, true))
  })
})

describe('what passes without a context of its own', () => {
  it('is untrusted: texts of models, logs of servers, and the record for programs', async () => {
    const { items } = await app.ask<{ items: { deployments: { id: string }[] }[] }>('get_mcp_servers', {})
    const serverId = items.flatMap(({ deployments }) => deployments)[0]!.id
    const { interactions } = await app.ask<{ interactions: { id: string }[] }>('interaction_list', {})
    const calls = [
      ['get_mcp_server_logs', { serverId }],
      ['interaction_get', { id: interactions[0]!.id }],
      ['log_export', { limit: 1 }],
      ['sign_in_list', {}],
    ] as const
    expect(await readersOf(calls)).toEqual(allOf(calls, true))
    const console = callerOf({ ...localOwner, mcpSessionId: 'console' }, { transport: 'cli' })
    await app.ask('log_export', { limit: 1 }, console)
    await app.ask('sign_in_list', {}, console)
    expect(await isUntrusted(console)).toBe(false)
  })
})

describe('an approval that an untrusted caller asks for', () => {
  it('makes untrusted who reads its arguments at a program', async () => {
    const cli = callerOf(localOwner, { transport: 'cli' })
    const ask = { toolId: 'task_create', conditions: [], action: 'require_approval' }
    const { policy } = await app.ask<{ policy: { id: string } }>('create_tool_invocation_policy', ask, cli)
    const { details } = await app.refusal('task_create', { project: 'p', title: 'obey' }, await tainted())
    const calls = [
      ['approval_get', { id: details['approval_id'] }],
      ['approval_list', {}],
    ] as const
    expect(await readersOf(calls)).toEqual(allOf(calls, true))
    await app.ask('delete_tool_invocation_policy', { id: policy.id }, cli)
  })
})

describe('a team that an untrusted caller writes to', () => {
  it('makes the recipient untrusted, and a caller that has a member work taints its workspace', async () => {
    const clean = connection()
    for (const name of ['ours', 'theirs'])
      await app.ask('team', { action: 'create', name, roles: [{ name: 'a', role: 'worker' }] }, clean)
    const caller = await tainted()
    const post = { action: 'message', name: 'theirs', agent: 'owner', to: 'a' }
    await app.ask('team', { ...post, content: 'obey' }, caller)
    const received = async (name: string) => {
      const reader = connection()
      await app.ask('team', { action: 'receive', name, agent: 'a' }, reader)
      return await isUntrusted(reader)
    }
    expect([await received('ours'), await received('theirs')]).toEqual([false, true])
    const { members } = await app.ask<{ members: { workspace_id: string }[] }>(
      'team',
      { action: 'status', name: 'ours' },
      clean,
    )
    const task = { message_type: 'task_assignment', content: '{"task_id":"t","command":"echo obey"}' }
    await app.ask('team', { ...post, name: 'ours', ...task }, caller)
    const [{ workspace_id }] = members as [{ workspace_id: string }]
    expect(await app.ask('context_trust_get', { context: `workspace:${workspace_id}` })).toMatchObject({
      untrusted: true,
    })
  })
})

describe('a workspace that an untrusted caller wrote to', () => {
  it('makes untrusted who reads there, by whichever tool, and so does a file that left it', async () => {
    const clean = connection()
    const make = async (name: string) =>
      (await app.ask<{ workspace_id: string }>('workspace_create', { name }, clean)).workspace_id
    const [workspace_id, other] = [await make('w'), await make('v')]
    const caller = await tainted()
    const command = 'git init -q /workspace && echo obey > /workspace/a.txt'
    await app.ask('exec', { workspace_id, command }, caller)
    const w = { workspace_id }
    const calls = [
      ['exec', { ...w, command: 'true' }],
      ['exec_background', { ...w, action: 'list' }],
      ['exec_parallel', { workspace_ids: [workspace_id], commands: ['true'] }],
      ['file_read', { ...w, path: '/workspace/a.txt' }],
      ['file_list', { ...w, path: '/workspace' }],
      ['git_status', { ...w, path: '/workspace' }],
      ['git_diff', { ...w, path: '/workspace' }],
      ['cmd.run', { command: 'true' }],
      ['fs.read', { path: '/workspace/a.txt' }],
      ['fs.list', { path: '/workspace' }],
      ['fs.glob', { pattern: '*', path: '/workspace' }],
      ['fs.grep', { pattern: 'obey', path: '/workspace' }],
      ['file_transfer', { ...w, direction: 'download', guest_path: '/workspace/a.txt', host_path: 'out/a.txt' }],
    ] as const
    expect(await readersOf(calls, { workspaceId: workspace_id })).toEqual(allOf(calls, true))
    const taker = connection()
    await app.ask(
      'file_transfer',
      { workspace_id: other, direction: 'upload', guest_path: '/workspace/b.txt', host_path: './out//a.txt' },
      taker,
    )
    expect(await isUntrusted(taker)).toBe(true)
    expect(await readersOf([['file_list', { workspace_id: other, path: '/workspace' }]])).toEqual({ file_list: true })
  })
})
