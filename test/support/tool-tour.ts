import { agentYaml } from './executions.ts'
import { workflowYaml } from './workflows.ts'

/**
 * Every tool once with arguments that succeed, in an order in which each finds what it needs. What an earlier answer said
 * is at `seen`, under the name of the tool that said it last.
 */
export type Seen = Readonly<Record<string, Readonly<Record<string, unknown>>>>
export type TourStep = Readonly<{
  tool: string
  args: Readonly<Record<string, unknown>> | ((seen: Seen) => Readonly<Record<string, unknown>>)
  /** The code of a call that must fail: what it needs is out of a test's reach, or the failure is what is shown. */
  fails?: string
}>

const PUBLIC_KEY = '6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw='
const agent = agentYaml('tourist', '  task: { instruction: "Answer." }\n  execution: { mode: one-shot }\n')
const asking = workflowYaml(
  'asking',
  `ASK: { kind: Human, prompt: "Go on?", transitions: [{ condition: input_equals_yes, target: DONE }] }
DONE: { kind: System, command: update_blackboard, env: { done: yes }, transitions: [] }`,
)
const failing = workflowYaml(
  'failing',
  `A: { kind: System, command: "false", transitions: [{ condition: on_success, target: B }] }
B: { kind: System, command: "true", transitions: [] }`,
)

const step = (tool: string, args: TourStep['args'] = {}, fails?: string): TourStep => ({
  tool,
  args,
  ...(fails === undefined ? {} : { fails }),
})
const run =
  (of: string) =>
  (seen: Seen): { execution_id: unknown } => ({
    execution_id: seen[of]!['execution_id'] ?? seen[of]!['pipeline_execution_id'],
  })

const ledger: readonly TourStep[] = [
  step('project_create', { project: 'tour' }),
  step('project_list'),
  step('task_create', { title: 'A task', project: 'tour' }),
  step('task_get', { task_id: 'T-0001', include_dependents: true, include_thought_trail: true }),
  step('task_list'),
  step('task_update', { task_id: 'T-0001', status: 'todo' }),
  step('task_next_actions'),
  step('audit_session_start', { task_id: 'T-0001', auditor_id: 'ann' }),
  step('thought_record', { task_id: 'T-0001', type: 'decision', content: 'So be it.' }),
  step('thought_record_list', { task_id: 'T-0001', verify_chain: true }),
  step('audit_verify_chain', { task_id: 'T-0001', full_trace: true }),
  step('merkle_finalize', { session_id: 'A-0001' }),
  step('merkle_root', { session_id: 'A-0001' }),
  step('log_checkpoint'),
  step('log_recover', { tenant: 'local', reason: 'tried' }, 'ERR_INVALID_INPUT'),
  step('clock_reset', { reason: 'tried' }),
  step('log_inclusion_proof', { seq: 0 }),
  step('log_consistency_proof', { old_size: 1, new_size: 2 }),
]

const idIn = (seen: Parameters<typeof requestOf>[0], tool: string, field: string): unknown =>
  (seen[tool]![field] as { id: unknown }).id
const requestOf = (seen: Readonly<Record<string, Record<string, unknown>>>): string =>
  (seen['create_mcp_server_installation_request']!['request'] as { id: string }).id

