import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import type { TestApp } from './app.ts'

/** Words of what is planted here; each follows `secret-` in a field that only its tenant may see. */
export const governanceWords = [
  'gateway',
  'server',
  'wanted',
  'note',
  'tool',
  'deployment-error',
  'client',
  'proxy',
  'model',
  'session',
  'reason',
  'cause',
  'argument',
  'prompt',
  'label',
  'virtual',
  'provider',
  'rule',
  'answer',
]

const approvalOf = (tenant: string) => ({
  ...{
    tenant,
    id: 'canary-approval',
    tool_id: 'web.fetch',
    tool: 'web.fetch',
    is_masked: 0,
    reason: 'secret-reason',
  },
  ...{
    arguments: '{"url":"secret-argument"}',
    arguments_digest: 'd',
    requester: 'key:canary',
    requested_by: 'canary',
  },
  ...{ context: 'session:canary-context', call_id: 'c', status: 'pending', created_at: 1, expires_at: 2 ** 52 },
})

/** An MCP server of a tenant with all that belongs to one, and a secret. Answers the ids of what others may name. */
export async function plantGovernance(app: TestApp, a: ToolCaller, tenant: string): Promise<readonly string[]> {
  const item = await app.ask<{ id: string }>(
    'create_mcp_server',
    { name: 'canary-server', description: 'secret-server', serverType: 'local', command: 'node' },
    a,
  )
  const gateway = await app.ask<{ id: string }>(
    'create_mcp_gateway',
    { name: 'canary-gateway', description: 'secret-gateway', scope: 'personal' },
    a,
  )
  const { limit } = await app.ask<{ limit: { id: string } }>(
    'create_limit',
    {
      entity_type: 'organization',
      entity_id: tenant,
      limit_type: 'token_cost',
      limit_value: 1,
      model: ['secret-model'],
    },
    a,
  )
  const { policy } = await app.ask<{ policy: { id: string } }>(
    'create_tool_invocation_policy',
    { toolId: 'web.fetch', conditions: [], action: 'allow_when_context_is_untrusted', reason: 'secret-reason' },
    a,
  )
  const assignment = { mcpGatewayId: gateway.id, toolId: 'task_list' }
  await app.ask('bulk_assign_tools_to_mcp_gateways', { assignments: [assignment] }, a)
  const proxy = await app.ask<{ id: string }>(
    'create_llm_proxy',
    { name: 'canary-proxy', description: 'secret-proxy', scope: 'personal' },
    a,
  )
  const forModels = await plantForModels(app, a, tenant)
  const client = await app.ask<{ id: string }>(
    'oauth_client_create',
    { name: 'secret-client', gateways: ['canary-gateway'] },
    a,
  )
  await app.ask('create_mcp_server_installation_request', { name: 'secret-wanted', reason: 'secret-note' }, a)
  const { reference } = await app.ask<{ reference: string }>('secret_link_create', { purpose: 'secret-purpose' }, a)
  app.behindItsBack((db) => {
    const insert = (table: string, row: Record<string, string | number | null>): void => {
      const names = Object.keys(row)
      const marks = names.map(() => '?').join()
      db.prepare(`INSERT INTO ${table} (${names.join()}) VALUES (${marks})`).run(...Object.values(row))
    }
    const initialize = '{"clientInfo":{"name":"secret-session"}}'
    insert('mcp_sessions', { tenant, id_hash: 'canary', identity: 'canary', initialize, used_at: 1 })
    insert('passed_answers', { tenant, key_hash: 'canary', sender: 's', answer: 'secret-answer', created_at: 1 })
    insert('mcp_tasks', {
      tenant,
      id: 'canary',
      identity: 'canary',
      process: 'p',
      view: '{"statusMessage":"secret-task"}',
      seen_at: 1,
    })
    const cause = JSON.stringify({ kind: 'tool_result', tool: 'secret-cause', callId: 'c' })
    insert('context_trust', { tenant, context: 'session:canary-context', cause, since: 1 })
    insert('approvals', approvalOf(tenant))
    const labels = JSON.stringify({ labels: { session: 'secret-label' }, decisions: [], teams: [] })
    insert('interactions', {
      ...{
        tenant,
        id: 'ixzcanary',
        started_at: 1,
        owner: 'key:secret-agent',
        source: 'proxy',
        session: 'secret-label',
      },
      ...{ provider: 'p', model: 'secret-model', outcome: 'ok', proxy_id: proxy.id, facts: labels },
    })
    insert('interaction_bodies', {
      ...{ tenant, id: 'ixzcanary', request: 'secret-prompt', answer: 'secret-prompt', is_whole: 1, is_redacted: 0 },
    })
    insert('token_usage', { tenant, profile_id: proxy.id, input_tokens: 1, output_tokens: 1 })
    const made = { created_at: 1, updated_at: 1 }
    const author = 'key:secret-agent'
    insert('secrets', {
      tenant,
      id: 'sec_canary',
      owner: author,
      purpose: 'secret-purpose',
      key_id: 'k',
      sealed: 'secret-value',
      ...made,
    })
    insert('mcp_deployments', {
      ...{ tenant, id: 'canary-deployment', catalog_id: item.id, scope: 'personal', author, holder: author },
      ...{ status: 'error', error: 'secret-deployment-error', field_values: '{}', tool_list: 'canary-list', ...made },
    })
    insert('mcp_tools', {
      ...{
        tenant,
        id: 'canary-tool-id',
        catalog_id: item.id,
        upstream_name: 'tool',
        name: 'canary_server__tool',
        aliases: '[]',
      },
      ...{ list_version: 1, removed_at: null },
    })
    insert('mcp_tool_definitions', {
      ...{ tenant, catalog_id: item.id, digest: 'canary-digest' },
      ...{ description: 'secret-tool', input_schema: '{"type":"object"}' },
    })
    insert('mcp_tool_lists', {
      ...{ tenant, catalog_id: item.id, id: 'canary-list', tools: '{"canary-tool-id":"canary-digest"}' },
    })
    db.exec(`INSERT INTO mcp_tool_versions VALUES ('${tenant}', 1) ON CONFLICT DO NOTHING`)
  })
  const ids = ['canary-deployment', 'canary-tool-id', 'sec_canary']
  return [
    limit.id,
    policy.id,
    'session:canary-context',
    'canary-approval',
    item.id,
    gateway.id,
    proxy.id,
    'ixzcanary',
    'canary-proxy',
    ...forModels,
    client.id,
    reference,
    'canary-server',
    'canary-gateway',
    'canary_server__tool',
    ...ids,
  ]
}

/** What decides which models are used, and who pays. */
async function plantForModels(app: TestApp, a: ToolCaller, tenant: string): Promise<readonly string[]> {
  const virtualKey = await app.ask<{ id: string }>('virtual_key_create', { name: 'secret-virtual', scope: 'org' }, a)
  const providerKey = await app.ask<{ id: string }>(
    'provider_key_create',
    { name: 'secret-provider', provider: 'openai', secret: 'secret-provider-key', scope: 'org' },
    a,
  )
  const { rule } = await app.ask<{ rule: { id: string } }>(
    'optimization_rule_create',
    {
      ...{ name: 'secret-rule', entity_type: 'organization', entity_id: tenant },
      ...{ provider: 'openai', models: ['secret-model'], target_model: 'gpt-5-mini', enabled: false },
    },
    a,
  )
  return [virtualKey.id, providerKey.id, rule.id]
}
