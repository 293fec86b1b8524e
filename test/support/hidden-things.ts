import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import type { TestApp } from './app.ts'
import { agentYaml } from './executions.ts'
import type { UpstreamByKey } from './upstream-by-key.ts'
import { ended, start, workflowYaml } from './workflows.ts'

/** What one person has, alone or with a team, and others of the tenant do not. */
export type HiddenThings = Readonly<{
  /** The ids and the names of all of it. Each has a digit, so that there is a value of the same form that names nothing. */
  values: readonly string[]
  /** A text that is in all of it, and in no answer to others. */
  canary: string
  /** The identities of those who have it, as rows name them. */
  owners: readonly string[]
}>

const CANARY = 'zq-canary'
const PUBLIC_KEY = '6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw='

/** Servers that a person can deploy. */
type Servers = Readonly<{ url: string; byKey: UpstreamByKey }>
type Made = Readonly<{ id: string; slug?: string }>
type Owner = Readonly<{
  /** The person, in a team of people that has the name `team`. */
  person: ToolCaller
  team: string
  /** A program of the same tenant with things of its own. */
  program: ToolCaller
}>

export async function plantHiddenThings(app: TestApp, owner: Owner, servers: Servers): Promise<HiddenThings> {
  const values: string[] = []
  for (const [number, sharing] of [
    [52, { scope: 'personal' }],
    [41, { scope: 'team', teams: [owner.team] }],
  ] as const) {
    values.push(...(await plantShared(app, owner, { number, sharing, serverUrl: servers.url })))
  }
  values.push(...(await plantOwnTools(app, owner.person, servers.byKey)))
  values.push(...(await plantRuns(app, owner.person)), ...(await plantRequests(app, owner.person)))
  const { session_id } = await app.ask('seal_session_create', { public_key: PUBLIC_KEY }, owner.program)
  const identities = [`user:${owner.person.principal.user}`, `key:${owner.program.principal.keyId}`]
  values.push(String(session_id), ...plantRows(app, identities[0]!))
  return { values, canary: CANARY, owners: identities }
}

type Shared = Readonly<{ number: number; sharing: object; serverUrl: string }>

/** One of each kind of things that are shared by scope. */
async function plantShared(app: TestApp, { person, team }: Owner, { number, sharing, serverUrl }: Shared) {
  const values: string[] = []
  const make = async (tool: string, name: string, more: object = {}): Promise<string> => {
    const made = await app.ask<Made>(tool, { name, ...sharing, ...more }, person)
    values.push(made.id, name, ...(made.slug === undefined ? [] : [made.slug]))
    return made.id
  }
  const description = { description: CANARY }
  const agentId = await make('create_agent', `Hidden agent ${number}`, { ...description, systemPrompt: CANARY })
  const gatewayId = await make('create_mcp_gateway', `Hidden gateway ${number}`, description)
  await make('create_llm_proxy', `Hidden proxy ${number}`, description)
  await make('virtual_key_create', `hidden-virtual-${number}`)
  await make('provider_key_create', `hidden-provider-${number}`, { provider: 'openai', secret: `sk-hidden-${number}` })
  const catalogId = await make('create_mcp_server', `Hidden server ${number}`, { ...description, serverUrl })
  const where = 'teams' in sharing ? { scope: 'team', teamId: team } : {}
  const { id } = await app.ask<Made>('deploy_mcp_server', { catalogId, ...where }, person)
  const { tools } = await app.ask<{ tools: { id: string; name: string }[] }>(
    'get_mcp_server_tools',
    { mcpServerId: catalogId },
    person,
  )
  const toolId = tools[0]!.id
  values.push(id, toolId, tools[0]!.name)
  await app.ask('bulk_assign_tools_to_agents', { assignments: [{ agentId, toolId, mcpServerId: id }] }, person)
  const assignment = { mcpGatewayId: gatewayId, toolId, mcpServerId: id }
  await app.ask('bulk_assign_tools_to_mcp_gateways', { assignments: [assignment] }, person)
  return values
}

/** Tools that a server which all see lists for one person's key alone, and of which it tells others something else. */
async function plantOwnTools(app: TestApp, person: ToolCaller, upstream: UpstreamByKey): Promise<string[]> {
  upstream.tools['hidden'] = { 'hidden-tool-52': CANARY, plain: CANARY }
  upstream.tools['other'] = { plain: 'Of all.' }
  const authFields = [{ name: 'X-Api-Key', label: 'Key', type: 'header', secret: true }]
  const server = { name: 'Keyed server', serverUrl: upstream.url, scope: 'org', requiresAuth: true, authFields }
  const { id: catalogId } = await app.ask<Made>('create_mcp_server', server)
  const deploy = (key: string, scope: string, caller?: ToolCaller) =>
    app.ask<Made>('deploy_mcp_server', { catalogId, scope, values: { 'X-Api-Key': key } }, caller)
  await deploy('other', 'org')
  const { id } = await deploy('hidden', 'personal', person)
  const { tools } = await app.ask<{ tools: { id: string; name: string }[] }>(
    'get_mcp_server_tools',
    { mcpServerId: catalogId },
    person,
  )
  const tool = tools.find(({ name }) => name.endsWith('hidden-tool-52'))!
  return [id, tool.id, tool.name]
}

