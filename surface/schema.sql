-- Written by `npm run gen`. Do not edit: change src/stores/sql/migrations.ts.

-- sqlite

-- 1 log
CREATE TABLE log_heads (
  tenant TEXT PRIMARY KEY, size INTEGER NOT NULL, peaks BLOB NOT NULL,
  task_count INTEGER NOT NULL, thought_count INTEGER NOT NULL, session_count INTEGER NOT NULL);
CREATE TABLE log_entries (
  tenant TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, record TEXT NOT NULL, nodes BLOB NOT NULL,
  task_number INTEGER, record_hash TEXT, PRIMARY KEY (tenant, seq));
CREATE INDEX log_entries_by_task ON log_entries (tenant, task_number, seq) WHERE task_number IS NOT NULL;

-- 2 api keys
CREATE TABLE api_keys (
  tenant TEXT NOT NULL, id TEXT NOT NULL, prefix TEXT NOT NULL UNIQUE, hash TEXT NOT NULL, name TEXT NOT NULL,
  role TEXT NOT NULL, tier TEXT NOT NULL, scopes TEXT, created_at INTEGER NOT NULL, created_by TEXT NOT NULL,
  expires_at INTEGER, last_used_at INTEGER, revoked_at INTEGER, PRIMARY KEY (tenant, id));

-- 3 ledger
CREATE TABLE projects (
  tenant TEXT NOT NULL, slug TEXT NOT NULL, task_count INTEGER NOT NULL, created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL, PRIMARY KEY (tenant, slug));
CREATE TABLE tasks (
  row_id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, number INTEGER NOT NULL, project TEXT NOT NULL,
  sequence INTEGER NOT NULL, title TEXT NOT NULL, description TEXT NOT NULL, status TEXT NOT NULL,
  priority_rank INTEGER NOT NULL, progress REAL NOT NULL, assignee TEXT NOT NULL, labels TEXT NOT NULL,
  estimate_hours REAL, blocked_reason TEXT, parent_number INTEGER, created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL, updated_at INTEGER NOT NULL, updated_by TEXT NOT NULL, UNIQUE (tenant, number));
CREATE INDEX tasks_by_updated ON tasks (tenant, updated_at, number);
CREATE INDEX tasks_by_project ON tasks (tenant, project, status, updated_at);
CREATE INDEX tasks_by_parent ON tasks (tenant, parent_number) WHERE parent_number IS NOT NULL;
CREATE TABLE task_labels (
  tenant TEXT NOT NULL, task_number INTEGER NOT NULL, label TEXT NOT NULL, PRIMARY KEY (tenant, label, task_number));
CREATE INDEX task_labels_by_task ON task_labels (tenant, task_number);
CREATE TABLE task_dependencies (
  tenant TEXT NOT NULL, task_number INTEGER NOT NULL, depends_on_number INTEGER NOT NULL,
  PRIMARY KEY (tenant, task_number, depends_on_number));
CREATE TABLE thoughts (
  tenant TEXT NOT NULL, number INTEGER NOT NULL, task_number INTEGER NOT NULL, chain_position INTEGER NOT NULL,
  log_seq INTEGER NOT NULL, type TEXT NOT NULL, content TEXT NOT NULL, branch TEXT, commit_sha TEXT,
  tests_run TEXT, blockers TEXT, metadata TEXT, hash TEXT NOT NULL, previous_hash TEXT,
  recorded_at INTEGER NOT NULL, recorded_by TEXT NOT NULL, PRIMARY KEY (tenant, number));
CREATE UNIQUE INDEX thoughts_by_task ON thoughts (tenant, task_number, chain_position);
CREATE TABLE audit_sessions (
  tenant TEXT NOT NULL, number INTEGER NOT NULL, task_number INTEGER NOT NULL, auditor_id TEXT NOT NULL,
  reason TEXT, scope TEXT NOT NULL, started_at INTEGER NOT NULL, started_by TEXT NOT NULL,
  start_seq INTEGER NOT NULL, end_seq INTEGER, finalized_at INTEGER, only_task_number INTEGER,
  merkle_root TEXT, tree_depth INTEGER, leaf_count INTEGER, PRIMARY KEY (tenant, number));
CREATE VIRTUAL TABLE tasks_search USING fts5 (title, description, content='tasks', content_rowid='row_id',
  tokenize='porter unicode61 remove_diacritics 2');

-- 4 search alike
DROP TABLE tasks_search;
CREATE VIRTUAL TABLE tasks_search USING fts5 (title, description, content='tasks', content_rowid='row_id',
  columnsize=0, tokenize='porter unicode61 remove_diacritics 2');
INSERT INTO tasks_search (tasks_search) VALUES ('rebuild');

-- 5 index in bulk
ALTER TABLE task_labels RENAME TO old_task_labels;
CREATE TABLE task_labels (tenant TEXT NOT NULL, task_number INTEGER NOT NULL, label TEXT NOT NULL,
  PRIMARY KEY (tenant, label, task_number)) WITHOUT ROWID;
INSERT INTO task_labels (tenant, task_number, label)
  SELECT tenant, task_number, label FROM old_task_labels;
DROP TABLE old_task_labels;
CREATE TABLE task_index (only_row INTEGER PRIMARY KEY CHECK (only_row = 0), indexed_to INTEGER NOT NULL);
INSERT INTO task_index SELECT 0, coalesce(max(row_id), 0) FROM tasks;
CREATE VIEW indexed_tasks AS SELECT row_id, title, description FROM tasks
  WHERE row_id <= (SELECT indexed_to FROM task_index);
DROP TABLE tasks_search;
CREATE VIRTUAL TABLE tasks_search USING fts5 (title, description, content='indexed_tasks',
  content_rowid='row_id', columnsize=0, tokenize='porter unicode61 remove_diacritics 2');
INSERT INTO tasks_search (tasks_search) VALUES ('rebuild');

-- 6 log identity
CREATE TABLE log_identity (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 0), log_id TEXT NOT NULL, verifier_key TEXT NOT NULL);

-- 7 fewer pages
ALTER TABLE log_heads ADD COLUMN tenant_number INTEGER NOT NULL DEFAULT 0;
ALTER TABLE log_heads ADD COLUMN trail_to INTEGER NOT NULL DEFAULT 0;
UPDATE log_heads SET trail_to = size,
  tenant_number = (SELECT count(*) FROM log_heads AS other WHERE other.tenant <= log_heads.tenant);
CREATE UNIQUE INDEX log_heads_by_number ON log_heads (tenant_number);
CREATE TABLE trail_entries (tenant TEXT NOT NULL, task_number INTEGER NOT NULL, seq INTEGER NOT NULL,
  PRIMARY KEY (tenant, task_number, seq)) WITHOUT ROWID;
INSERT INTO trail_entries (tenant, task_number, seq)
  SELECT tenant, task_number, seq FROM log_entries WHERE task_number IS NOT NULL;
DROP INDEX log_entries_by_task;
ALTER TABLE log_entries RENAME TO old_log_entries;
CREATE TABLE log_entries (
  row_id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL,
  record TEXT NOT NULL, nodes BLOB NOT NULL, task_number INTEGER, record_hash TEXT);
INSERT INTO log_entries (row_id, tenant, seq, at, record, nodes, task_number, record_hash)
  SELECT tenant_number * 17179869184 + seq, old.tenant, seq, at, record, nodes, task_number, record_hash
  FROM old_log_entries AS old LEFT JOIN log_heads ON log_heads.tenant = old.tenant ORDER BY tenant_number, seq;
DROP TABLE old_log_entries;
DROP INDEX thoughts_by_task;
ALTER TABLE thoughts RENAME TO old_thoughts;
CREATE TABLE thoughts (
  row_id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, number INTEGER NOT NULL, task_number INTEGER NOT NULL,
  chain_position INTEGER NOT NULL, log_seq INTEGER NOT NULL, type TEXT NOT NULL, content TEXT NOT NULL,
  branch TEXT, commit_sha TEXT, tests_run TEXT, blockers TEXT, metadata TEXT, hash TEXT NOT NULL,
  previous_hash TEXT, recorded_at INTEGER NOT NULL, recorded_by TEXT NOT NULL);
INSERT INTO thoughts (row_id, tenant, number, task_number, chain_position, log_seq, type, content, branch,
  commit_sha, tests_run, blockers, metadata, hash, previous_hash, recorded_at, recorded_by)
  SELECT tenant_number * 17179869184 + number, old.tenant, number, task_number, chain_position, log_seq, type,
  content, branch, commit_sha, tests_run, blockers, metadata, hash, previous_hash, recorded_at, recorded_by
  FROM old_thoughts AS old LEFT JOIN log_heads ON log_heads.tenant = old.tenant ORDER BY tenant_number, number;
DROP TABLE old_thoughts;
CREATE UNIQUE INDEX thoughts_by_task ON thoughts (tenant, task_number, chain_position);

-- 8 workspaces
CREATE TABLE workspaces (
  tenant TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL, state TEXT NOT NULL,
  wanted TEXT NOT NULL, image TEXT NOT NULL, vcpus INTEGER NOT NULL, memory_mb INTEGER NOT NULL,
  disk_gb INTEGER NOT NULL, ip TEXT NOT NULL, network TEXT NOT NULL, forwards TEXT NOT NULL, env TEXT NOT NULL,
  layers TEXT NOT NULL, forked_from TEXT, current_snapshot_id TEXT, node TEXT NOT NULL, operation TEXT, team TEXT,
  bound_to TEXT, created_at INTEGER NOT NULL, created_by TEXT NOT NULL, PRIMARY KEY (tenant, id),
  UNIQUE (tenant, name));
CREATE INDEX workspaces_by_node ON workspaces (node);
CREATE TABLE workspace_snapshots (
  tenant TEXT NOT NULL, id TEXT NOT NULL, workspace_id TEXT NOT NULL, sequence INTEGER NOT NULL,
  name TEXT NOT NULL, layer_id TEXT NOT NULL, layers TEXT NOT NULL, parent_id TEXT, bytes INTEGER NOT NULL,
  has_memory INTEGER NOT NULL, state TEXT NOT NULL, created_at INTEGER NOT NULL, created_by TEXT NOT NULL,
  PRIMARY KEY (tenant, id), UNIQUE (tenant, workspace_id, name), UNIQUE (tenant, workspace_id, sequence));

-- 9 teams
CREATE TABLE teams (
  tenant TEXT NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL, state TEXT NOT NULL, max_vms INTEGER NOT NULL,
  parent TEXT, depth INTEGER NOT NULL, node TEXT NOT NULL, operation TEXT, last_seq INTEGER NOT NULL,
  created_at INTEGER NOT NULL, created_by TEXT NOT NULL, PRIMARY KEY (tenant, name));
CREATE INDEX teams_by_node ON teams (node);
CREATE TABLE team_members (
  tenant TEXT NOT NULL, team TEXT NOT NULL, name TEXT NOT NULL, position INTEGER NOT NULL, role TEXT NOT NULL,
  skills TEXT NOT NULL, description TEXT NOT NULL, workspace_id TEXT, PRIMARY KEY (tenant, team, name));
