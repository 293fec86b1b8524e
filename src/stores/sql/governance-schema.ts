import type { PeopleSchema } from './people-schema.ts'

/** Tables of what is shared with others under rules: secrets, servers, people. */
export type GovernanceSchema = PeopleSchema & {
  secrets: SecretTable
  secret_links: SecretLinkTable
  roles: RoleTable
  mcp_catalog_items: McpCatalogItemTable
  mcp_deployments: McpDeploymentTable
  mcp_tools: McpToolTable
  mcp_tool_definitions: McpToolDefinitionTable
  mcp_tool_lists: McpToolListTable
  mcp_tool_versions: McpToolVersionTable
  mcp_installation_requests: McpInstallationRequestTable
  shared_with_teams: SharedWithTeamTable
  profiles: ProfileTable
  profile_sub_agents: ProfileSubAgentTable
  tool_assignments: ToolAssignmentTable
  usage_limits: UsageLimitTable
  mcp_sessions: McpSessionTable
  passed_answers: PassedAnswerTable
  mcp_tasks: McpTaskTable
  tool_policies: ToolPolicyTable
  tool_policy_versions: ToolPolicyVersionTable
  context_trust: ContextTrustTable
  approvals: ApprovalTable
  interactions: InteractionTable
  interaction_bodies: InteractionBodiesTable
  token_usage: TokenUsageTable
  virtual_keys: VirtualKeyTable
  provider_keys: ProviderKeyTable
  optimization_rules: OptimizationRuleTable
}

export type SecretTable = {
  tenant: string
  id: string
  owner: string
  purpose: string
  key_id: string
  sealed: string
  session_id: string | null
  created_at: number
  updated_at: number
}

export type SecretLinkTable = {
  tenant: string
  id: string
  token_hash: string
  principal: string
  kind: string
  subject: string
  title: string
  fields: string
  created_at: number
  expires_at: number
  used_at: number | null
}

export type RoleTable = {
  tenant: string
  name: string
  description: string
  permissions: string
  created_at: number
  created_by: string
}

/** The teams of people with which something of the scope `team` is shared; see `sharing.ts`. */
export type SharedWithTeamTable = { tenant: string; kind: string; resource_id: string; team_id: string }

/** What agents, gateways and proxies have in common. An agent has the id of its row in `agents`. */
export type ProfileTable = {
  tenant: string
  id: string
  kind: string
  name: string
  /** The name as it is compared: one case, composed. */
  name_key: string
  slug: string
  description: string | null
  scope: string
  author: string
  icon: string | null
  labels: string
  system_prompt: string | null
  suggested_prompts: string
  exposure: string
  context_untrusted: number
  is_default: number
  created_at: number
  updated_at: number
}

/** Which tools a gateway or an agent has. `tool_id` is the id of a tool of another server, or the name of one of ours. */
export type ToolAssignmentTable = {
  tenant: string
  profile_id: string
  tool_id: string
  mode: string
  deployment_id: string | null
  created_at: number
  updated_at: number
}

type ProfileSubAgentTable = { tenant: string; profile_id: string; sub_agent_id: string; added_at: number }

/** `about` is the description for people, as JSON; `config` says how the server is run or reached. */
export type McpCatalogItemTable = {
  tenant: string
  id: string
  name: string
  name_key: string
  slug: string
  scope: string
  author: string
  about: string
  server_type: string
  config: string
  created_at: number
  updated_at: number
}

/** `holder` is the owner within its scope: the author, the team, or nobody in particular. */
export type McpDeploymentTable = {
  tenant: string
  id: string
  catalog_id: string
  scope: string
  author: string
  holder: string
  status: string
  error: string | null
  field_values: string
  oauth_grant: string | null
  tool_list: string | null
  created_at: number
  updated_at: number
}

export type McpToolTable = {
  tenant: string
  id: string
  catalog_id: string
  upstream_name: string
  name: string
  aliases: string
  list_version: number
  removed_at: number | null
}

/** What a server says of a tool, once for all deployments that say the same. */
export type McpToolDefinitionTable = {
  tenant: string
  catalog_id: string
  digest: string
  title: string | null
  description: string
  input_schema: string
  output_schema: string | null
  annotations: string | null
  task_support: string | null
}

/** The tools that deployments of a server list, once for all that list the same; `tools` are digests by id, as JSON. */
export type McpToolListTable = { tenant: string; catalog_id: string; id: string; tools: string }