const platform: readonly TourStep[] = [
  step('server_ping'),
  step('server_health'),
  step('skill_list'),
  step('search_tools', { query: 'task' }),
  step('run_tool', { tool_name: 'task_list', tool_args: {} }),
  step('zaru.switch_mode', { target_mode: 'operator', reason: 'to see all' }),
  step('api_key_create', { name: 'guest' }),
  step('api_key_list'),
  step('api_key_revoke', { key: 'guest' }),
  step('role_create', { name: 'reader', permissions: ['task:read'] }),
  step('role_list'),
  step('role_delete', { name: 'reader' }),
  step('whoami'),
  step('seal_session_create', { public_key: PUBLIC_KEY }),
  step('seal_session_list'),
  step('seal_session_revoke', (seen) => ({ session_id: seen['seal_session_create']!['session_id'] })),
  step('secret_link_create', { purpose: 'Token' }),
  step('secret_link_submit', (seen) => ({
    token: String(seen['secret_link_create']!['url']).split('/').at(-1),
    values: { value: 'token' },
  })),
  step('secret_list'),
  step('secret_delete', (seen) => ({ id: seen['secret_link_create']!['reference'] })),
  step('secret_rotate'),
  step('create_mcp_gateway', { name: 'Tour gateway', scope: 'personal' }),
  step('list_mcp_gateways'),
  step('bulk_assign_tools_to_mcp_gateways', {
    assignments: [
      { mcpGatewayId: 'tour-gateway', toolId: 'task_list' },
      { mcpGatewayId: 'tour-gateway', toolId: 'none' },
    ],
  }),
  step('get_mcp_gateway', { name: 'tour gateway' }),
  step('read_mcp_resource', { uri: 'file:///none' }, 'ERR_NOT_FOUND'),
  step('get_mcp_prompt', { name: 'server__none' }, 'ERR_NOT_FOUND'),
  step('unassign_tools_from_mcp_gateway', { mcpGatewayId: 'tour-gateway', toolIds: ['task_list'] }),
  step('edit_mcp_gateway', { id: 'tour-gateway', toolExposureMode: 'search_and_run_only' }),
  step('delete_mcp_gateway', { id: 'tour-gateway' }),
  step('create_limit', {
    entity_type: 'organization',
    entity_id: 'local',
    limit_type: 'token_cost',
    limit_value: 5,
    model: ['some-model'],
  }),
  step('get_limits'),
  step('update_limit', (seen) => ({ id: idIn(seen, 'create_limit', 'limit'), limit_value: 6 })),
  step('delete_limit', (seen) => ({ id: idIn(seen, 'create_limit', 'limit') })),
  step('get_autonomy_policy_operators'),
  step('create_tool_invocation_policy', { toolId: 'web.fetch', conditions: [], action: 'block_always' }),
  step('get_tool_invocation_policies'),
  step('get_tool_invocation_policy', (seen) => ({ id: idIn(seen, 'create_tool_invocation_policy', 'policy') })),
  step('update_tool_invocation_policy', (seen) => ({
    id: idIn(seen, 'create_tool_invocation_policy', 'policy'),
    reason: 'For the tour.',
  })),
  step('policy_explain', { tool: 'web.fetch', arguments: { url: 'https://example.org' } }),
  step('policy_simulate', { policies: [{ toolId: 'task_list', conditions: [], action: 'block_always' }] }),
  step('delete_tool_invocation_policy', (seen) => ({ id: idIn(seen, 'create_tool_invocation_policy', 'policy') })),
  step('create_trusted_data_policy', { toolId: 'web.fetch', conditions: [], action: 'mark_as_trusted' }),
  step('get_trusted_data_policies'),
  step('get_trusted_data_policy', (seen) => ({ id: idIn(seen, 'create_trusted_data_policy', 'policy') })),
  step('update_trusted_data_policy', (seen) => ({
    id: idIn(seen, 'create_trusted_data_policy', 'policy'),
    description: 'For the tour.',
  })),
  step('delete_trusted_data_policy', (seen) => ({ id: idIn(seen, 'create_trusted_data_policy', 'policy') })),
  step('context_trust_get'),
  step('context_trust_clear', { context: 'session:none' }, 'ERR_NOT_FOUND'),
  step('create_llm_proxy', { name: 'Tour proxy', scope: 'personal' }),
  step('list_llm_proxies'),
  step('get_llm_proxy', { name: 'tour proxy' }),
  step('edit_llm_proxy', { id: 'tour-proxy', description: 'For the tour.' }),
  step('optimization_rule_create', {
    ...{ name: 'tour-rule', entity_type: 'organization', entity_id: 'local' },
    ...{ provider: 'gemini', max_tokens: 100, target_model: 'gemini-2.5-flash' },
  }),
  step('optimization_rule_list'),
  step('optimization_rule_update', { rule: 'tour-rule', enabled: false }),
  step('optimization_rule_delete', { rule: 'tour-rule' }),
  step('provider_key_create', { name: 'tour-provider', provider: 'openai', secret: 'sk-tour-1' }),
  step('provider_key_list'),
  step('provider_key_update', { key: 'tour-provider', primary: true }),
  step('provider_key_rotate', { key: 'tour-provider', secret: 'sk-tour-2' }),
  step('provider_key_delete', { key: 'tour-provider' }),
  step('virtual_key_create', { name: 'tour-key', proxies: ['tour-proxy'] }),
  step('virtual_key_list'),
  step('virtual_key_get', { key: 'tour-key' }),
  step('virtual_key_rotate', { key: 'tour-key' }),
  step('virtual_key_revoke', { key: 'tour-key' }),
  step('get_llm_proxy_token_usage', { id: 'tour-proxy' }),
  step('interaction_list', { totals: true }),
  step('interaction_get', { id: 'none' }, 'ERR_NOT_FOUND'),
  step('delete_llm_proxy', { id: 'tour-proxy' }),
  step('create_mcp_server_installation_request', { name: 'Wanted' }),
  step('list_mcp_server_installation_requests'),
  step('add_mcp_server_installation_request_note', (seen) => ({ id: requestOf(seen), note: 'Why?' })),
  step('decide_mcp_server_installation_request', (seen) => ({ id: requestOf(seen), decision: 'approved' })),
  step('user_team_create', { name: 'design' }),
  step('user_create', { email: 'ada@example.com', teams: ['design'] }),
  step('user_admit', { provider: 'none', email: 'eve@example.com' }, 'ERR_NOT_FOUND'),
  step('invitation_accept', (seen) => ({
    token: String(seen['user_create']!['link']).split('/').at(-1),
    password: 'correct horse battery',
  })),
  step('user_list'),
  step('user_update', { user: 'ada@example.com', role: 'editor' }),
  step('user_session_list', { user: 'ada@example.com' }),
  step('user_session_revoke', { user: 'ada@example.com', session: 'none' }, 'ERR_NOT_FOUND'),
  step('user_team_list'),
  step('user_team_update', { team: 'design', remove: ['ada@example.com'] }),
  step('user_team_delete', { team: 'design' }),
  step('create_mcp_gateway', { name: 'reports', scope: 'personal' }),
  step('oauth_client_create', { name: 'nightly', gateways: ['reports'] }),
  step('oauth_client_list'),
  step('oauth_client_delete', { client: 'nightly' }),
  step('invitation_create', { email: 'bob@example.com' }),
  step('invitation_list'),
  step('invitation_cancel', (seen) => ({ invitation: seen['invitation_create']!['id'] })),
  step('user_delete', { user: 'ada@example.com' }),
  step('aegis.tools.list'),
  step('aegis.tools.search', { query: 'file' }),
  step('aegis.runtime.list'),
  step('aegis.schema.get', { key: 'agent/manifest/v1' }),
  step('aegis.schema.validate', { kind: 'agent', manifest_yaml: agent }),
  step('aegis.system.config'),
  step('aegis.system.info'),
  step('vault', { action: 'write', path: 'note.md', content: '---\nx: 1\n---\nText.' }),
  ...[
    { action: 'read', path: 'note.md' },
    { action: 'search', query: 'Text' },
    { action: 'list' },
    { action: 'frontmatter', path: 'note.md', frontmatter_action: 'get' },
    { action: 'tags', path: 'note.md', tags_action: 'list' },
    { action: 'batch_read', paths: ['note.md', 'none.md'] },
    { action: 'stats' },
  ].map((args) => step('vault', args)),
]