CREATE TABLE team_messages (
  tenant TEXT NOT NULL, team TEXT NOT NULL, recipient TEXT NOT NULL, seq INTEGER NOT NULL, id TEXT NOT NULL,
  sender TEXT NOT NULL, addressed_to TEXT NOT NULL, content TEXT NOT NULL, type TEXT NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY (tenant, team, recipient, seq));
CREATE TABLE team_tasks (
  tenant TEXT NOT NULL, team TEXT NOT NULL, agent TEXT NOT NULL, message_id TEXT NOT NULL, seq INTEGER NOT NULL,
  assignment TEXT NOT NULL, state TEXT NOT NULL, job_id INTEGER, result TEXT, at INTEGER NOT NULL,
  PRIMARY KEY (tenant, team, agent, message_id));
CREATE INDEX team_tasks_open ON team_tasks (tenant, team, agent) WHERE state <> 'done';

-- 10 runs
CREATE TABLE runs (
  tenant TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, subject_id TEXT NOT NULL,
  subject_name TEXT NOT NULL, subject_version TEXT NOT NULL, owner TEXT NOT NULL, principal TEXT NOT NULL,
  parent_id TEXT, root_id TEXT NOT NULL, depth INTEGER NOT NULL, input TEXT NOT NULL, status TEXT NOT NULL,
  output TEXT NOT NULL, error TEXT, iteration INTEGER NOT NULL, state TEXT, started_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL, ended_at INTEGER, wake_at INTEGER, waiting_for TEXT, node TEXT NOT NULL,
  claim TEXT, cancel_requested INTEGER NOT NULL, last_sequence INTEGER NOT NULL, ended_sequence INTEGER,
  PRIMARY KEY (tenant, id));
CREATE INDEX runs_by_start ON runs (tenant, kind, started_at, id);
CREATE INDEX runs_by_subject ON runs (tenant, subject_id, kind, started_at, id, owner, ended_sequence);
CREATE INDEX runs_open_by_subject ON runs (tenant, subject_id, kind, owner) WHERE ended_sequence IS NULL;
CREATE INDEX runs_by_owner ON runs (tenant, kind, owner, started_at, id);
CREATE INDEX runs_by_root ON runs (tenant, root_id);
CREATE INDEX runs_open ON runs (node, started_at) WHERE status IN ('pending', 'running');
CREATE INDEX runs_open_by_start ON runs (tenant, kind, started_at, id) WHERE status IN ('pending', 'running');
CREATE TABLE run_journal (
  tenant TEXT NOT NULL, run_id TEXT NOT NULL, sequence INTEGER NOT NULL, type TEXT NOT NULL, key TEXT,
  payload TEXT NOT NULL, state TEXT, iteration INTEGER, at INTEGER NOT NULL,
  PRIMARY KEY (tenant, run_id, sequence)) WITHOUT ROWID;

-- 11 seal
CREATE TABLE seal_sessions (
  tenant TEXT NOT NULL, id TEXT NOT NULL, identity TEXT NOT NULL, token_hash TEXT NOT NULL,
  public_key TEXT NOT NULL, context TEXT NOT NULL, agent_id TEXT, execution_id TEXT, workload_id TEXT,
  task_summary TEXT, created_at INTEGER NOT NULL, created_by TEXT NOT NULL, expires_at INTEGER NOT NULL,
  revoked_at INTEGER, PRIMARY KEY (tenant, id));
CREATE INDEX seal_sessions_by_identity ON seal_sessions (tenant, identity, expires_at);
CREATE TABLE seal_messages (
  tenant TEXT NOT NULL, digest TEXT NOT NULL, kept_until INTEGER NOT NULL, PRIMARY KEY (tenant, digest));
CREATE INDEX seal_messages_by_end ON seal_messages (tenant, kept_until);

-- 12 agents
CREATE TABLE agents (
  tenant TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL, latest_version TEXT NOT NULL,
  description TEXT NOT NULL, labels TEXT NOT NULL, created_at INTEGER NOT NULL, created_by TEXT NOT NULL,
  updated_at INTEGER NOT NULL, PRIMARY KEY (tenant, id), UNIQUE (tenant, name));
CREATE TABLE agent_versions (
  tenant TEXT NOT NULL, agent_id TEXT NOT NULL, version TEXT NOT NULL, manifest_yaml TEXT NOT NULL,
  created_at INTEGER NOT NULL, created_by TEXT NOT NULL, PRIMARY KEY (tenant, agent_id, version));
CREATE TABLE agent_events (
  tenant TEXT NOT NULL, agent_id TEXT NOT NULL, sequence INTEGER NOT NULL, type TEXT NOT NULL,
  payload TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (tenant, agent_id, sequence));

-- 13 workflows
CREATE TABLE workflows (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version TEXT NOT NULL, scope TEXT NOT NULL, owner TEXT NOT NULL,
  name TEXT NOT NULL, description TEXT NOT NULL, labels TEXT NOT NULL, initial_state TEXT NOT NULL,
  manifest TEXT NOT NULL, created_at INTEGER NOT NULL, created_by TEXT NOT NULL, changed_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, id, version), UNIQUE (tenant, scope, owner, name, version));
CREATE INDEX workflows_by_name ON workflows (tenant, name);
CREATE UNIQUE INDEX workflows_global ON workflows (name, version) WHERE scope = 'global';

-- 14 schedules
CREATE TABLE schedules (
  tenant TEXT NOT NULL, kind TEXT NOT NULL, subject_id TEXT NOT NULL, timing TEXT NOT NULL, principal TEXT NOT NULL,
  owner TEXT NOT NULL, due_at INTEGER NOT NULL, next_at INTEGER NOT NULL, last_run_id TEXT,
  missed INTEGER NOT NULL, skipped INTEGER NOT NULL, PRIMARY KEY (tenant, subject_id));
CREATE INDEX schedules_by_time ON schedules (next_at);

-- 15 log anchors and the latest time
CREATE TABLE clock_floor (only_row INTEGER PRIMARY KEY CHECK (only_row = 0), at INTEGER NOT NULL);
CREATE TABLE log_anchors (
  node TEXT NOT NULL, tenant TEXT NOT NULL, size INTEGER NOT NULL, PRIMARY KEY (node, tenant));

-- 16 mounts of workspaces
ALTER TABLE workspaces ADD COLUMN mounts TEXT NOT NULL DEFAULT '[]';

-- 17 secrets
CREATE TABLE secrets (
  tenant TEXT NOT NULL, id TEXT NOT NULL, owner TEXT NOT NULL, purpose TEXT NOT NULL, key_id TEXT NOT NULL,
  sealed TEXT NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, PRIMARY KEY (tenant, id));
CREATE TABLE secret_links (
  tenant TEXT NOT NULL, id TEXT NOT NULL, token_hash TEXT NOT NULL UNIQUE, principal TEXT NOT NULL,
  kind TEXT NOT NULL, subject TEXT NOT NULL, title TEXT NOT NULL, fields TEXT NOT NULL,
  created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL, used_at INTEGER, PRIMARY KEY (tenant, id));
CREATE INDEX secret_links_by_end ON secret_links (tenant, expires_at);

-- 18 sharing and profiles
CREATE TABLE shared_with_teams (
  tenant TEXT NOT NULL, kind TEXT NOT NULL, resource_id TEXT NOT NULL, team_id TEXT NOT NULL,
  PRIMARY KEY (tenant, kind, resource_id, team_id));
CREATE INDEX shared_with_teams_by_team ON shared_with_teams (tenant, team_id);
CREATE TABLE profiles (
  tenant TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, name_key TEXT NOT NULL,
  slug TEXT NOT NULL, description TEXT, scope TEXT NOT NULL, author TEXT NOT NULL, icon TEXT, labels TEXT NOT NULL,
  system_prompt TEXT, suggested_prompts TEXT NOT NULL, exposure TEXT NOT NULL, context_untrusted INTEGER NOT NULL,
  is_default INTEGER NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, id));
CREATE INDEX profiles_by_name ON profiles (tenant, kind, name_key, id);
CREATE INDEX profiles_by_slug ON profiles (tenant, slug);
CREATE TABLE profile_sub_agents (
  tenant TEXT NOT NULL, profile_id TEXT NOT NULL, sub_agent_id TEXT NOT NULL, added_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, profile_id, sub_agent_id));
CREATE INDEX profile_sub_agents_by_agent ON profile_sub_agents (tenant, sub_agent_id);
ALTER TABLE agents RENAME TO agents_with_unique_names;
CREATE TABLE agents (
  tenant TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL, latest_version TEXT NOT NULL,
  description TEXT NOT NULL, labels TEXT NOT NULL, created_at INTEGER NOT NULL, created_by TEXT NOT NULL,
  updated_at INTEGER NOT NULL, PRIMARY KEY (tenant, id));
INSERT INTO agents SELECT * FROM agents_with_unique_names;
DROP TABLE agents_with_unique_names;
CREATE INDEX agents_by_name ON agents (tenant, name);
INSERT INTO profiles (tenant, id, kind, name, name_key, slug, description, scope, author, icon, labels, system_prompt,
  suggested_prompts, exposure, context_untrusted, is_default, created_at, updated_at)
  SELECT tenant, id, 'agent', name, lower(name), name, description, 'org',
  COALESCE((SELECT 'key:' || api_keys.id FROM api_keys
  WHERE api_keys.tenant = agents.tenant AND api_keys.name = agents.created_by
  ORDER BY api_keys.created_at DESC, api_keys.id LIMIT 1), created_by),
  NULL, '[]', NULL, '[]', 'full', 0, 0, created_at, updated_at FROM agents;
UPDATE profiles SET labels = (
  SELECT json_group_array(json_object('key', pair.key, 'value', pair.value))
  FROM agents, json_each(agents.labels) AS pair WHERE agents.tenant = profiles.tenant AND agents.id = profiles.id);

-- 19 custom roles
CREATE TABLE roles (
  tenant TEXT NOT NULL, name TEXT NOT NULL, description TEXT NOT NULL, permissions TEXT NOT NULL,
  created_at INTEGER NOT NULL, created_by TEXT NOT NULL, PRIMARY KEY (tenant, name));

-- 20 MCP servers
CREATE TABLE mcp_catalog_items (
  tenant TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, name_key TEXT NOT NULL, slug TEXT NOT NULL,
  scope TEXT NOT NULL, author TEXT NOT NULL, about TEXT NOT NULL, server_type TEXT NOT NULL, config TEXT NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, PRIMARY KEY (tenant, id));
CREATE INDEX mcp_catalog_items_by_name ON mcp_catalog_items (tenant, name_key, id);
CREATE TABLE mcp_deployments (
  tenant TEXT NOT NULL, id TEXT NOT NULL, catalog_id TEXT NOT NULL, scope TEXT NOT NULL, author TEXT NOT NULL,
  holder TEXT NOT NULL, status TEXT NOT NULL, error TEXT, field_values TEXT NOT NULL, created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL, PRIMARY KEY (tenant, id), UNIQUE (tenant, catalog_id, scope, holder));