/** A workflow for one person, a run of it that waits, one of an agent that has ended, and one that its person must approve. */
async function plantRuns(app: TestApp, person: ToolCaller): Promise<string[]> {
  const states = `A: { kind: Human, prompt: ${CANARY}, transitions: [] }`
  const manifest_yaml = workflowYaml('hidden-flow-52', states, { metadata: `description: ${CANARY}` })
  const { workflow_id } = await app.ask('aegis.workflow.create', { manifest_yaml })
  const demoted = { name: 'hidden-flow-52', target_scope: 'user', user_id: person.principal.user }
  await app.ask('aegis.workflow.demote', demoted)
  const waiting = await start(app, 'hidden-flow-52', { input: { text: CANARY } }, person)
  const plain = workflowYaml('flow-of-all', 'A: { kind: System, command: update_blackboard, transitions: [] }')
  await app.ask('aegis.workflow.create', { manifest_yaml: plain })
  const over = await start(app, 'flow-of-all', { input: { text: CANARY } }, person)
  await ended(app, over, person)
  await app.ask('aegis.agent.create', {
    manifest_yaml: agentYaml('agent-of-all', '  task: { instruction: "Work." }\n'),
  })
  const execution = await app.ask<{ execution_id: string }>(
    'aegis.task.execute',
    { agent_id: 'agent-of-all', intent: CANARY },
    person,
  )
  await app.ask('aegis.task.wait', { execution_id: execution.execution_id }, person)
  return ['hidden-flow-52', String(workflow_id), waiting, over, execution.execution_id]
}

/** What waits for a person: a secret to be entered, a server to be installed, a call to be approved. */
async function plantRequests(app: TestApp, person: ToolCaller): Promise<string[]> {
  const secret = await app.ask<{ reference: string }>('secret_link_create', { purpose: CANARY }, person)
  const { request } = await app.ask<{ request: Made }>(
    'create_mcp_server_installation_request',
    { name: 'hidden-request-52', reason: CANARY },
    person,
  )
  const policy = { toolId: 'project_create', conditions: [], action: 'require_approval' }
  const made = await app.ask<{ policy: Made }>('create_tool_invocation_policy', policy)
  const held = await app.refusal('project_create', { project: CANARY }, person)
  await app.ask('delete_tool_invocation_policy', { id: made.policy.id })
  return [secret.reference, request.id, String((held.details as Record<string, unknown>)['approval_id'])]
}

const WORKSPACE = '7caed28e-8821-4997-8d84-2ae424d352be'

/** The records of what needs more than the program: a workspace with a snapshot, a team of agents, a request to a model. */
function plantRows(app: TestApp, owner: string): string[] {
  app.behindItsBack((db) => {
    const insert = (table: string, row: Record<string, string | number | null>): void => {
      const names = Object.keys(row)
      const marks = names.map(() => '?').join()
      db.prepare(`INSERT INTO ${table} (${names.join()}) VALUES (${marks})`).run(...Object.values(row))
    }
    const made = { tenant: 'local', created_at: 1, created_by: CANARY }
    insert('workspaces', {
      ...{ ...made, id: WORKSPACE, name: 'hidden-space-52', owner, state: 'stopped', wanted: 'stopped', image: 'host' },
      ...{ vcpus: 1, memory_mb: 512, disk_gb: 1, ip: '10.99.7.52', forwards: '[]', layers: '["hidden-layer-52"]' },
      network: '{"allowInternet":false,"allowInterVm":false,"allowedPorts":[],"allowedDomains":[]}',
      ...{ env: `{"TEXT":"${CANARY}"}`, forked_from: null, current_snapshot_id: null, node: 'local' },
    })
    insert('workspace_snapshots', {
      ...{ ...made, id: 'hidden-snapshot-id-52', workspace_id: WORKSPACE, sequence: 1, name: 'hidden-snapshot-52' },
      ...{ layer_id: 'hidden-layer-52', layers: '["hidden-layer-52"]', bytes: 1, has_memory: 0, state: 'ready' },
    })
    insert('teams', {
      ...{ ...made, name: 'hidden-team-52', owner, state: 'ready', max_vms: 1, depth: 0, node: 'local', last_seq: 0 },
    })
    insert('team_members', {
      ...{ tenant: 'local', team: 'hidden-team-52', name: 'hidden-member-52', position: 0, role: CANARY, skills: '[]' },
      ...{ description: CANARY, workspace_id: WORKSPACE },
    })
    insert('interactions', {
      ...{ tenant: 'local', id: 'ixhidden52', started_at: 1, owner, source: 'proxy', session: 'hidden-session-52' },
      ...{ provider: 'p', model: 'hidden-model-52', outcome: 'ok', facts: '{"labels":{},"decisions":[],"teams":[]}' },
    })
    insert('interaction_bodies', {
      ...{ tenant: 'local', id: 'ixhidden52', request: CANARY, answer: CANARY, is_whole: 1, is_redacted: 0 },
    })
  })
  const names = ['space', 'snapshot', 'team', 'member', 'session'].map((what) => `hidden-${what}-52`)
  return [WORKSPACE, 'hidden-snapshot-id-52', 'ixhidden52', ...names]
}