const agents: readonly TourStep[] = [
  step('create_agent', { name: 'Guide', systemPrompt: 'Show the way.' }),
  step('edit_agent', { id: 'Guide', description: 'Knows the way.' }),
  step('get_agent', { name: 'Guide' }),
  step('list_agents'),
  step('aegis.agent.create', { manifest_yaml: agent }),
  step('get_agent_token_usage', { id: 'tourist' }),
  step('aegis.agent.update', { manifest_yaml: agent, force: true }),
  step('bulk_assign_tools_to_agents', { assignments: [{ agentId: 'tourist', toolId: 'task_list' }] }),
  step('aegis.agent.list', { details: true }),
  step('aegis.agent.search', { query: 'tourist' }),
  step('aegis.agent.export', { name: 'tourist' }),
  step('agent_info', { agent_id: 'tourist' }),
  step('agent_scope_set', { agent_id: 'tourist', scope: 'tenant' }),
  step('aegis.task.execute', { agent_id: 'tourist', intent: 'Say hello.' }),
  step('aegis.task.wait', run('aegis.task.execute')),
  step('aegis.agent.wait', run('aegis.task.execute')),
  step('aegis.task.status', run('aegis.task.execute')),
  step('aegis.task.logs', run('aegis.task.execute')),
  step('aegis.task.list', {}),
  step('aegis.agent.logs', { agent_id: 'tourist' }),
  step('execution_replay', run('aegis.task.execute')),
  step('execution_fork', (seen) => ({ ...run('aegis.task.execute')(seen), iteration: 1, max_iterations: 2 })),
  step('aegis.task.wait', run('execution_fork')),
  step('execution_file_read', (seen) => ({ ...run('aegis.task.execute')(seen), path: 'none' }), 'ERR_FILE_NOT_FOUND'),
  step('aegis.task.cancel', run('aegis.task.execute'), 'ERR_EXECUTION_STATE'),
  step('aegis.task.remove', run('aegis.task.execute')),
  step('aegis.agent.generate', { input: 'An agent that greets.' }),
  step('aegis.task.wait', run('aegis.agent.generate')),
  step('aegis.execute.intent', { intent: 'Print a word.', language: 'bash' }),
  step('aegis.execute.status', (seen) => ({
    pipeline_execution_id: seen['aegis.execute.intent']!['pipeline_execution_id'],
  })),
  step('aegis.execute.wait', run('aegis.execute.intent')),
  step('aegis.execute', { prompt: 'Print a word.', language: 'bash' }),
  step('aegis.execute.wait', run('aegis.execute')),
  step('aegis.agent.delete', (seen) => ({ agent_id: seen['aegis.agent.create']!['agent_id'] })),
]

