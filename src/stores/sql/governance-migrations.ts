import type { Migration } from './migrations.ts'
import { peopleMigrations } from './people-migrations.ts'
import { serviceClientMigrations } from './service-client-migrations.ts'

/** Migrations after the tables of the ledger, the workspaces and the agents. New ones are added at the end. */
export const governanceMigrations: readonly Migration[] = [
  {
    name: 'sharing and profiles',
    statements: [
      `CREATE TABLE shared_with_teams (
        tenant TEXT NOT NULL, kind TEXT NOT NULL, resource_id TEXT NOT NULL, team_id TEXT NOT NULL,
        PRIMARY KEY (tenant, kind, resource_id, team_id))`,
      'CREATE INDEX shared_with_teams_by_team ON shared_with_teams (tenant, team_id)',
      `CREATE TABLE profiles (
        tenant TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, name_key TEXT NOT NULL,
        slug TEXT NOT NULL, description TEXT, scope TEXT NOT NULL, author TEXT NOT NULL, icon TEXT, labels TEXT NOT NULL,
        system_prompt TEXT, suggested_prompts TEXT NOT NULL, exposure TEXT NOT NULL, context_untrusted $integer NOT NULL,
        is_default $integer NOT NULL, created_at $integer NOT NULL, updated_at $integer NOT NULL,
        PRIMARY KEY (tenant, id))`,
      'CREATE INDEX profiles_by_name ON profiles (tenant, kind, name_key, id)',
      'CREATE INDEX profiles_by_slug ON profiles (tenant, slug)',
      `CREATE TABLE profile_sub_agents (
        tenant TEXT NOT NULL, profile_id TEXT NOT NULL, sub_agent_id TEXT NOT NULL, added_at $integer NOT NULL,
        PRIMARY KEY (tenant, profile_id, sub_agent_id))`,
      'CREATE INDEX profile_sub_agents_by_agent ON profile_sub_agents (tenant, sub_agent_id)',
      // A name is unique within its scope, which the domain enforces.
      { only: 'sqlite', sql: 'ALTER TABLE agents RENAME TO agents_with_unique_names' },
      {
        only: 'sqlite',
        sql: `CREATE TABLE agents (
          tenant TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL, latest_version TEXT NOT NULL,
          description TEXT NOT NULL, labels TEXT NOT NULL, created_at INTEGER NOT NULL, created_by TEXT NOT NULL,
          updated_at INTEGER NOT NULL, PRIMARY KEY (tenant, id))`,
      },
      { only: 'sqlite', sql: 'INSERT INTO agents SELECT * FROM agents_with_unique_names' },
      { only: 'sqlite', sql: 'DROP TABLE agents_with_unique_names' },
      { only: 'postgres', sql: 'ALTER TABLE agents DROP CONSTRAINT agents_tenant_name_key' },
      'CREATE INDEX agents_by_name ON agents (tenant, name)',
      // Every user of the tenant could see an agent. Its author is known by name only; a key with that name determines the identity.
      `INSERT INTO profiles (tenant, id, kind, name, name_key, slug, description, scope, author, icon, labels, system_prompt,
          suggested_prompts, exposure, context_untrusted, is_default, created_at, updated_at)
        SELECT tenant, id, 'agent', name, lower(name), name, description, 'org',
          COALESCE((SELECT 'key:' || api_keys.id FROM api_keys
            WHERE api_keys.tenant = agents.tenant AND api_keys.name = agents.created_by
            ORDER BY api_keys.created_at DESC, api_keys.id LIMIT 1), created_by),
          NULL, '[]', NULL, '[]', 'full', 0, 0, created_at, updated_at FROM agents`,
      {
        only: 'sqlite',
        sql: `UPDATE profiles SET labels = (
          SELECT json_group_array(json_object('key', pair.key, 'value', pair.value))
          FROM agents, json_each(agents.labels) AS pair WHERE agents.tenant = profiles.tenant AND agents.id = profiles.id)`,
      },
      {
        only: 'postgres',
        sql: `UPDATE profiles SET labels = COALESCE((
          SELECT json_agg(json_build_object('key', pair.key, 'value', pair.value))
          FROM agents, json_each_text(agents.labels::json) AS pair
          WHERE agents.tenant = profiles.tenant AND agents.id = profiles.id)::text, '[]')`,
      },
    ],
  },
  {
    name: 'custom roles',
    statements: [
      `CREATE TABLE roles (
        tenant TEXT NOT NULL, name TEXT NOT NULL, description TEXT NOT NULL, permissions TEXT NOT NULL,
        created_at $integer NOT NULL, created_by TEXT NOT NULL, PRIMARY KEY (tenant, name))`,
    ],
  },
  {
    name: 'MCP servers',
    statements: [
      `CREATE TABLE mcp_catalog_items (
        tenant TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, name_key TEXT NOT NULL, slug TEXT NOT NULL,
        scope TEXT NOT NULL, author TEXT NOT NULL, about TEXT NOT NULL, server_type TEXT NOT NULL, config TEXT NOT NULL,
        created_at $integer NOT NULL, updated_at $integer NOT NULL, PRIMARY KEY (tenant, id))`,
      'CREATE INDEX mcp_catalog_items_by_name ON mcp_catalog_items (tenant, name_key, id)',
      `CREATE TABLE mcp_deployments (
        tenant TEXT NOT NULL, id TEXT NOT NULL, catalog_id TEXT NOT NULL, scope TEXT NOT NULL, author TEXT NOT NULL,
        holder TEXT NOT NULL, status TEXT NOT NULL, error TEXT, field_values TEXT NOT NULL, created_at $integer NOT NULL,
        updated_at $integer NOT NULL, PRIMARY KEY (tenant, id), UNIQUE (tenant, catalog_id, scope, holder))`,
      `CREATE TABLE mcp_tools (
        tenant TEXT NOT NULL, id TEXT NOT NULL, catalog_id TEXT NOT NULL, upstream_name TEXT NOT NULL, name TEXT NOT NULL,
        aliases TEXT NOT NULL, title TEXT, description TEXT NOT NULL, input_schema TEXT NOT NULL, output_schema TEXT,
        annotations TEXT, list_version $integer NOT NULL, removed_at $integer, PRIMARY KEY (tenant, id),
        UNIQUE (tenant, catalog_id, upstream_name))`,
      'CREATE INDEX mcp_tools_by_name ON mcp_tools (tenant, name)',
      'CREATE TABLE mcp_tool_versions (tenant TEXT PRIMARY KEY, version $integer NOT NULL)',
    ],
  },
  {
    name: 'installation requests',
    statements: [
      `CREATE TABLE mcp_installation_requests (
        tenant TEXT NOT NULL, id TEXT NOT NULL, author TEXT NOT NULL, wanted TEXT NOT NULL, status TEXT NOT NULL,
        notes TEXT NOT NULL, decided_by TEXT, decided_at $integer, created_at $integer NOT NULL, PRIMARY KEY (tenant, id))`,
      'CREATE INDEX mcp_installation_requests_by_time ON mcp_installation_requests (tenant, created_at, id)',
    ],
  },
  ...peopleMigrations,
  {
    name: 'tool assignments',
    statements: [
      `CREATE TABLE tool_assignments (
        tenant TEXT NOT NULL, profile_id TEXT NOT NULL, tool_id TEXT NOT NULL, mode TEXT NOT NULL, deployment_id TEXT,
        created_at $integer NOT NULL, updated_at $integer NOT NULL, PRIMARY KEY (tenant, profile_id, tool_id))`,
      'CREATE INDEX tool_assignments_by_tool ON tool_assignments (tenant, tool_id)',
    ],
  },
  ...serviceClientMigrations,
  { name: 'OAuth of MCP servers', statements: ['ALTER TABLE mcp_deployments ADD COLUMN oauth_grant TEXT'] },
  {
    name: 'usage limits',
    statements: [
      `CREATE TABLE usage_limits (
        tenant TEXT NOT NULL, id TEXT NOT NULL, entity_type TEXT NOT NULL, entity_id TEXT NOT NULL, limit_type TEXT NOT NULL,
        limit_value $real NOT NULL, models TEXT, cleanup_interval TEXT NOT NULL, server TEXT, tool TEXT,
        anchor $integer NOT NULL, period_start $integer NOT NULL, used $integer NOT NULL, created_at $integer NOT NULL,
        created_by TEXT NOT NULL, PRIMARY KEY (tenant, id))`,
    ],
  },
  {
    name: 'secrets of sessions',
    statements: [
      'ALTER TABLE secrets ADD COLUMN session_id TEXT REFERENCES user_sessions (id) ON DELETE CASCADE',
      'CREATE INDEX secrets_by_session ON secrets (session_id)',
    ],
  },
  {
    name: 'sessions of MCP clients',
    statements: [
      `CREATE TABLE mcp_sessions (
        tenant TEXT NOT NULL, id_hash TEXT NOT NULL, identity TEXT NOT NULL, initialize TEXT NOT NULL,
        used_at $integer NOT NULL, PRIMARY KEY (tenant, id_hash))`,
      'CREATE INDEX mcp_sessions_by_identity ON mcp_sessions (tenant, identity, used_at)',
      'CREATE INDEX mcp_sessions_by_use ON mcp_sessions (tenant, used_at)',
    ],
  },
  {
    name: 'passkeys',
    statements: [
      `CREATE TABLE user_passkeys (
        id TEXT PRIMARY KEY, name TEXT, "publicKey" TEXT NOT NULL,
        "userId" TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE, "credentialID" TEXT NOT NULL,
        counter $integer NOT NULL, "deviceType" TEXT NOT NULL, "backedUp" $integer NOT NULL, transports TEXT,
        "createdAt" TEXT, aaguid TEXT)`,
      'CREATE INDEX user_passkeys_by_user ON user_passkeys ("userId")',
      'CREATE INDEX user_passkeys_by_credential ON user_passkeys ("credentialID")',
    ],
  },
  {
    name: 'networks of attempts to sign in',
    statements: [
      'ALTER TABLE sign_in_attempts ADD COLUMN network TEXT',
      'DROP INDEX sign_in_attempts_by_address',
      'CREATE INDEX sign_in_attempts_by_network ON sign_in_attempts (network, at)',
    ],
  },
  {
    name: 'tool policies and the trust of contexts',
    statements: [
      `CREATE TABLE tool_policies (
        tenant TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, tool_id TEXT NOT NULL, conditions TEXT NOT NULL,
        is_default $integer NOT NULL, action TEXT NOT NULL, note TEXT, position $integer NOT NULL,
        created_at $integer NOT NULL, updated_at $integer NOT NULL, PRIMARY KEY (tenant, id))`,
      'CREATE INDEX tool_policies_in_order ON tool_policies (tenant, position)',
      `CREATE UNIQUE INDEX tool_policies_one_default ON tool_policies (tenant, tool_id)
        WHERE kind = 'invocation' AND is_default = 1`,
      'CREATE TABLE tool_policy_versions (tenant TEXT PRIMARY KEY, version $integer NOT NULL)',
      `CREATE TABLE context_trust (
        tenant TEXT NOT NULL, context TEXT NOT NULL, cause TEXT NOT NULL, since $integer NOT NULL,
        PRIMARY KEY (tenant, context))`,
    ],
  },
  {
    name: 'tools of servers that answer by tasks',
    statements: ['ALTER TABLE mcp_tools ADD COLUMN task_support TEXT'],
  },
  {
    name: 'interactions with models',
    statements: [
      `CREATE TABLE interactions (
        tenant TEXT NOT NULL, id TEXT NOT NULL, started_at $integer NOT NULL, owner TEXT NOT NULL, source TEXT NOT NULL,
        agent_id TEXT, proxy_id TEXT, run_id TEXT, session TEXT, provider TEXT NOT NULL, model TEXT, outcome TEXT NOT NULL,
        input_tokens $integer, output_tokens $integer, cache_read_tokens $integer, cache_write_tokens $integer,
        reasoning_tokens $integer, cost $integer, facts TEXT NOT NULL, PRIMARY KEY (tenant, id))`,
      'CREATE INDEX interactions_by_owner ON interactions (tenant, owner, id)',
      'CREATE INDEX interactions_by_run ON interactions (tenant, run_id, id) WHERE run_id IS NOT NULL',
      `CREATE TABLE interaction_bodies (
        tenant TEXT NOT NULL, id TEXT NOT NULL, request TEXT, answer TEXT, is_whole $integer NOT NULL,
        is_redacted $integer NOT NULL, PRIMARY KEY (tenant, id))`,
      `CREATE TABLE token_usage (
        tenant TEXT NOT NULL, profile_id TEXT NOT NULL, input_tokens $integer NOT NULL, output_tokens $integer NOT NULL,
        PRIMARY KEY (tenant, profile_id))`,
    ],
  },
  {
    name: 'keys of users',
    statements: [
      'ALTER TABLE api_keys ADD COLUMN user_id TEXT',
      'CREATE INDEX api_keys_by_user ON api_keys (tenant, user_id) WHERE user_id IS NOT NULL',
    ],
  },
  {
    name: 'virtual keys',
    statements: [
      `CREATE TABLE virtual_keys (
        tenant TEXT NOT NULL, id TEXT NOT NULL, prefix TEXT NOT NULL UNIQUE, hash TEXT NOT NULL, name TEXT NOT NULL,
        scope TEXT NOT NULL, author TEXT NOT NULL, grants TEXT NOT NULL, created_at $integer NOT NULL,
        created_by TEXT NOT NULL, rotated_at $integer, expires_at $integer, last_used_at $integer, revoked_at $integer,
        PRIMARY KEY (tenant, id))`,
      'CREATE INDEX virtual_keys_by_name ON virtual_keys (tenant, name)',
      'CREATE INDEX virtual_keys_by_author ON virtual_keys (tenant, author)',
    ],
  },
  {
    name: 'approvals of tool calls',
    statements: [
      `CREATE TABLE approvals (
        tenant TEXT NOT NULL, id TEXT NOT NULL, tool_id TEXT NOT NULL, tool TEXT NOT NULL, arguments TEXT NOT NULL,
        is_masked $integer NOT NULL, arguments_digest TEXT NOT NULL, reason TEXT NOT NULL, policy TEXT, requester TEXT NOT NULL,
        requested_by TEXT NOT NULL, context TEXT NOT NULL, started_from TEXT, call_id TEXT NOT NULL, run_id TEXT, wait_key TEXT,
        status TEXT NOT NULL, created_at $integer NOT NULL, expires_at $integer NOT NULL, answered_at $integer, answered_by TEXT,
        note TEXT, used_at $integer, PRIMARY KEY (tenant, id))`,
      'CREATE INDEX approvals_of_call ON approvals (tenant, requester, arguments_digest)',
      'CREATE INDEX approvals_newest ON approvals (tenant, created_at)',
      'CREATE INDEX approvals_over ON approvals (tenant, expires_at)',
    ],
  },
  {
    name: 'keys of providers',
    statements: [
      `CREATE TABLE provider_keys (
        tenant TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, provider TEXT NOT NULL, scope TEXT NOT NULL,
        author TEXT NOT NULL, is_primary $integer NOT NULL, secret TEXT NOT NULL, owns_secret $integer NOT NULL,
        created_at $integer NOT NULL, created_by TEXT NOT NULL, rotated_at $integer, PRIMARY KEY (tenant, id))`,
      'CREATE INDEX provider_keys_by_provider ON provider_keys (tenant, provider)',
      'CREATE INDEX provider_keys_by_author ON provider_keys (tenant, author)',
    ],
  },
  {
    name: 'answers of clients at another process',
    statements: [
      `CREATE TABLE passed_answers (
        tenant TEXT NOT NULL, key_hash TEXT NOT NULL, sender TEXT NOT NULL, answer TEXT NOT NULL,
        created_at $integer NOT NULL, taken_at $integer, outcome TEXT, PRIMARY KEY (tenant, key_hash))`,
    ],
  },
  {
    name: 'credentials of untrusted contexts',
    statements: [
      'ALTER TABLE context_trust ADD COLUMN credential TEXT',
      'ALTER TABLE context_trust ADD COLUMN seen $integer NOT NULL DEFAULT 0',
      'UPDATE context_trust SET seen = since',
      // A key without sessions is one context, whose name says which key it is.
      `UPDATE context_trust SET credential = substr(context, 8) WHERE context LIKE 'caller:key:%' AND context NOT LIKE '%@%'`,
      'CREATE INDEX context_trust_of_credential ON context_trust (tenant, credential, seen) WHERE credential IS NOT NULL',
    ],
  },
  {
    name: 'rules for cheaper models',
    statements: [
      `CREATE TABLE optimization_rules (
        tenant TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, entity_type TEXT NOT NULL, entity_id TEXT NOT NULL,
        provider TEXT NOT NULL, conditions TEXT NOT NULL, target_model TEXT NOT NULL, is_enabled $integer NOT NULL,
        created_at $integer NOT NULL, created_by TEXT NOT NULL, PRIMARY KEY (tenant, id))`,
      'ALTER TABLE interactions ADD COLUMN saved $integer',
    ],
  },
  {
    name: 'notifications and tasks at another process',
    statements: [
      'ALTER TABLE passed_answers ADD COLUMN notices TEXT',
      `CREATE TABLE mcp_tasks (
        tenant TEXT NOT NULL, id TEXT NOT NULL, identity TEXT NOT NULL, process TEXT NOT NULL, view TEXT NOT NULL,
        seen_at $integer NOT NULL, PRIMARY KEY (tenant, id))`,
      'CREATE INDEX mcp_tasks_by_identity ON mcp_tasks (tenant, identity)',
      'CREATE INDEX mcp_tasks_by_process ON mcp_tasks (tenant, process)',
    ],
  },
  {
    name: 'choices of MCP clients',
    statements: [
      'ALTER TABLE mcp_sessions ADD COLUMN choices TEXT',
      'ALTER TABLE mcp_sessions ADD COLUMN chosen_at $integer',
      'CREATE INDEX mcp_sessions_by_choice ON mcp_sessions (tenant, chosen_at) WHERE chosen_at IS NOT NULL',
    ],
  },
  {
    name: 'sessions that end at every process',
    statements: [
      'ALTER TABLE mcp_sessions ADD COLUMN ended_at $integer',
      'CREATE INDEX mcp_sessions_by_end ON mcp_sessions (tenant, ended_at) WHERE ended_at IS NOT NULL',
      'ALTER TABLE users ADD COLUMN sign_outs $integer NOT NULL DEFAULT 0',
    ],
  },
  {
    name: 'terminals that wait for a person',
    statements: [
      `CREATE TABLE device_authorizations (
        id TEXT PRIMARY KEY, code_hash TEXT NOT NULL UNIQUE, user_code TEXT NOT NULL UNIQUE,
        client_id TEXT NOT NULL REFERENCES oauth_clients ("clientId") ON DELETE CASCADE, scopes TEXT NOT NULL,
        resources TEXT NOT NULL, address TEXT NOT NULL, network TEXT NOT NULL, created_at $integer NOT NULL,
        expires_at $integer NOT NULL, status TEXT NOT NULL, user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
        interval_ms $integer NOT NULL, polled_at $integer)`,
      'CREATE INDEX device_authorizations_by_network ON device_authorizations (network)',
      'CREATE INDEX device_authorizations_by_end ON device_authorizations (expires_at)',
    ],
  },
  {
    name: 'costs in billionths of a dollar',
    // The largest integer that can be read is 9007199254740991.
    statements: [
      `UPDATE interactions SET cost = CASE WHEN cost < 9007199254740 THEN cost * 1000 ELSE 9007199254740991 END
        WHERE cost IS NOT NULL`,
      `UPDATE interactions SET saved = CASE WHEN saved < 9007199254740 AND saved > -9007199254740 THEN saved * 1000
          WHEN saved > 0 THEN 9007199254740991 ELSE -9007199254740991 END
        WHERE saved IS NOT NULL`,
    ],
  },
  {
    name: 'tools of each deployment',
    statements: [
      `CREATE TABLE mcp_tool_definitions (
        tenant TEXT NOT NULL, catalog_id TEXT NOT NULL, digest TEXT NOT NULL, title TEXT, description TEXT NOT NULL,
        input_schema TEXT NOT NULL, output_schema TEXT, annotations TEXT, task_support TEXT,
        PRIMARY KEY (tenant, catalog_id, digest))`,
      `CREATE TABLE mcp_tool_lists (
        tenant TEXT NOT NULL, catalog_id TEXT NOT NULL, id TEXT NOT NULL, tools TEXT NOT NULL,
        PRIMARY KEY (tenant, catalog_id, id))`,
      'ALTER TABLE mcp_deployments ADD COLUMN tool_list TEXT',
      // Each deployment that was connected has the tools of its server until it lists its own.
      `INSERT INTO mcp_tool_definitions
        SELECT tenant, catalog_id, id, title, description, input_schema, output_schema, annotations, task_support
        FROM mcp_tools WHERE removed_at IS NULL`,
      ...(['sqlite', 'postgres'] as const).map((only) => ({
        only,
        sql: `INSERT INTO mcp_tool_lists SELECT tenant, catalog_id, catalog_id,
          ${only === 'sqlite' ? 'json_group_object(id, id)' : 'json_object_agg(id, id)::text'}
          FROM mcp_tools WHERE removed_at IS NULL GROUP BY tenant, catalog_id`,
      })),
      `UPDATE mcp_deployments SET tool_list = catalog_id WHERE status IN ('success', 'error') AND EXISTS (
        SELECT 1 FROM mcp_tool_lists WHERE mcp_tool_lists.tenant = mcp_deployments.tenant
          AND mcp_tool_lists.catalog_id = mcp_deployments.catalog_id)`,
      ...['title', 'description', 'input_schema', 'output_schema', 'annotations', 'task_support'].map(
        (column) => `ALTER TABLE mcp_tools DROP COLUMN ${column}`,
      ),
    ],
  },
]