CREATE TABLE mcp_tools (
  tenant TEXT NOT NULL, id TEXT NOT NULL, catalog_id TEXT NOT NULL, upstream_name TEXT NOT NULL, name TEXT NOT NULL,
  aliases TEXT NOT NULL, title TEXT, description TEXT NOT NULL, input_schema TEXT NOT NULL, output_schema TEXT,
  annotations TEXT, list_version INTEGER NOT NULL, removed_at INTEGER, PRIMARY KEY (tenant, id),
  UNIQUE (tenant, catalog_id, upstream_name));
CREATE INDEX mcp_tools_by_name ON mcp_tools (tenant, name);
CREATE TABLE mcp_tool_versions (tenant TEXT PRIMARY KEY, version INTEGER NOT NULL);

-- 21 installation requests
CREATE TABLE mcp_installation_requests (
  tenant TEXT NOT NULL, id TEXT NOT NULL, author TEXT NOT NULL, wanted TEXT NOT NULL, status TEXT NOT NULL,
  notes TEXT NOT NULL, decided_by TEXT, decided_at INTEGER, created_at INTEGER NOT NULL, PRIMARY KEY (tenant, id));
CREATE INDEX mcp_installation_requests_by_time ON mcp_installation_requests (tenant, created_at, id);

-- 22 people
CREATE TABLE users (
  id TEXT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE,
  email_verified INTEGER NOT NULL, image TEXT, role TEXT NOT NULL, tier TEXT NOT NULL, created_by TEXT NOT NULL,
  created_at TEXT NOT NULL, updated_at TEXT NOT NULL);
CREATE INDEX users_by_tenant ON users (tenant, email);
CREATE TABLE user_sessions (
  id TEXT PRIMARY KEY, expires_at TEXT NOT NULL, token TEXT NOT NULL UNIQUE, created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL, ip_address TEXT, user_agent TEXT,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE);
CREATE INDEX user_sessions_by_user ON user_sessions (user_id);
CREATE TABLE user_accounts (
  id TEXT PRIMARY KEY, "accountId" TEXT NOT NULL, "providerId" TEXT NOT NULL,
  "userId" TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE, "accessToken" TEXT, "refreshToken" TEXT,
  "idToken" TEXT, "accessTokenExpiresAt" TEXT, "refreshTokenExpiresAt" TEXT, scope TEXT, password TEXT,
  "createdAt" TEXT NOT NULL, "updatedAt" TEXT NOT NULL);
CREATE INDEX user_accounts_by_user ON user_accounts ("userId");
CREATE TABLE user_verifications (
  id TEXT PRIMARY KEY, identifier TEXT NOT NULL, value TEXT NOT NULL, "expiresAt" TEXT NOT NULL,
  "createdAt" TEXT NOT NULL, "updatedAt" TEXT NOT NULL);
CREATE INDEX user_verifications_by_identifier ON user_verifications (identifier);
CREATE TABLE user_teams (
  tenant TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, description TEXT NOT NULL, created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL, PRIMARY KEY (tenant, id), UNIQUE (tenant, name));
CREATE TABLE user_team_members (
  tenant TEXT NOT NULL, team_id TEXT NOT NULL, user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  PRIMARY KEY (tenant, team_id, user_id),
  FOREIGN KEY (tenant, team_id) REFERENCES user_teams (tenant, id) ON DELETE CASCADE);
CREATE INDEX user_team_members_by_user ON user_team_members (user_id);
CREATE TABLE invitations (
  tenant TEXT NOT NULL, id TEXT NOT NULL, token_hash TEXT NOT NULL UNIQUE, email TEXT NOT NULL, role TEXT NOT NULL,
  tier TEXT NOT NULL, teams TEXT NOT NULL, user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
  created_at INTEGER NOT NULL, created_by TEXT NOT NULL, expires_at INTEGER NOT NULL, accepted_at INTEGER,
  cancelled_at INTEGER, PRIMARY KEY (tenant, id));
CREATE TABLE sign_in_attempts (
  row_id INTEGER PRIMARY KEY, at INTEGER NOT NULL, email TEXT NOT NULL, address TEXT NOT NULL, outcome TEXT NOT NULL,
  tenant TEXT, user_id TEXT);
CREATE INDEX sign_in_attempts_by_email ON sign_in_attempts (email, at);
CREATE INDEX sign_in_attempts_by_address ON sign_in_attempts (address, at);

-- 23 OAuth clients and their tokens
CREATE TABLE oauth_clients (
  id TEXT PRIMARY KEY, "clientId" TEXT NOT NULL UNIQUE, "clientSecret" TEXT, "clientDiscoveryId" TEXT,
  disabled INTEGER, "skipConsent" INTEGER, "enableEndSession" INTEGER, "subjectType" TEXT, scopes TEXT,
  "clientCredentialsScopes" TEXT, "userId" TEXT REFERENCES users (id) ON DELETE CASCADE, "createdAt" TEXT,
  "updatedAt" TEXT, name TEXT, uri TEXT, icon TEXT, contacts TEXT, tos TEXT, policy TEXT, "softwareId" TEXT,
  "softwareVersion" TEXT, "softwareStatement" TEXT, "redirectUris" TEXT NOT NULL, "postLogoutRedirectUris" TEXT,
  "backchannelLogoutUri" TEXT, "backchannelLogoutSessionRequired" INTEGER, "tokenEndpointAuthMethod" TEXT,
  "applicationType" TEXT, jwks TEXT, "jwksUri" TEXT, "grantTypes" TEXT, "responseTypes" TEXT, "requirePKCE" INTEGER,
  "dpopBoundAccessTokens" INTEGER, "referenceId" TEXT, metadata TEXT);
CREATE INDEX oauth_clients_by_user ON oauth_clients ("userId");
CREATE TABLE oauth_resources (
  id TEXT PRIMARY KEY, identifier TEXT NOT NULL UNIQUE, name TEXT NOT NULL, "accessTokenTtl" INTEGER,
  "refreshTokenTtl" INTEGER, "signingAlgorithm" TEXT, "signingKeyId" TEXT, "allowedScopes" TEXT, "customClaims" TEXT,
  "dpopBoundAccessTokensRequired" INTEGER, disabled INTEGER, "createdAt" TEXT, "updatedAt" TEXT,
  "policyVersion" INTEGER, metadata TEXT);
CREATE TABLE oauth_client_resources (
  id TEXT PRIMARY KEY, "clientId" TEXT NOT NULL REFERENCES oauth_clients ("clientId") ON DELETE CASCADE,
  "resourceId" TEXT NOT NULL REFERENCES oauth_resources (identifier) ON DELETE CASCADE, metadata TEXT, "createdAt" TEXT,
  UNIQUE ("clientId", "resourceId"));
CREATE TABLE oauth_refresh_tokens (
  id TEXT PRIMARY KEY, token TEXT NOT NULL UNIQUE,
  "clientId" TEXT NOT NULL REFERENCES oauth_clients ("clientId") ON DELETE CASCADE,
  "sessionId" TEXT REFERENCES user_sessions (id) ON DELETE SET NULL,
  "userId" TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE, "referenceId" TEXT, "authorizationCodeId" TEXT,
  resources TEXT, "requestedUserInfoClaims" TEXT, "expiresAt" TEXT NOT NULL, "createdAt" TEXT NOT NULL, revoked TEXT,
  "rotatedAt" TEXT, "rotationReplayResponse" TEXT, "rotationReplayExpiresAt" TEXT, "authTime" TEXT, confirmation TEXT,
  scopes TEXT NOT NULL);
CREATE INDEX oauth_refresh_tokens_by_user ON oauth_refresh_tokens ("userId", "clientId");
CREATE INDEX oauth_refresh_tokens_by_code ON oauth_refresh_tokens ("authorizationCodeId");
CREATE TABLE oauth_access_tokens (
  id TEXT PRIMARY KEY, token TEXT NOT NULL UNIQUE,
  "clientId" TEXT NOT NULL REFERENCES oauth_clients ("clientId") ON DELETE CASCADE,
  "sessionId" TEXT REFERENCES user_sessions (id) ON DELETE SET NULL, "userId" TEXT REFERENCES users (id) ON DELETE CASCADE,
  "referenceId" TEXT, "authorizationCodeId" TEXT, resources TEXT, "requestedUserInfoClaims" TEXT,
  "refreshId" TEXT REFERENCES oauth_refresh_tokens (id) ON DELETE CASCADE, "expiresAt" TEXT NOT NULL,
  "createdAt" TEXT NOT NULL, revoked TEXT, confirmation TEXT, scopes TEXT NOT NULL);
CREATE INDEX oauth_access_tokens_by_user ON oauth_access_tokens ("userId", "clientId");
CREATE INDEX oauth_access_tokens_by_refresh ON oauth_access_tokens ("refreshId");
CREATE INDEX oauth_access_tokens_by_code ON oauth_access_tokens ("authorizationCodeId");
CREATE TABLE oauth_consents (
  id TEXT PRIMARY KEY, "clientId" TEXT NOT NULL REFERENCES oauth_clients ("clientId") ON DELETE CASCADE,
  "userId" TEXT REFERENCES users (id) ON DELETE CASCADE, "referenceId" TEXT, resources TEXT,
  "requestedUserInfoClaims" TEXT, scopes TEXT NOT NULL, "createdAt" TEXT NOT NULL, "updatedAt" TEXT NOT NULL);
CREATE INDEX oauth_consents_by_user ON oauth_consents ("userId", "clientId");
CREATE TABLE oauth_client_assertions (id TEXT PRIMARY KEY, "expiresAt" TEXT NOT NULL);

-- 24 tool assignments
CREATE TABLE tool_assignments (
  tenant TEXT NOT NULL, profile_id TEXT NOT NULL, tool_id TEXT NOT NULL, mode TEXT NOT NULL, deployment_id TEXT,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, PRIMARY KEY (tenant, profile_id, tool_id));
CREATE INDEX tool_assignments_by_tool ON tool_assignments (tenant, tool_id);

-- 25 service clients
CREATE TABLE service_clients (
  tenant TEXT NOT NULL, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, secret_hash TEXT NOT NULL, role TEXT NOT NULL,
  tier TEXT NOT NULL, gateways TEXT NOT NULL, created_at INTEGER NOT NULL, created_by TEXT NOT NULL,
  PRIMARY KEY (tenant, id), UNIQUE (tenant, name));

-- 26 OAuth of MCP servers
ALTER TABLE mcp_deployments ADD COLUMN oauth_grant TEXT;

-- 27 usage limits
CREATE TABLE usage_limits (
  tenant TEXT NOT NULL, id TEXT NOT NULL, entity_type TEXT NOT NULL, entity_id TEXT NOT NULL, limit_type TEXT NOT NULL,
  limit_value REAL NOT NULL, models TEXT, cleanup_interval TEXT NOT NULL, server TEXT, tool TEXT,
  anchor INTEGER NOT NULL, period_start INTEGER NOT NULL, used INTEGER NOT NULL, created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL, PRIMARY KEY (tenant, id));