const workflows: readonly TourStep[] = [
  step('aegis.workflow.validate', { manifest_yaml: asking }),
  step('aegis.workflow.create', { manifest_yaml: asking }),
  step('aegis.workflow.create', { manifest_yaml: failing }),
  step('aegis.workflow.update', { manifest_yaml: asking, force: true }),
  step('aegis.workflow.list'),
  step('aegis.workflow.search', { query: 'asking' }),
  step('aegis.workflow.export', { name: 'asking' }),
  step('workflow_info', { name: 'asking' }),
  step('aegis.workflow.promote', { name: 'asking' }),
  step('aegis.workflow.demote', { name: 'asking' }),
  // A run that fails: its error is an object.
  step('aegis.workflow.run', { name: 'failing' }),
  step('aegis.workflow.wait', run('aegis.workflow.run')),
  step('aegis.workflow.executions.get', run('aegis.workflow.run')),
  // A run that waits for a person.
  step('aegis.workflow.run', { name: 'asking', input: {} }),
  step('aegis.workflow.wait', (seen) => ({ ...run('aegis.workflow.run')(seen), timeout_seconds: 1 })),
  step('approval_list'),
  step('approval_get', (seen) => ({ id: run('aegis.workflow.run')(seen).execution_id })),
  step('aegis.workflow.status', run('aegis.workflow.run')),
  // The document's own way to say no: an answer with `error` as text.
  step('aegis.workflow.remove', run('aegis.workflow.run')),
  step('aegis.workflow.signal', (seen) => ({ ...run('aegis.workflow.run')(seen), response: 'yes' })),
  step('aegis.workflow.wait', run('aegis.workflow.run')),
  step('aegis.workflow.signal', (seen) => ({ ...run('aegis.workflow.run')(seen), response: 'yes' })),
  step('aegis.workflow.cancel', run('aegis.workflow.run')),
  step('approval_answer', { id: 'none', decision: 'approve' }, 'ERR_NOT_FOUND'),
  step('aegis.workflow.executions.get', run('aegis.workflow.run')),
  step('aegis.workflow.executions.list'),
  step('aegis.workflow.logs', run('aegis.workflow.run')),
  step('aegis.workflow.remove', run('aegis.workflow.run')),
  step('aegis.workflow.generate', { input: 'A workflow that greets.' }),
  step('aegis.task.wait', run('aegis.workflow.generate')),
  step('aegis.workflow.delete', { name: 'asking' }),
]