type McpToolVersionTable = { tenant: string; version: number }

export type McpInstallationRequestTable = {
  tenant: string
  id: string
  author: string
  wanted: string
  status: string
  notes: string
  decided_by: string | null
  decided_at: number | null
  created_at: number
}

/** `used` belongs to the period that begins at `period_start`; in a later one nothing is used yet. `server` and `tool` are JSON. */
export type UsageLimitTable = {
  tenant: string
  id: string
  entity_type: string
  entity_id: string
  limit_type: string
  limit_value: number
  models: string | null
  cleanup_interval: string
  server: string | null
  tool: string | null
  anchor: number
  period_start: number
  used: number
  created_at: number
  created_by: string
}

/** `id_hash` is the digest of the session's id, which only its client has. */
export type McpSessionTable = {
  tenant: string
  id_hash: string
  identity: string
  initialize: string
  used_at: number
  choices: string | null
  chosen_at: number | null
  /** The row of an ended session is removed later, so that other processes on the store learn of the end. */
  ended_at: number | null
}

/** `key_hash` is the digest of the state that the client received with the question. */
export type PassedAnswerTable = {
  tenant: string
  key_hash: string
  /** One request of a client; another may follow under the same key. */
  sender: string
  answer: string
  created_at: number
  taken_at: number | null
  /** The latest notices of the process that took the answer, as JSON. */
  notices: string | null
  outcome: string | null
}

/** Tasks of clients at all processes. `view` is the entry in `tasks/list`, as JSON. */
export type McpTaskTable = {
  tenant: string
  id: string
  identity: string
  process: string
  view: string
  seen_at: number
}

export type ToolPolicyTable = {
  tenant: string
  id: string
  kind: string
  tool_id: string
  conditions: string
  is_default: number
  action: string
  note: string | null
  position: number
  created_at: number
  updated_at: number
}

type ToolPolicyVersionTable = { tenant: string; version: number }

export type ContextTrustTable = {
  tenant: string
  context: string
  cause: string
  since: number
  credential: string | null
  seen: number
}

/** One request to a language model; `model` is the one that answered, or that was asked for. `cost` and `saved` are in billionths of a dollar. */
export type InteractionTable = {
  tenant: string
  id: string
  started_at: number
  owner: string
  source: string
  agent_id: string | null
  proxy_id: string | null
  run_id: string | null
  session: string | null
  provider: string
  model: string | null
  outcome: string
  input_tokens: number | null
  output_tokens: number | null
  cache_read_tokens: number | null
  cache_write_tokens: number | null
  reasoning_tokens: number | null
  cost: number | null
  saved: number | null
  /** Fields without a search, as JSON. */
  facts: string
}

export type InteractionBodiesTable = {
  tenant: string
  id: string
  request: string | null
  answer: string | null
  is_whole: number
  is_redacted: number
}

/** The totals of an agent or a proxy since its creation. */
export type TokenUsageTable = { tenant: string; profile_id: string; input_tokens: number; output_tokens: number }

/** `grants` is JSON; the teams of a key are in `shared_with_teams`. */
export type VirtualKeyTable = {
  tenant: string
  id: string
  prefix: string
  hash: string
  name: string
  scope: string
  author: string
  grants: string
  created_at: number
  created_by: string
  rotated_at: number | null
  expires_at: number | null
  last_used_at: number | null
  revoked_at: number | null
}

export type ApprovalTable = {
  tenant: string
  id: string
  tool_id: string
  tool: string
  arguments: string
  is_masked: number
  arguments_digest: string
  reason: string
  policy: string | null
  requester: string
  requested_by: string
  context: string
  started_from: string | null
  call_id: string
  run_id: string | null
  wait_key: string | null
  status: string
  created_at: number
  expires_at: number
  answered_at: number | null
  answered_by: string | null
  note: string | null
  used_at: number | null
}

/** `secret` is a reference; the teams of a key are in `shared_with_teams`. */
export type ProviderKeyTable = {
  tenant: string
  id: string
  name: string
  provider: string
  scope: string
  author: string
  is_primary: number
  secret: string
  owns_secret: number
  created_at: number
  created_by: string
  rotated_at: number | null
}

/** `conditions` is JSON. */
export type OptimizationRuleTable = {
  tenant: string
  id: string
  name: string
  entity_type: string
  entity_id: string
  provider: string
  conditions: string
  target_model: string
  is_enabled: number
  created_at: number
  created_by: string
}