-- 28 secrets of sessions
ALTER TABLE secrets ADD COLUMN session_id TEXT REFERENCES user_sessions (id) ON DELETE CASCADE;
CREATE INDEX secrets_by_session ON secrets (session_id);

-- 29 sessions of MCP clients
CREATE TABLE mcp_sessions (
  tenant TEXT NOT NULL, id_hash TEXT NOT NULL, identity TEXT NOT NULL, initialize TEXT NOT NULL,
  used_at INTEGER NOT NULL, PRIMARY KEY (tenant, id_hash));
CREATE INDEX mcp_sessions_by_identity ON mcp_sessions (tenant, identity, used_at);
CREATE INDEX mcp_sessions_by_use ON mcp_sessions (tenant, used_at);

-- 30 passkeys
CREATE TABLE user_passkeys (
  id TEXT PRIMARY KEY, name TEXT, "publicKey" TEXT NOT NULL,
  "userId" TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE, "credentialID" TEXT NOT NULL,
  counter INTEGER NOT NULL, "deviceType" TEXT NOT NULL, "backedUp" INTEGER NOT NULL, transports TEXT,
  "createdAt" TEXT, aaguid TEXT);
CREATE INDEX user_passkeys_by_user ON user_passkeys ("userId");
CREATE INDEX user_passkeys_by_credential ON user_passkeys ("credentialID");

-- 31 networks of attempts to sign in
ALTER TABLE sign_in_attempts ADD COLUMN network TEXT;
DROP INDEX sign_in_attempts_by_address;
CREATE INDEX sign_in_attempts_by_network ON sign_in_attempts (network, at);

-- 32 tool policies and the trust of contexts
CREATE TABLE tool_policies (
  tenant TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, tool_id TEXT NOT NULL, conditions TEXT NOT NULL,
  is_default INTEGER NOT NULL, action TEXT NOT NULL, note TEXT, position INTEGER NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, PRIMARY KEY (tenant, id));
CREATE INDEX tool_policies_in_order ON tool_policies (tenant, position);
CREATE UNIQUE INDEX tool_policies_one_default ON tool_policies (tenant, tool_id)
  WHERE kind = 'invocation' AND is_default = 1;
CREATE TABLE tool_policy_versions (tenant TEXT PRIMARY KEY, version INTEGER NOT NULL);
CREATE TABLE context_trust (
  tenant TEXT NOT NULL, context TEXT NOT NULL, cause TEXT NOT NULL, since INTEGER NOT NULL,
  PRIMARY KEY (tenant, context));

-- 33 tools of servers that answer by tasks
ALTER TABLE mcp_tools ADD COLUMN task_support TEXT;

-- 34 interactions with models
CREATE TABLE interactions (
  tenant TEXT NOT NULL, id TEXT NOT NULL, started_at INTEGER NOT NULL, owner TEXT NOT NULL, source TEXT NOT NULL,
  agent_id TEXT, proxy_id TEXT, run_id TEXT, session TEXT, provider TEXT NOT NULL, model TEXT, outcome TEXT NOT NULL,
  input_tokens INTEGER, output_tokens INTEGER, cache_read_tokens INTEGER, cache_write_tokens INTEGER,
  reasoning_tokens INTEGER, cost INTEGER, facts TEXT NOT NULL, PRIMARY KEY (tenant, id));
CREATE INDEX interactions_by_owner ON interactions (tenant, owner, id);
CREATE INDEX interactions_by_run ON interactions (tenant, run_id, id) WHERE run_id IS NOT NULL;
CREATE TABLE interaction_bodies (
  tenant TEXT NOT NULL, id TEXT NOT NULL, request TEXT, answer TEXT, is_whole INTEGER NOT NULL,
  is_redacted INTEGER NOT NULL, PRIMARY KEY (tenant, id));
CREATE TABLE token_usage (
  tenant TEXT NOT NULL, profile_id TEXT NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
  PRIMARY KEY (tenant, profile_id));

-- 35 keys of users
ALTER TABLE api_keys ADD COLUMN user_id TEXT;
CREATE INDEX api_keys_by_user ON api_keys (tenant, user_id) WHERE user_id IS NOT NULL;

-- 36 virtual keys
CREATE TABLE virtual_keys (
  tenant TEXT NOT NULL, id TEXT NOT NULL, prefix TEXT NOT NULL UNIQUE, hash TEXT NOT NULL, name TEXT NOT NULL,
  scope TEXT NOT NULL, author TEXT NOT NULL, grants TEXT NOT NULL, created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL, rotated_at INTEGER, expires_at INTEGER, last_used_at INTEGER, revoked_at INTEGER,
  PRIMARY KEY (tenant, id));
CREATE INDEX virtual_keys_by_name ON virtual_keys (tenant, name);
CREATE INDEX virtual_keys_by_author ON virtual_keys (tenant, author);

-- 37 approvals of tool calls
CREATE TABLE approvals (
  tenant TEXT NOT NULL, id TEXT NOT NULL, tool_id TEXT NOT NULL, tool TEXT NOT NULL, arguments TEXT NOT NULL,
  is_masked INTEGER NOT NULL, arguments_digest TEXT NOT NULL, reason TEXT NOT NULL, policy TEXT, requester TEXT NOT NULL,
  requested_by TEXT NOT NULL, context TEXT NOT NULL, started_from TEXT, call_id TEXT NOT NULL, run_id TEXT, wait_key TEXT,
  status TEXT NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL, answered_at INTEGER, answered_by TEXT,
  note TEXT, used_at INTEGER, PRIMARY KEY (tenant, id));
CREATE INDEX approvals_of_call ON approvals (tenant, requester, arguments_digest);
CREATE INDEX approvals_newest ON approvals (tenant, created_at);
CREATE INDEX approvals_over ON approvals (tenant, expires_at);

-- 38 keys of providers
CREATE TABLE provider_keys (
  tenant TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, provider TEXT NOT NULL, scope TEXT NOT NULL,
  author TEXT NOT NULL, is_primary INTEGER NOT NULL, secret TEXT NOT NULL, owns_secret INTEGER NOT NULL,
  created_at INTEGER NOT NULL, created_by TEXT NOT NULL, rotated_at INTEGER, PRIMARY KEY (tenant, id));
CREATE INDEX provider_keys_by_provider ON provider_keys (tenant, provider);
CREATE INDEX provider_keys_by_author ON provider_keys (tenant, author);

-- 39 answers of clients at another process
CREATE TABLE passed_answers (
  tenant TEXT NOT NULL, key_hash TEXT NOT NULL, sender TEXT NOT NULL, answer TEXT NOT NULL,
  created_at INTEGER NOT NULL, taken_at INTEGER, outcome TEXT, PRIMARY KEY (tenant, key_hash));

-- 40 credentials of untrusted contexts
ALTER TABLE context_trust ADD COLUMN credential TEXT;
ALTER TABLE context_trust ADD COLUMN seen INTEGER NOT NULL DEFAULT 0;
UPDATE context_trust SET seen = since;
UPDATE context_trust SET credential = substr(context, 8) WHERE context LIKE 'caller:key:%' AND context NOT LIKE '%@%';
CREATE INDEX context_trust_of_credential ON context_trust (tenant, credential, seen) WHERE credential IS NOT NULL;

-- 41 rules for cheaper models
CREATE TABLE optimization_rules (
  tenant TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, entity_type TEXT NOT NULL, entity_id TEXT NOT NULL,
  provider TEXT NOT NULL, conditions TEXT NOT NULL, target_model TEXT NOT NULL, is_enabled INTEGER NOT NULL,
  created_at INTEGER NOT NULL, created_by TEXT NOT NULL, PRIMARY KEY (tenant, id));
ALTER TABLE interactions ADD COLUMN saved INTEGER;

-- 42 notifications and tasks at another process
ALTER TABLE passed_answers ADD COLUMN notices TEXT;
CREATE TABLE mcp_tasks (
  tenant TEXT NOT NULL, id TEXT NOT NULL, identity TEXT NOT NULL, process TEXT NOT NULL, view TEXT NOT NULL,
  seen_at INTEGER NOT NULL, PRIMARY KEY (tenant, id));
CREATE INDEX mcp_tasks_by_identity ON mcp_tasks (tenant, identity);
CREATE INDEX mcp_tasks_by_process ON mcp_tasks (tenant, process);

-- 43 choices of MCP clients
ALTER TABLE mcp_sessions ADD COLUMN choices TEXT;
ALTER TABLE mcp_sessions ADD COLUMN chosen_at INTEGER;
CREATE INDEX mcp_sessions_by_choice ON mcp_sessions (tenant, chosen_at) WHERE chosen_at IS NOT NULL;

-- 44 sessions that end at every process
ALTER TABLE mcp_sessions ADD COLUMN ended_at INTEGER;
CREATE INDEX mcp_sessions_by_end ON mcp_sessions (tenant, ended_at) WHERE ended_at IS NOT NULL;
ALTER TABLE users ADD COLUMN sign_outs INTEGER NOT NULL DEFAULT 0;

-- 45 terminals that wait for a person
CREATE TABLE device_authorizations (
  id TEXT PRIMARY KEY, code_hash TEXT NOT NULL UNIQUE, user_code TEXT NOT NULL UNIQUE,
  client_id TEXT NOT NULL REFERENCES oauth_clients ("clientId") ON DELETE CASCADE, scopes TEXT NOT NULL,
  resources TEXT NOT NULL, address TEXT NOT NULL, network TEXT NOT NULL, created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL, status TEXT NOT NULL, user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
  interval_ms INTEGER NOT NULL, polled_at INTEGER);
CREATE INDEX device_authorizations_by_network ON device_authorizations (network);
CREATE INDEX device_authorizations_by_end ON device_authorizations (expires_at);

-- 46 costs in billionths of a dollar
UPDATE interactions SET cost = CASE WHEN cost < 9007199254740 THEN cost * 1000 ELSE 9007199254740991 END
  WHERE cost IS NOT NULL;
UPDATE interactions SET saved = CASE WHEN saved < 9007199254740 AND saved > -9007199254740 THEN saved * 1000
  WHEN saved > 0 THEN 9007199254740991 ELSE -9007199254740991 END
  WHERE saved IS NOT NULL;

-- 47 tools of each deployment
CREATE TABLE mcp_tool_definitions (
  tenant TEXT NOT NULL, catalog_id TEXT NOT NULL, digest TEXT NOT NULL, title TEXT, description TEXT NOT NULL,
  input_schema TEXT NOT NULL, output_schema TEXT, annotations TEXT, task_support TEXT,
  PRIMARY KEY (tenant, catalog_id, digest));