const w = { workspace_id: 'w' }
const workspaces = (webUrl: string): readonly TourStep[] => [
  step('workspace_create', { name: 'w' }),
  step('workspace_info', w),
  step('workspace_list'),
  step('exec', {
    ...w,
    command: 'git init -q -b main /repo && git init -q --bare /far.git && git -C /repo remote add far /far.git',
  }),
  step('exec_background', { ...w, action: 'start', command: 'true' }),
  step('exec_background', { ...w, action: 'poll', job_id: 1 }),
  step('exec_background', { ...w, action: 'list' }),
  step('exec_parallel', { workspace_ids: ['w'], commands: ['true'] }),
  step('set_env', { ...w, vars: { A: 'b' } }),
  step('file_write', { ...w, path: '/repo/a.txt', content: 'one\n' }),
  step('file_read', { ...w, path: '/repo/a.txt' }),
  step('file_edit', { ...w, path: '/repo/a.txt', old_string: 'one', new_string: 'two' }),
  step('file_list', { ...w, path: '/repo' }),
  step('file_transfer', { ...w, direction: 'download', guest_path: '/repo/a.txt', host_path: 'a.txt' }),
  step('git_commit', { ...w, path: '/repo', message: 'First', add_all: true }),
  step('git_status', { ...w, path: '/repo' }),
  step('git_diff', { ...w, path: '/repo' }),
  step('git_push', { ...w, path: '/repo', remote: 'far', branch: 'main' }),
  // Nothing outside is within reach of a test.
  step('git_clone', { ...w, url: 'https://127.0.0.1:9/none.git', path: '/clone' }, 'ERR_GIT_FAILED'),
  step('network_policy', { ...w, allow_internet: false }),
  step('port_forward', { ...w, action: 'list', guest_port: 80 }),
  step('workspace_resize', { ...w, memory_mb: 3072 }),
  step('workspace_logs', w),
  step('snapshot', { ...w, action: 'create', name: 's' }),
  step('snapshot', { ...w, action: 'list' }),
  step('workspace_fork', { ...w, snapshot_name: 's', new_name: 'f' }),
  step('exec', {
    workspace_id: 'f',
    command: 'cd /repo && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m more',
  }),
  step('workspace_merge', { source_workspaces: ['f'], target_workspace: 'w', strategy: 'sequential', path: '/repo' }),
  step('workspace_adopt', { workspace_id: 'f' }),
  step('swarm_run', { golden_workspace: 'w', snapshot_name: 's', tasks: [{ name: 'a', command: 'true' }] }),
  step('workspace_prepare', { name: 'golden', setup_commands: ['true'] }),
  step('team', { action: 'create', name: 't', roles: [{ name: 'a', role: 'worker' }] }),
  step('team', { action: 'status', name: 't' }),
  step('team', { action: 'list' }),
  step('team', { action: 'message', name: 't', agent: 'a', to: 'a', content: 'hello' }),
  step('team', { action: 'receive', name: 't', agent: 'a' }),
  step('team', { action: 'destroy', name: 't' }),
  step('workspace_stop', w),
  step('workspace_start', w),
  step('workspace_destroy', w),
  step('cmd.run', { command: 'true' }),
  step('fs.create_dir', { path: '/workspace/d' }),
  step('fs.create.dir', { path: '/workspace/e' }),
  step('fs.write', { path: '/workspace/d/a.txt', content: 'one\n' }),
  step('fs.read', { path: '/workspace/d/a.txt' }),
  step('fs.edit', { path: '/workspace/d/a.txt', target_content: 'one', replacement_content: 'two' }),
  step('fs.multi_edit', {
    path: '/workspace/d/a.txt',
    edits: [{ target_content: 'two', replacement_content: 'three' }],
  }),
  step('fs.list', { path: '/workspace/d' }),
  step('fs.glob', { path: '/workspace', pattern: '**/*.txt' }),
  step('fs.grep', { path: '/workspace', pattern: 'three' }),
  step('fs.delete', { path: '/workspace/d', recursive: true }),
  step('web.fetch', { url: webUrl }),
  step('web.search', { query: 'castle' }),
]

/** What makes who reads it untrusted comes after what no untrusted caller may do. */
const servers: readonly TourStep[] = [
  step('create_mcp_server', {
    name: 'Tour',
    command: 'node',
    arguments: ['-e', 'process.exit(1)'],
    dockerImage: 'tour/none',
  }),
  step('search_private_mcp_registry', { query: 'tour' }),
  step('list_registry_servers', { search: 'tour' }),
  step('edit_mcp_description', { id: 'tour', description: 'Of the tour.' }),
  step('edit_mcp_config', { id: 'tour', transportType: 'stdio' }),
  step('deploy_mcp_server', { catalogId: 'tour' }),
  step('install_mcp_server', { catalogId: 'tour' }),
  step('get_mcp_servers'),
  step('get_mcp_server_tools', { mcpServerId: 'tour' }),
  step('list_mcp_server_deployments'),
  step('get_mcp_server_logs', (seen) => ({ serverId: seen['deploy_mcp_server']!['id'] })),
  step('authorize_mcp_server', (seen) => ({ serverId: seen['deploy_mcp_server']!['id'] }), 'ERR_INVALID_INPUT'),
  step('finish_mcp_authorization', { state: 'x'.repeat(43), code: 'c' }, 'ERR_NOT_FOUND'),
  step('delete_mcp_server_deployment', (seen) => ({ serverId: seen['deploy_mcp_server']!['id'] })),
  step('delete_mcp_server', { id: 'tour' }),
  step('sign_in_list'),
  step('log_export', { limit: 2 }),
]

export const toolTour = (webUrl: string): readonly TourStep[] => [
  ...ledger,
  ...platform,
  ...agents,
  ...workflows,
  ...workspaces(webUrl),
  ...servers,
]