CREATE TABLE mcp_tool_lists (
  tenant TEXT NOT NULL, catalog_id TEXT NOT NULL, id TEXT NOT NULL, tools TEXT NOT NULL,
  PRIMARY KEY (tenant, catalog_id, id));
ALTER TABLE mcp_deployments ADD COLUMN tool_list TEXT;
INSERT INTO mcp_tool_definitions
  SELECT tenant, catalog_id, id, title, description, input_schema, output_schema, annotations, task_support
  FROM mcp_tools WHERE removed_at IS NULL;
INSERT INTO mcp_tool_lists SELECT tenant, catalog_id, catalog_id,
  json_group_object(id, id)
  FROM mcp_tools WHERE removed_at IS NULL GROUP BY tenant, catalog_id;
UPDATE mcp_deployments SET tool_list = catalog_id WHERE status IN ('success', 'error') AND EXISTS (
  SELECT 1 FROM mcp_tool_lists WHERE mcp_tool_lists.tenant = mcp_deployments.tenant
  AND mcp_tool_lists.catalog_id = mcp_deployments.catalog_id);
ALTER TABLE mcp_tools DROP COLUMN title;
ALTER TABLE mcp_tools DROP COLUMN description;
ALTER TABLE mcp_tools DROP COLUMN input_schema;
ALTER TABLE mcp_tools DROP COLUMN output_schema;
ALTER TABLE mcp_tools DROP COLUMN annotations;
ALTER TABLE mcp_tools DROP COLUMN task_support;

-- postgres

-- 1 log
CREATE TABLE log_heads (
  tenant TEXT PRIMARY KEY, size BIGINT NOT NULL, peaks BYTEA NOT NULL,
  task_count BIGINT NOT NULL, thought_count BIGINT NOT NULL, session_count BIGINT NOT NULL);
CREATE TABLE log_entries (
  tenant TEXT NOT NULL, seq BIGINT NOT NULL, at BIGINT NOT NULL, record TEXT NOT NULL, nodes BYTEA NOT NULL,
  task_number BIGINT, record_hash TEXT, PRIMARY KEY (tenant, seq));
CREATE INDEX log_entries_by_task ON log_entries (tenant, task_number, seq) WHERE task_number IS NOT NULL;

-- 2 api keys
CREATE TABLE api_keys (
  tenant TEXT NOT NULL, id TEXT NOT NULL, prefix TEXT NOT NULL UNIQUE, hash TEXT NOT NULL, name TEXT NOT NULL,
  role TEXT NOT NULL, tier TEXT NOT NULL, scopes TEXT, created_at BIGINT NOT NULL, created_by TEXT NOT NULL,
  expires_at BIGINT, last_used_at BIGINT, revoked_at BIGINT, PRIMARY KEY (tenant, id));

-- 3 ledger
CREATE TABLE projects (
  tenant TEXT NOT NULL, slug TEXT NOT NULL, task_count BIGINT NOT NULL, created_at BIGINT NOT NULL,
  created_by TEXT NOT NULL, PRIMARY KEY (tenant, slug));
CREATE TABLE tasks (
  row_id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant TEXT NOT NULL, number BIGINT NOT NULL, project TEXT NOT NULL,
  sequence BIGINT NOT NULL, title TEXT NOT NULL, description TEXT NOT NULL, status TEXT NOT NULL,
  priority_rank BIGINT NOT NULL, progress DOUBLE PRECISION NOT NULL, assignee TEXT NOT NULL, labels TEXT NOT NULL,
  estimate_hours DOUBLE PRECISION, blocked_reason TEXT, parent_number BIGINT, created_at BIGINT NOT NULL,
  created_by TEXT NOT NULL, updated_at BIGINT NOT NULL, updated_by TEXT NOT NULL, UNIQUE (tenant, number));
CREATE INDEX tasks_by_updated ON tasks (tenant, updated_at, number);
CREATE INDEX tasks_by_project ON tasks (tenant, project, status, updated_at);
CREATE INDEX tasks_by_parent ON tasks (tenant, parent_number) WHERE parent_number IS NOT NULL;
CREATE TABLE task_labels (
  tenant TEXT NOT NULL, task_number BIGINT NOT NULL, label TEXT NOT NULL, PRIMARY KEY (tenant, label, task_number));
CREATE INDEX task_labels_by_task ON task_labels (tenant, task_number);
CREATE TABLE task_dependencies (
  tenant TEXT NOT NULL, task_number BIGINT NOT NULL, depends_on_number BIGINT NOT NULL,
  PRIMARY KEY (tenant, task_number, depends_on_number));
CREATE TABLE thoughts (
  tenant TEXT NOT NULL, number BIGINT NOT NULL, task_number BIGINT NOT NULL, chain_position BIGINT NOT NULL,
  log_seq BIGINT NOT NULL, type TEXT NOT NULL, content TEXT NOT NULL, branch TEXT, commit_sha TEXT,
  tests_run TEXT, blockers TEXT, metadata TEXT, hash TEXT NOT NULL, previous_hash TEXT,
  recorded_at BIGINT NOT NULL, recorded_by TEXT NOT NULL, PRIMARY KEY (tenant, number));
CREATE UNIQUE INDEX thoughts_by_task ON thoughts (tenant, task_number, chain_position);
CREATE TABLE audit_sessions (
  tenant TEXT NOT NULL, number BIGINT NOT NULL, task_number BIGINT NOT NULL, auditor_id TEXT NOT NULL,
  reason TEXT, scope TEXT NOT NULL, started_at BIGINT NOT NULL, started_by TEXT NOT NULL,
  start_seq BIGINT NOT NULL, end_seq BIGINT, finalized_at BIGINT, only_task_number BIGINT,
  merkle_root TEXT, tree_depth BIGINT, leaf_count BIGINT, PRIMARY KEY (tenant, number));
ALTER TABLE tasks ADD COLUMN search tsvector GENERATED ALWAYS AS
  (to_tsvector('english', title || ' ' || description)) STORED;
CREATE INDEX tasks_search ON tasks USING gin (search);

-- 4 search alike
ALTER TABLE tasks DROP COLUMN search;
CREATE TEXT SEARCH DICTIONARY castellan_stem (TEMPLATE = pg_catalog.snowball, LANGUAGE = english);
CREATE TEXT SEARCH CONFIGURATION castellan_words (COPY = pg_catalog.simple);
ALTER TEXT SEARCH CONFIGURATION castellan_words ALTER MAPPING FOR asciiword, word WITH castellan_stem;
CREATE FUNCTION castellan_fold(input TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS
  'SELECT regexp_replace(normalize(regexp_replace(normalize(lower(input), NFD), ''[\u0300-\u036f]'', '''', ''g''), NFC),
  ''[\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u2000-\u206f\u3000-\u303f]+'', '' '', ''g'')';
ALTER TABLE tasks ADD COLUMN search tsvector GENERATED ALWAYS AS
  (to_tsvector('castellan_words', castellan_fold(title || ' ' || description))) STORED;
CREATE INDEX tasks_search ON tasks USING gin (search);

-- 5 index in bulk
DROP INDEX task_labels_by_task;

-- 6 log identity
CREATE TABLE log_identity (
  only_row BIGINT PRIMARY KEY CHECK (only_row = 0), log_id TEXT NOT NULL, verifier_key TEXT NOT NULL);

-- 7 fewer pages

-- 8 workspaces
CREATE TABLE workspaces (
  tenant TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL, state TEXT NOT NULL,
  wanted TEXT NOT NULL, image TEXT NOT NULL, vcpus BIGINT NOT NULL, memory_mb BIGINT NOT NULL,
  disk_gb BIGINT NOT NULL, ip TEXT NOT NULL, network TEXT NOT NULL, forwards TEXT NOT NULL, env TEXT NOT NULL,
  layers TEXT NOT NULL, forked_from TEXT, current_snapshot_id TEXT, node TEXT NOT NULL, operation TEXT, team TEXT,
  bound_to TEXT, created_at BIGINT NOT NULL, created_by TEXT NOT NULL, PRIMARY KEY (tenant, id),
  UNIQUE (tenant, name));
CREATE INDEX workspaces_by_node ON workspaces (node);
CREATE TABLE workspace_snapshots (
  tenant TEXT NOT NULL, id TEXT NOT NULL, workspace_id TEXT NOT NULL, sequence BIGINT NOT NULL,
  name TEXT NOT NULL, layer_id TEXT NOT NULL, layers TEXT NOT NULL, parent_id TEXT, bytes BIGINT NOT NULL,
  has_memory BIGINT NOT NULL, state TEXT NOT NULL, created_at BIGINT NOT NULL, created_by TEXT NOT NULL,
  PRIMARY KEY (tenant, id), UNIQUE (tenant, workspace_id, name), UNIQUE (tenant, workspace_id, sequence));

-- 9 teams
CREATE TABLE teams (
  tenant TEXT NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL, state TEXT NOT NULL, max_vms BIGINT NOT NULL,
  parent TEXT, depth BIGINT NOT NULL, node TEXT NOT NULL, operation TEXT, last_seq BIGINT NOT NULL,
  created_at BIGINT NOT NULL, created_by TEXT NOT NULL, PRIMARY KEY (tenant, name));
CREATE INDEX teams_by_node ON teams (node);
CREATE TABLE team_members (
  tenant TEXT NOT NULL, team TEXT NOT NULL, name TEXT NOT NULL, position BIGINT NOT NULL, role TEXT NOT NULL,
  skills TEXT NOT NULL, description TEXT NOT NULL, workspace_id TEXT, PRIMARY KEY (tenant, team, name));
CREATE TABLE team_messages (
  tenant TEXT NOT NULL, team TEXT NOT NULL, recipient TEXT NOT NULL, seq BIGINT NOT NULL, id TEXT NOT NULL,
  sender TEXT NOT NULL, addressed_to TEXT NOT NULL, content TEXT NOT NULL, type TEXT NOT NULL, at BIGINT NOT NULL,
  PRIMARY KEY (tenant, team, recipient, seq));
CREATE TABLE team_tasks (
  tenant TEXT NOT NULL, team TEXT NOT NULL, agent TEXT NOT NULL, message_id TEXT NOT NULL, seq BIGINT NOT NULL,
  assignment TEXT NOT NULL, state TEXT NOT NULL, job_id BIGINT, result TEXT, at BIGINT NOT NULL,
  PRIMARY KEY (tenant, team, agent, message_id));
CREATE INDEX team_tasks_open ON team_tasks (tenant, team, agent) WHERE state <> 'done';

-- 10 runs
CREATE TABLE runs (
  tenant TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, subject_id TEXT NOT NULL,
  subject_name TEXT NOT NULL, subject_version TEXT NOT NULL, owner TEXT NOT NULL, principal TEXT NOT NULL,
  parent_id TEXT, root_id TEXT NOT NULL, depth BIGINT NOT NULL, input TEXT NOT NULL, status TEXT NOT NULL,
  output TEXT NOT NULL, error TEXT, iteration BIGINT NOT NULL, state TEXT, started_at BIGINT NOT NULL,
  changed_at BIGINT NOT NULL, ended_at BIGINT, wake_at BIGINT, waiting_for TEXT, node TEXT NOT NULL,
  claim TEXT, cancel_requested BIGINT NOT NULL, last_sequence BIGINT NOT NULL, ended_sequence BIGINT,
  PRIMARY KEY (tenant, id));
CREATE INDEX runs_by_start ON runs (tenant, kind, started_at, id);
CREATE INDEX runs_by_subject ON runs (tenant, subject_id, kind, started_at, id, owner, ended_sequence);
CREATE INDEX runs_open_by_subject ON runs (tenant, subject_id, kind, owner) WHERE ended_sequence IS NULL;
CREATE INDEX runs_by_owner ON runs (tenant, kind, owner, started_at, id);
CREATE INDEX runs_by_root ON runs (tenant, root_id);
CREATE INDEX runs_open ON runs (node, started_at) WHERE status IN ('pending', 'running');
CREATE INDEX runs_open_by_start ON runs (tenant, kind, started_at, id) WHERE status IN ('pending', 'running');
CREATE TABLE run_journal (
  tenant TEXT NOT NULL, run_id TEXT NOT NULL, sequence BIGINT NOT NULL, type TEXT NOT NULL, key TEXT,
  payload TEXT NOT NULL, state TEXT, iteration BIGINT, at BIGINT NOT NULL,
  PRIMARY KEY (tenant, run_id, sequence));

-- 11 seal
CREATE TABLE seal_sessions (
  tenant TEXT NOT NULL, id TEXT NOT NULL, identity TEXT NOT NULL, token_hash TEXT NOT NULL,
  public_key TEXT NOT NULL, context TEXT NOT NULL, agent_id TEXT, execution_id TEXT, workload_id TEXT,
  task_summary TEXT, created_at BIGINT NOT NULL, created_by TEXT NOT NULL, expires_at BIGINT NOT NULL,
  revoked_at BIGINT, PRIMARY KEY (tenant, id));
CREATE INDEX seal_sessions_by_identity ON seal_sessions (tenant, identity, expires_at);
CREATE TABLE seal_messages (
  tenant TEXT NOT NULL, digest TEXT NOT NULL, kept_until BIGINT NOT NULL, PRIMARY KEY (tenant, digest));
CREATE INDEX seal_messages_by_end ON seal_messages (tenant, kept_until);

-- 12 agents
CREATE TABLE agents (
  tenant TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL, latest_version TEXT NOT NULL,
  description TEXT NOT NULL, labels TEXT NOT NULL, created_at BIGINT NOT NULL, created_by TEXT NOT NULL,
  updated_at BIGINT NOT NULL, PRIMARY KEY (tenant, id), UNIQUE (tenant, name));
CREATE TABLE agent_versions (
  tenant TEXT NOT NULL, agent_id TEXT NOT NULL, version TEXT NOT NULL, manifest_yaml TEXT NOT NULL,
  created_at BIGINT NOT NULL, created_by TEXT NOT NULL, PRIMARY KEY (tenant, agent_id, version));
CREATE TABLE agent_events (
  tenant TEXT NOT NULL, agent_id TEXT NOT NULL, sequence BIGINT NOT NULL, type TEXT NOT NULL,
  payload TEXT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (tenant, agent_id, sequence));

-- 13 workflows
CREATE TABLE workflows (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version TEXT NOT NULL, scope TEXT NOT NULL, owner TEXT NOT NULL,
  name TEXT NOT NULL, description TEXT NOT NULL, labels TEXT NOT NULL, initial_state TEXT NOT NULL,
  manifest TEXT NOT NULL, created_at BIGINT NOT NULL, created_by TEXT NOT NULL, changed_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, id, version), UNIQUE (tenant, scope, owner, name, version));
CREATE INDEX workflows_by_name ON workflows (tenant, name);
CREATE UNIQUE INDEX workflows_global ON workflows (name, version) WHERE scope = 'global';

-- 14 schedules
CREATE TABLE schedules (
  tenant TEXT NOT NULL, kind TEXT NOT NULL, subject_id TEXT NOT NULL, timing TEXT NOT NULL, principal TEXT NOT NULL,
  owner TEXT NOT NULL, due_at BIGINT NOT NULL, next_at BIGINT NOT NULL, last_run_id TEXT,
  missed BIGINT NOT NULL, skipped BIGINT NOT NULL, PRIMARY KEY (tenant, subject_id));
CREATE INDEX schedules_by_time ON schedules (next_at);

-- 15 log anchors and the latest time
CREATE TABLE clock_floor (only_row BIGINT PRIMARY KEY CHECK (only_row = 0), at BIGINT NOT NULL);
CREATE TABLE log_anchors (
  node TEXT NOT NULL, tenant TEXT NOT NULL, size BIGINT NOT NULL, PRIMARY KEY (node, tenant));

-- 16 mounts of workspaces
ALTER TABLE workspaces ADD COLUMN mounts TEXT NOT NULL DEFAULT '[]';

-- 17 secrets
CREATE TABLE secrets (
  tenant TEXT NOT NULL, id TEXT NOT NULL, owner TEXT NOT NULL, purpose TEXT NOT NULL, key_id TEXT NOT NULL,
  sealed TEXT NOT NULL, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, PRIMARY KEY (tenant, id));
CREATE TABLE secret_links (
  tenant TEXT NOT NULL, id TEXT NOT NULL, token_hash TEXT NOT NULL UNIQUE, principal TEXT NOT NULL,
  kind TEXT NOT NULL, subject TEXT NOT NULL, title TEXT NOT NULL, fields TEXT NOT NULL,
  created_at BIGINT NOT NULL, expires_at BIGINT NOT NULL, used_at BIGINT, PRIMARY KEY (tenant, id));
CREATE INDEX secret_links_by_end ON secret_links (tenant, expires_at);

-- 18 sharing and profiles
CREATE TABLE shared_with_teams (
  tenant TEXT NOT NULL, kind TEXT NOT NULL, resource_id TEXT NOT NULL, team_id TEXT NOT NULL,
  PRIMARY KEY (tenant, kind, resource_id, team_id));
CREATE INDEX shared_with_teams_by_team ON shared_with_teams (tenant, team_id);
CREATE TABLE profiles (
  tenant TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, name_key TEXT NOT NULL,
  slug TEXT NOT NULL, description TEXT, scope TEXT NOT NULL, author TEXT NOT NULL, icon TEXT, labels TEXT NOT NULL,
  system_prompt TEXT, suggested_prompts TEXT NOT NULL, exposure TEXT NOT NULL, context_untrusted BIGINT NOT NULL,
  is_default BIGINT NOT NULL, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, id));
CREATE INDEX profiles_by_name ON profiles (tenant, kind, name_key, id);
CREATE INDEX profiles_by_slug ON profiles (tenant, slug);
CREATE TABLE profile_sub_agents (
  tenant TEXT NOT NULL, profile_id TEXT NOT NULL, sub_agent_id TEXT NOT NULL, added_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, profile_id, sub_agent_id));
CREATE INDEX profile_sub_agents_by_agent ON profile_sub_agents (tenant, sub_agent_id);
ALTER TABLE agents DROP CONSTRAINT agents_tenant_name_key;
CREATE INDEX agents_by_name ON agents (tenant, name);
INSERT INTO profiles (tenant, id, kind, name, name_key, slug, description, scope, author, icon, labels, system_prompt,
  suggested_prompts, exposure, context_untrusted, is_default, created_at, updated_at)
  SELECT tenant, id, 'agent', name, lower(name), name, description, 'org',
  COALESCE((SELECT 'key:' || api_keys.id FROM api_keys
  WHERE api_keys.tenant = agents.tenant AND api_keys.name = agents.created_by
  ORDER BY api_keys.created_at DESC, api_keys.id LIMIT 1), created_by),
  NULL, '[]', NULL, '[]', 'full', 0, 0, created_at, updated_at FROM agents;
UPDATE profiles SET labels = COALESCE((
  SELECT json_agg(json_build_object('key', pair.key, 'value', pair.value))
  FROM agents, json_each_text(agents.labels::json) AS pair
  WHERE agents.tenant = profiles.tenant AND agents.id = profiles.id)::text, '[]');

-- 19 custom roles
CREATE TABLE roles (
  tenant TEXT NOT NULL, name TEXT NOT NULL, description TEXT NOT NULL, permissions TEXT NOT NULL,
  created_at BIGINT NOT NULL, created_by TEXT NOT NULL, PRIMARY KEY (tenant, name));

-- 20 MCP servers
CREATE TABLE mcp_catalog_items (
  tenant TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, name_key TEXT NOT NULL, slug TEXT NOT NULL,
  scope TEXT NOT NULL, author TEXT NOT NULL, about TEXT NOT NULL, server_type TEXT NOT NULL, config TEXT NOT NULL,
  created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, PRIMARY KEY (tenant, id));
CREATE INDEX mcp_catalog_items_by_name ON mcp_catalog_items (tenant, name_key, id);
CREATE TABLE mcp_deployments (
  tenant TEXT NOT NULL, id TEXT NOT NULL, catalog_id TEXT NOT NULL, scope TEXT NOT NULL, author TEXT NOT NULL,
  holder TEXT NOT NULL, status TEXT NOT NULL, error TEXT, field_values TEXT NOT NULL, created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL, PRIMARY KEY (tenant, id), UNIQUE (tenant, catalog_id, scope, holder));
CREATE TABLE mcp_tools (
  tenant TEXT NOT NULL, id TEXT NOT NULL, catalog_id TEXT NOT NULL, upstream_name TEXT NOT NULL, name TEXT NOT NULL,
  aliases TEXT NOT NULL, title TEXT, description TEXT NOT NULL, input_schema TEXT NOT NULL, output_schema TEXT,
  annotations TEXT, list_version BIGINT NOT NULL, removed_at BIGINT, PRIMARY KEY (tenant, id),
  UNIQUE (tenant, catalog_id, upstream_name));
CREATE INDEX mcp_tools_by_name ON mcp_tools (tenant, name);
CREATE TABLE mcp_tool_versions (tenant TEXT PRIMARY KEY, version BIGINT NOT NULL);

-- 21 installation requests
CREATE TABLE mcp_installation_requests (
  tenant TEXT NOT NULL, id TEXT NOT NULL, author TEXT NOT NULL, wanted TEXT NOT NULL, status TEXT NOT NULL,
  notes TEXT NOT NULL, decided_by TEXT, decided_at BIGINT, created_at BIGINT NOT NULL, PRIMARY KEY (tenant, id));
CREATE INDEX mcp_installation_requests_by_time ON mcp_installation_requests (tenant, created_at, id);

-- 22 people
CREATE TABLE users (
  id TEXT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE,
  email_verified BIGINT NOT NULL, image TEXT, role TEXT NOT NULL, tier TEXT NOT NULL, created_by TEXT NOT NULL,
  created_at TEXT NOT NULL, updated_at TEXT NOT NULL);
CREATE INDEX users_by_tenant ON users (tenant, email);
CREATE TABLE user_sessions (
  id TEXT PRIMARY KEY, expires_at TEXT NOT NULL, token TEXT NOT NULL UNIQUE, created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL, ip_address TEXT, user_agent TEXT,
  user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE);
CREATE INDEX user_sessions_by_user ON user_sessions (user_id);
CREATE TABLE user_accounts (
  id TEXT PRIMARY KEY, "accountId" TEXT NOT NULL, "providerId" TEXT NOT NULL,
  "userId" TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE, "accessToken" TEXT, "refreshToken" TEXT,
  "idToken" TEXT, "accessTokenExpiresAt" TEXT, "refreshTokenExpiresAt" TEXT, scope TEXT, password TEXT,
  "createdAt" TEXT NOT NULL, "updatedAt" TEXT NOT NULL);
CREATE INDEX user_accounts_by_user ON user_accounts ("userId");
CREATE TABLE user_verifications (
  id TEXT PRIMARY KEY, identifier TEXT NOT NULL, value TEXT NOT NULL, "expiresAt" TEXT NOT NULL,
  "createdAt" TEXT NOT NULL, "updatedAt" TEXT NOT NULL);
CREATE INDEX user_verifications_by_identifier ON user_verifications (identifier);
CREATE TABLE user_teams (
  tenant TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, description TEXT NOT NULL, created_at BIGINT NOT NULL,
  created_by TEXT NOT NULL, PRIMARY KEY (tenant, id), UNIQUE (tenant, name));
CREATE TABLE user_team_members (
  tenant TEXT NOT NULL, team_id TEXT NOT NULL, user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  PRIMARY KEY (tenant, team_id, user_id),
  FOREIGN KEY (tenant, team_id) REFERENCES user_teams (tenant, id) ON DELETE CASCADE);
CREATE INDEX user_team_members_by_user ON user_team_members (user_id);
CREATE TABLE invitations (
  tenant TEXT NOT NULL, id TEXT NOT NULL, token_hash TEXT NOT NULL UNIQUE, email TEXT NOT NULL, role TEXT NOT NULL,
  tier TEXT NOT NULL, teams TEXT NOT NULL, user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
  created_at BIGINT NOT NULL, created_by TEXT NOT NULL, expires_at BIGINT NOT NULL, accepted_at BIGINT,
  cancelled_at BIGINT, PRIMARY KEY (tenant, id));
CREATE TABLE sign_in_attempts (
  row_id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at BIGINT NOT NULL, email TEXT NOT NULL, address TEXT NOT NULL, outcome TEXT NOT NULL,
  tenant TEXT, user_id TEXT);
CREATE INDEX sign_in_attempts_by_email ON sign_in_attempts (email, at);
CREATE INDEX sign_in_attempts_by_address ON sign_in_attempts (address, at);

-- 23 OAuth clients and their tokens
CREATE TABLE oauth_clients (
  id TEXT PRIMARY KEY, "clientId" TEXT NOT NULL UNIQUE, "clientSecret" TEXT, "clientDiscoveryId" TEXT,
  disabled BIGINT, "skipConsent" BIGINT, "enableEndSession" BIGINT, "subjectType" TEXT, scopes TEXT,
  "clientCredentialsScopes" TEXT, "userId" TEXT REFERENCES users (id) ON DELETE CASCADE, "createdAt" TEXT,
  "updatedAt" TEXT, name TEXT, uri TEXT, icon TEXT, contacts TEXT, tos TEXT, policy TEXT, "softwareId" TEXT,
  "softwareVersion" TEXT, "softwareStatement" TEXT, "redirectUris" TEXT NOT NULL, "postLogoutRedirectUris" TEXT,
  "backchannelLogoutUri" TEXT, "backchannelLogoutSessionRequired" BIGINT, "tokenEndpointAuthMethod" TEXT,
  "applicationType" TEXT, jwks TEXT, "jwksUri" TEXT, "grantTypes" TEXT, "responseTypes" TEXT, "requirePKCE" BIGINT,
  "dpopBoundAccessTokens" BIGINT, "referenceId" TEXT, metadata TEXT);
CREATE INDEX oauth_clients_by_user ON oauth_clients ("userId");
CREATE TABLE oauth_resources (
  id TEXT PRIMARY KEY, identifier TEXT NOT NULL UNIQUE, name TEXT NOT NULL, "accessTokenTtl" BIGINT,
  "refreshTokenTtl" BIGINT, "signingAlgorithm" TEXT, "signingKeyId" TEXT, "allowedScopes" TEXT, "customClaims" TEXT,
  "dpopBoundAccessTokensRequired" BIGINT, disabled BIGINT, "createdAt" TEXT, "updatedAt" TEXT,
  "policyVersion" BIGINT, metadata TEXT);
CREATE TABLE oauth_client_resources (
  id TEXT PRIMARY KEY, "clientId" TEXT NOT NULL REFERENCES oauth_clients ("clientId") ON DELETE CASCADE,
  "resourceId" TEXT NOT NULL REFERENCES oauth_resources (identifier) ON DELETE CASCADE, metadata TEXT, "createdAt" TEXT,
  UNIQUE ("clientId", "resourceId"));
CREATE TABLE oauth_refresh_tokens (
  id TEXT PRIMARY KEY, token TEXT NOT NULL UNIQUE,
  "clientId" TEXT NOT NULL REFERENCES oauth_clients ("clientId") ON DELETE CASCADE,
  "sessionId" TEXT REFERENCES user_sessions (id) ON DELETE SET NULL,
  "userId" TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE, "referenceId" TEXT, "authorizationCodeId" TEXT,
  resources TEXT, "requestedUserInfoClaims" TEXT, "expiresAt" TEXT NOT NULL, "createdAt" TEXT NOT NULL, revoked TEXT,
  "rotatedAt" TEXT, "rotationReplayResponse" TEXT, "rotationReplayExpiresAt" TEXT, "authTime" TEXT, confirmation TEXT,
  scopes TEXT NOT NULL);
CREATE INDEX oauth_refresh_tokens_by_user ON oauth_refresh_tokens ("userId", "clientId");
CREATE INDEX oauth_refresh_tokens_by_code ON oauth_refresh_tokens ("authorizationCodeId");
CREATE TABLE oauth_access_tokens (
  id TEXT PRIMARY KEY, token TEXT NOT NULL UNIQUE,
  "clientId" TEXT NOT NULL REFERENCES oauth_clients ("clientId") ON DELETE CASCADE,
  "sessionId" TEXT REFERENCES user_sessions (id) ON DELETE SET NULL, "userId" TEXT REFERENCES users (id) ON DELETE CASCADE,
  "referenceId" TEXT, "authorizationCodeId" TEXT, resources TEXT, "requestedUserInfoClaims" TEXT,
  "refreshId" TEXT REFERENCES oauth_refresh_tokens (id) ON DELETE CASCADE, "expiresAt" TEXT NOT NULL,
  "createdAt" TEXT NOT NULL, revoked TEXT, confirmation TEXT, scopes TEXT NOT NULL);
CREATE INDEX oauth_access_tokens_by_user ON oauth_access_tokens ("userId", "clientId");
CREATE INDEX oauth_access_tokens_by_refresh ON oauth_access_tokens ("refreshId");
CREATE INDEX oauth_access_tokens_by_code ON oauth_access_tokens ("authorizationCodeId");
CREATE TABLE oauth_consents (
  id TEXT PRIMARY KEY, "clientId" TEXT NOT NULL REFERENCES oauth_clients ("clientId") ON DELETE CASCADE,
  "userId" TEXT REFERENCES users (id) ON DELETE CASCADE, "referenceId" TEXT, resources TEXT,
  "requestedUserInfoClaims" TEXT, scopes TEXT NOT NULL, "createdAt" TEXT NOT NULL, "updatedAt" TEXT NOT NULL);
CREATE INDEX oauth_consents_by_user ON oauth_consents ("userId", "clientId");
CREATE TABLE oauth_client_assertions (id TEXT PRIMARY KEY, "expiresAt" TEXT NOT NULL);

-- 24 tool assignments
CREATE TABLE tool_assignments (
  tenant TEXT NOT NULL, profile_id TEXT NOT NULL, tool_id TEXT NOT NULL, mode TEXT NOT NULL, deployment_id TEXT,
  created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, PRIMARY KEY (tenant, profile_id, tool_id));
CREATE INDEX tool_assignments_by_tool ON tool_assignments (tenant, tool_id);

-- 25 service clients
CREATE TABLE service_clients (
  tenant TEXT NOT NULL, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, secret_hash TEXT NOT NULL, role TEXT NOT NULL,
  tier TEXT NOT NULL, gateways TEXT NOT NULL, created_at BIGINT NOT NULL, created_by TEXT NOT NULL,
  PRIMARY KEY (tenant, id), UNIQUE (tenant, name));

-- 26 OAuth of MCP servers
ALTER TABLE mcp_deployments ADD COLUMN oauth_grant TEXT;

-- 27 usage limits
CREATE TABLE usage_limits (
  tenant TEXT NOT NULL, id TEXT NOT NULL, entity_type TEXT NOT NULL, entity_id TEXT NOT NULL, limit_type TEXT NOT NULL,
  limit_value DOUBLE PRECISION NOT NULL, models TEXT, cleanup_interval TEXT NOT NULL, server TEXT, tool TEXT,
  anchor BIGINT NOT NULL, period_start BIGINT NOT NULL, used BIGINT NOT NULL, created_at BIGINT NOT NULL,
  created_by TEXT NOT NULL, PRIMARY KEY (tenant, id));

-- 28 secrets of sessions
ALTER TABLE secrets ADD COLUMN session_id TEXT REFERENCES user_sessions (id) ON DELETE CASCADE;
CREATE INDEX secrets_by_session ON secrets (session_id);

-- 29 sessions of MCP clients
CREATE TABLE mcp_sessions (
  tenant TEXT NOT NULL, id_hash TEXT NOT NULL, identity TEXT NOT NULL, initialize TEXT NOT NULL,
  used_at BIGINT NOT NULL, PRIMARY KEY (tenant, id_hash));
CREATE INDEX mcp_sessions_by_identity ON mcp_sessions (tenant, identity, used_at);
CREATE INDEX mcp_sessions_by_use ON mcp_sessions (tenant, used_at);

-- 30 passkeys
CREATE TABLE user_passkeys (
  id TEXT PRIMARY KEY, name TEXT, "publicKey" TEXT NOT NULL,
  "userId" TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE, "credentialID" TEXT NOT NULL,
  counter BIGINT NOT NULL, "deviceType" TEXT NOT NULL, "backedUp" BIGINT NOT NULL, transports TEXT,
  "createdAt" TEXT, aaguid TEXT);
CREATE INDEX user_passkeys_by_user ON user_passkeys ("userId");
CREATE INDEX user_passkeys_by_credential ON user_passkeys ("credentialID");

-- 31 networks of attempts to sign in
ALTER TABLE sign_in_attempts ADD COLUMN network TEXT;
DROP INDEX sign_in_attempts_by_address;
CREATE INDEX sign_in_attempts_by_network ON sign_in_attempts (network, at);

-- 32 tool policies and the trust of contexts
CREATE TABLE tool_policies (
  tenant TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, tool_id TEXT NOT NULL, conditions TEXT NOT NULL,
  is_default BIGINT NOT NULL, action TEXT NOT NULL, note TEXT, position BIGINT NOT NULL,
  created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, PRIMARY KEY (tenant, id));
CREATE INDEX tool_policies_in_order ON tool_policies (tenant, position);
CREATE UNIQUE INDEX tool_policies_one_default ON tool_policies (tenant, tool_id)
  WHERE kind = 'invocation' AND is_default = 1;
CREATE TABLE tool_policy_versions (tenant TEXT PRIMARY KEY, version BIGINT NOT NULL);
CREATE TABLE context_trust (
  tenant TEXT NOT NULL, context TEXT NOT NULL, cause TEXT NOT NULL, since BIGINT NOT NULL,
  PRIMARY KEY (tenant, context));

-- 33 tools of servers that answer by tasks
ALTER TABLE mcp_tools ADD COLUMN task_support TEXT;

-- 34 interactions with models
CREATE TABLE interactions (
  tenant TEXT NOT NULL, id TEXT NOT NULL, started_at BIGINT NOT NULL, owner TEXT NOT NULL, source TEXT NOT NULL,
  agent_id TEXT, proxy_id TEXT, run_id TEXT, session TEXT, provider TEXT NOT NULL, model TEXT, outcome TEXT NOT NULL,
  input_tokens BIGINT, output_tokens BIGINT, cache_read_tokens BIGINT, cache_write_tokens BIGINT,
  reasoning_tokens BIGINT, cost BIGINT, facts TEXT NOT NULL, PRIMARY KEY (tenant, id));
CREATE INDEX interactions_by_owner ON interactions (tenant, owner, id);
CREATE INDEX interactions_by_run ON interactions (tenant, run_id, id) WHERE run_id IS NOT NULL;
CREATE TABLE interaction_bodies (
  tenant TEXT NOT NULL, id TEXT NOT NULL, request TEXT, answer TEXT, is_whole BIGINT NOT NULL,
  is_redacted BIGINT NOT NULL, PRIMARY KEY (tenant, id));
CREATE TABLE token_usage (
  tenant TEXT NOT NULL, profile_id TEXT NOT NULL, input_tokens BIGINT NOT NULL, output_tokens BIGINT NOT NULL,
  PRIMARY KEY (tenant, profile_id));

-- 35 keys of users
ALTER TABLE api_keys ADD COLUMN user_id TEXT;
CREATE INDEX api_keys_by_user ON api_keys (tenant, user_id) WHERE user_id IS NOT NULL;

-- 36 virtual keys
CREATE TABLE virtual_keys (
  tenant TEXT NOT NULL, id TEXT NOT NULL, prefix TEXT NOT NULL UNIQUE, hash TEXT NOT NULL, name TEXT NOT NULL,
  scope TEXT NOT NULL, author TEXT NOT NULL, grants TEXT NOT NULL, created_at BIGINT NOT NULL,
  created_by TEXT NOT NULL, rotated_at BIGINT, expires_at BIGINT, last_used_at BIGINT, revoked_at BIGINT,
  PRIMARY KEY (tenant, id));
CREATE INDEX virtual_keys_by_name ON virtual_keys (tenant, name);
CREATE INDEX virtual_keys_by_author ON virtual_keys (tenant, author);

-- 37 approvals of tool calls
CREATE TABLE approvals (
  tenant TEXT NOT NULL, id TEXT NOT NULL, tool_id TEXT NOT NULL, tool TEXT NOT NULL, arguments TEXT NOT NULL,
  is_masked BIGINT NOT NULL, arguments_digest TEXT NOT NULL, reason TEXT NOT NULL, policy TEXT, requester TEXT NOT NULL,
  requested_by TEXT NOT NULL, context TEXT NOT NULL, started_from TEXT, call_id TEXT NOT NULL, run_id TEXT, wait_key TEXT,
  status TEXT NOT NULL, created_at BIGINT NOT NULL, expires_at BIGINT NOT NULL, answered_at BIGINT, answered_by TEXT,
  note TEXT, used_at BIGINT, PRIMARY KEY (tenant, id));
CREATE INDEX approvals_of_call ON approvals (tenant, requester, arguments_digest);
CREATE INDEX approvals_newest ON approvals (tenant, created_at);
CREATE INDEX approvals_over ON approvals (tenant, expires_at);

-- 38 keys of providers
CREATE TABLE provider_keys (
  tenant TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, provider TEXT NOT NULL, scope TEXT NOT NULL,
  author TEXT NOT NULL, is_primary BIGINT NOT NULL, secret TEXT NOT NULL, owns_secret BIGINT NOT NULL,
  created_at BIGINT NOT NULL, created_by TEXT NOT NULL, rotated_at BIGINT, PRIMARY KEY (tenant, id));
CREATE INDEX provider_keys_by_provider ON provider_keys (tenant, provider);
CREATE INDEX provider_keys_by_author ON provider_keys (tenant, author);

-- 39 answers of clients at another process
CREATE TABLE passed_answers (
  tenant TEXT NOT NULL, key_hash TEXT NOT NULL, sender TEXT NOT NULL, answer TEXT NOT NULL,
  created_at BIGINT NOT NULL, taken_at BIGINT, outcome TEXT, PRIMARY KEY (tenant, key_hash));

-- 40 credentials of untrusted contexts
ALTER TABLE context_trust ADD COLUMN credential TEXT;
ALTER TABLE context_trust ADD COLUMN seen BIGINT NOT NULL DEFAULT 0;
UPDATE context_trust SET seen = since;
UPDATE context_trust SET credential = substr(context, 8) WHERE context LIKE 'caller:key:%' AND context NOT LIKE '%@%';
CREATE INDEX context_trust_of_credential ON context_trust (tenant, credential, seen) WHERE credential IS NOT NULL;

-- 41 rules for cheaper models
CREATE TABLE optimization_rules (
  tenant TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, entity_type TEXT NOT NULL, entity_id TEXT NOT NULL,
  provider TEXT NOT NULL, conditions TEXT NOT NULL, target_model TEXT NOT NULL, is_enabled BIGINT NOT NULL,
  created_at BIGINT NOT NULL, created_by TEXT NOT NULL, PRIMARY KEY (tenant, id));
ALTER TABLE interactions ADD COLUMN saved BIGINT;

-- 42 notifications and tasks at another process
ALTER TABLE passed_answers ADD COLUMN notices TEXT;
CREATE TABLE mcp_tasks (
  tenant TEXT NOT NULL, id TEXT NOT NULL, identity TEXT NOT NULL, process TEXT NOT NULL, view TEXT NOT NULL,
  seen_at BIGINT NOT NULL, PRIMARY KEY (tenant, id));
CREATE INDEX mcp_tasks_by_identity ON mcp_tasks (tenant, identity);
CREATE INDEX mcp_tasks_by_process ON mcp_tasks (tenant, process);

-- 43 choices of MCP clients
ALTER TABLE mcp_sessions ADD COLUMN choices TEXT;
ALTER TABLE mcp_sessions ADD COLUMN chosen_at BIGINT;
CREATE INDEX mcp_sessions_by_choice ON mcp_sessions (tenant, chosen_at) WHERE chosen_at IS NOT NULL;

-- 44 sessions that end at every process
ALTER TABLE mcp_sessions ADD COLUMN ended_at BIGINT;
CREATE INDEX mcp_sessions_by_end ON mcp_sessions (tenant, ended_at) WHERE ended_at IS NOT NULL;
ALTER TABLE users ADD COLUMN sign_outs BIGINT NOT NULL DEFAULT 0;

-- 45 terminals that wait for a person
CREATE TABLE device_authorizations (
  id TEXT PRIMARY KEY, code_hash TEXT NOT NULL UNIQUE, user_code TEXT NOT NULL UNIQUE,
  client_id TEXT NOT NULL REFERENCES oauth_clients ("clientId") ON DELETE CASCADE, scopes TEXT NOT NULL,
  resources TEXT NOT NULL, address TEXT NOT NULL, network TEXT NOT NULL, created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL, status TEXT NOT NULL, user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
  interval_ms BIGINT NOT NULL, polled_at BIGINT);
CREATE INDEX device_authorizations_by_network ON device_authorizations (network);
CREATE INDEX device_authorizations_by_end ON device_authorizations (expires_at);

-- 46 costs in billionths of a dollar
UPDATE interactions SET cost = CASE WHEN cost < 9007199254740 THEN cost * 1000 ELSE 9007199254740991 END
  WHERE cost IS NOT NULL;
UPDATE interactions SET saved = CASE WHEN saved < 9007199254740 AND saved > -9007199254740 THEN saved * 1000
  WHEN saved > 0 THEN 9007199254740991 ELSE -9007199254740991 END
  WHERE saved IS NOT NULL;

-- 47 tools of each deployment
CREATE TABLE mcp_tool_definitions (
  tenant TEXT NOT NULL, catalog_id TEXT NOT NULL, digest TEXT NOT NULL, title TEXT, description TEXT NOT NULL,
  input_schema TEXT NOT NULL, output_schema TEXT, annotations TEXT, task_support TEXT,
  PRIMARY KEY (tenant, catalog_id, digest));
CREATE TABLE mcp_tool_lists (
  tenant TEXT NOT NULL, catalog_id TEXT NOT NULL, id TEXT NOT NULL, tools TEXT NOT NULL,
  PRIMARY KEY (tenant, catalog_id, id));
ALTER TABLE mcp_deployments ADD COLUMN tool_list TEXT;
INSERT INTO mcp_tool_definitions
  SELECT tenant, catalog_id, id, title, description, input_schema, output_schema, annotations, task_support
  FROM mcp_tools WHERE removed_at IS NULL;
INSERT INTO mcp_tool_lists SELECT tenant, catalog_id, catalog_id,
  json_object_agg(id, id)::text
  FROM mcp_tools WHERE removed_at IS NULL GROUP BY tenant, catalog_id;
UPDATE mcp_deployments SET tool_list = catalog_id WHERE status IN ('success', 'error') AND EXISTS (
  SELECT 1 FROM mcp_tool_lists WHERE mcp_tool_lists.tenant = mcp_deployments.tenant
  AND mcp_tool_lists.catalog_id = mcp_deployments.catalog_id);
ALTER TABLE mcp_tools DROP COLUMN title;
ALTER TABLE mcp_tools DROP COLUMN description;
ALTER TABLE mcp_tools DROP COLUMN input_schema;
ALTER TABLE mcp_tools DROP COLUMN output_schema;
ALTER TABLE mcp_tools DROP COLUMN annotations;
ALTER TABLE mcp_tools DROP COLUMN task_support;
