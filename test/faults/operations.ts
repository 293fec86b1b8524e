import { permissionsOfRole } from '../../src/contract/permissions.ts'
import { LOCAL_TENANT } from '../../src/contract/principal.ts'
import { principalOfUser } from '../../src/domains/people/rules.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { type Answer, ownerCaller, type TestApp, type TestAppOptions } from '../support/app.ts'
import { isLongRun } from '../support/long-run.ts'
import { newSigner } from '../support/seal.ts'

/** A call of a tool that the sweep makes. */
export type SweptCall = Readonly<{ tool: string; args: Answer }>

/** What one operation writes in several steps. Every turn prepares its own ground, without faults, then makes its calls. */
export type Operation = Readonly<{
  name: string
  config?: TestAppOptions['config']
  /**
   * `refused`: the calls are refused by a rule when nothing fails. `asking`: they are refused, and leave a request behind. `read`: they
   * change nothing but the log.
   */
  kind: 'write' | 'refused' | 'asking' | 'read'
  /** The local owner if absent. */
  caller?: ToolCaller
  prepare(app: TestApp, turn: number): Promise<readonly SweptCall[]>
  /** Part of every run over every store. */
  isBrief?: boolean
}>

const newTask = async (app: TestApp, title: string, rest: Answer = {}): Promise<string> =>
  (await app.ask<{ task_id: string }>('task_create', { title, project: 'ground', ...rest })).task_id

/** A person at the terminal, who is outside every context. */
const byPerson: ToolCaller = { ...ownerCaller, transport: 'cli' }

/** One prepared ground for all turns. */
const once = (make: (app: TestApp) => Promise<string>) => {
  const made = new WeakMap<TestApp, Promise<string>>()
  return (app: TestApp): Promise<string> => {
    const existing = made.get(app) ?? make(app)
    made.set(app, existing)
    return existing
  }
}
const first = once((app) => newTask(app, 'first of the ground'))
const second = once((app) => newTask(app, 'second of the ground'))

const create = async (app: TestApp, turn: number): Promise<SweptCall> => ({
  tool: 'task_create',
  args: {
    title: `created in turn ${turn}`,
    description: `words of turn${turn}`,
    project: `project-${turn}`,
    labels: ['swept', 'new'],
    parent_id: await first(app),
    depends_on: [await first(app), await second(app)],
  },
})

const update = async (app: TestApp, turn: number): Promise<SweptCall> => ({
  tool: 'task_update',
  args: {
    task_id: await newTask(app, `to update in turn ${turn}`, { labels: ['old'], depends_on: [await first(app)] }),
    description: `other words of turn${turn}`,
    labels: ['swept', `turn-${turn}`],
    depends_on: [await second(app)],
    status: 'todo',
  },
})

const thought = async (app: TestApp, turn: number): Promise<SweptCall> => ({
  tool: 'thought_record',
  args: {
    task_id: await first(app),
    type: 'decision',
    content: `thought of turn ${turn}`,
    blockers: ['one'],
    metadata: { turn },
  },
})

const sessionStart = async (app: TestApp): Promise<SweptCall> => ({
  tool: 'audit_session_start',
  args: { task_id: await first(app), auditor_id: 'auditor', scope: 'deep' },
})

const finalize = async (app: TestApp, turn: number): Promise<SweptCall> => {
  const task_id = await newTask(app, `audited in turn ${turn}`)
  const child = await newTask(app, `part of what is audited in turn ${turn}`, { parent_id: task_id })
  const { session_id } = await app.ask<{ session_id: string }>('audit_session_start', {
    task_id,
    auditor_id: 'auditor',
    scope: 'deep',
  })
  for (const audited of [task_id, child]) {
    await app.ask('thought_record', { task_id: audited, type: 'discovery', content: `found in turn ${turn}` })
  }
  return { tool: 'merkle_finalize', args: { session_id } }
}

const createKey = async (_: TestApp, turn: number): Promise<SweptCall> => ({
  tool: 'api_key_create',
  args: { name: `agent-${turn}`, scopes: ['task:read'] },
})

const revokeKey = async (app: TestApp, turn: number): Promise<SweptCall> => {
  const { id } = await app.ask<{ id: string }>('api_key_create', { name: `revoked-${turn}` })
  return { tool: 'api_key_revoke', args: { key: id } }
}

const attest = async (): Promise<SweptCall> => ({
  tool: 'seal_session_create',
  args: { public_key: newSigner().publicKey, task_summary: 'swept' },
})

const enterSecret = async (app: TestApp, turn: number): Promise<SweptCall> => {
  const { url } = await app.ask<{ url: string }>('secret_link_create', { purpose: `token ${turn}` })
  return { tool: 'secret_link_submit', args: { token: url.split('/').at(-1)!, values: { value: `value ${turn}` } } }
}

const deleteSecret = async (app: TestApp, turn: number): Promise<SweptCall> => {
  const { reference } = await app.ask<{ reference: string }>('secret_link_create', { purpose: `deleted ${turn}` })
  return { tool: 'secret_delete', args: { id: reference } }
}

const createServer = async (_: TestApp, turn: number): Promise<SweptCall> => ({
  tool: 'create_mcp_server',
  args: {
    name: `server ${turn}`,
    command: 'node',
    environment: [{ key: 'T', type: 'secret', value: 'swept', promptOnInstallation: false }],
  },
})

const renameServer = async (app: TestApp, turn: number): Promise<SweptCall> => {
  const { id } = await app.ask<{ id: string }>('create_mcp_server', { name: `before ${turn}`, command: 'node' })
  return { tool: 'edit_mcp_description', args: { id, name: `after ${turn}`, scope: 'org' } }
}

const createLimit = async (_app: TestApp, turn: number): Promise<SweptCall> => ({
  tool: 'create_limit',
  args: {
    entity_type: 'organization',
    entity_id: 'local',
    limit_type: 'token_cost',
    limit_value: 1,
    model: [`model-${turn}`],
  },
})

const createGateway = async (_: TestApp, turn: number): Promise<SweptCall> => ({
  tool: 'create_mcp_gateway',
  args: { name: `gateway ${turn}` },
})

const createProxy = async (_: TestApp, turn: number): Promise<SweptCall> => ({
  tool: 'create_llm_proxy',
  args: { name: `proxy ${turn}` },
})

const createVirtualKey = async (_: TestApp, turn: number): Promise<SweptCall> => ({
  tool: 'virtual_key_create',
  args: { name: `virtual-${turn}`, models: ['m'] },
})

const rotateVirtualKey = async (app: TestApp, turn: number): Promise<SweptCall> => {
  const { id } = await app.ask<{ id: string }>('virtual_key_create', { name: `rotated-${turn}` })
  return { tool: 'virtual_key_rotate', args: { key: id } }
}

const revokeVirtualKey = async (app: TestApp, turn: number): Promise<SweptCall> => {
  const { id } = await app.ask<{ id: string }>('virtual_key_create', { name: `revoked-${turn}` })
  return { tool: 'virtual_key_revoke', args: { key: id } }
}

const newProviderKey = (app: TestApp, name: string): Promise<{ id: string }> =>
  app.ask<{ id: string }>('provider_key_create', { name, provider: 'openai', secret: `sk-${name}`, primary: true })

const createProviderKey = async (app: TestApp, turn: number): Promise<SweptCall> => {
  await newProviderKey(app, `before-${turn}`)
  const args = { name: `provider-${turn}`, provider: 'openai', secret: `sk-${turn}`, primary: true }
  return { tool: 'provider_key_create', args }
}

const rotateProviderKey = async (app: TestApp, turn: number): Promise<SweptCall> => {
  const { id } = await newProviderKey(app, `replaced-${turn}`)
  return { tool: 'provider_key_rotate', args: { key: id, secret: `sk-new-${turn}` } }
}

const deleteProviderKey = async (app: TestApp, turn: number): Promise<SweptCall> => {
  const { id } = await newProviderKey(app, `removed-${turn}`)
  return { tool: 'provider_key_delete', args: { key: id } }
}

const ruleOf = (name: string): Answer => ({
  ...{ name, entity_type: 'organization', entity_id: 'local' },
  ...{ provider: 'openai', max_tokens: 10, target_model: 'gpt-5-mini', enabled: false },
})

const createRule = async (_: TestApp, turn: number): Promise<SweptCall> => ({
  tool: 'optimization_rule_create',
  args: ruleOf(`rule-${turn}`),
})

const updateRule = async (app: TestApp, turn: number): Promise<SweptCall> => {
  await app.ask('optimization_rule_create', ruleOf(`changed-${turn}`))
  return { tool: 'optimization_rule_update', args: { rule: `changed-${turn}`, has_tools: true, max_tokens: 20 } }
}

const deleteRule = async (app: TestApp, turn: number): Promise<SweptCall> => {
  await app.ask('optimization_rule_create', ruleOf(`deleted-${turn}`))
  return { tool: 'optimization_rule_delete', args: { rule: `deleted-${turn}` } }
}

const assignTools = async (app: TestApp, turn: number): Promise<SweptCall> => {
  const { id } = await app.ask<{ id: string }>('create_mcp_gateway', { name: `assigned ${turn}` })
  const assignments = ['task_list', 'task_get'].map((toolId) => ({ mcpGatewayId: id, toolId }))
  return { tool: 'bulk_assign_tools_to_mcp_gateways', args: { assignments } }
}

const createUser = async (_app: TestApp, turn: number): Promise<SweptCall> => ({
  tool: 'user_create',
  args: { email: `swept-${turn}@example.com` },
})

/** Keys of the user end in the same transaction. */
const deleteUser = async (app: TestApp, turn: number): Promise<SweptCall> => {
  const email = `removed-${turn}@example.com`
  const made = await app.ask<{ id: string }>('user_create', { email, role: 'admin' })
  const user = { tenant: LOCAL_TENANT, id: made.id, email, name: email, role: 'admin', tier: 'system' } as const
  const caller = {
    ...ownerCaller,
    principal: principalOfUser({ ...user, createdBy: 'owner', createdAtMs: 0 }, permissionsOfRole('admin'), []),
  }
  for (const name of ['a', 'b'])
    await app.ask('api_key_create', { name: `removed-${turn}-${name}`, role: 'admin' }, caller)
  return { tool: 'user_delete', args: { user: email } }
}

/** A key ends with the role, in the same transaction. */
const deleteRole = async (app: TestApp, turn: number): Promise<SweptCall> => {
  const name = `role-${turn}`
  await app.ask('role_create', { name, permissions: ['task:read'] })
  await app.ask('api_key_create', { name, role: name })
  return { tool: 'role_delete', args: { name } }
}

const giveRole = async (app: TestApp, turn: number): Promise<SweptCall> => {
  const [role, email] = [`given-${turn}`, `given-${turn}@example.com`]
  await app.ask('role_create', { name: role, permissions: ['task:read'] })
  await app.ask('user_create', { email, role: 'editor' })
  return { tool: 'user_update', args: { user: email, role } }
}

const acceptInvitation = async (app: TestApp, turn: number): Promise<SweptCall> => {
  const { link } = await app.ask<{ link: string }>('invitation_create', { email: `invited-${turn}@example.com` })
  return { tool: 'invitation_accept', args: { token: link.split('/').at(-1)!, password: 'correct horse battery' } }
}

const admitUser = async (app: TestApp, turn: number): Promise<SweptCall> => {
  const email = `admitted-${turn}@example.com`
  await app.ask('invitation_create', { email })
  return { tool: 'user_admit', args: { provider: 'company', email } }
}
const provider = { id: 'company', name: 'Company', issuer: 'https://login.example.com', client_id: 'castellan' }

const createClient = async (app: TestApp, turn: number): Promise<SweptCall> => {
  const { id } = await app.ask<{ id: string }>('create_mcp_gateway', { name: `of client ${turn}` })
  return { tool: 'oauth_client_create', args: { name: `client ${turn}`, gateways: [id] } }
}
const deleteClient = async (app: TestApp, turn: number): Promise<SweptCall> => {
  const { id } = await app.ask<{ id: string }>('create_mcp_gateway', { name: `of client before ${turn}` })
  await app.ask('oauth_client_create', { name: `before ${turn}`, gateways: [id] })
  return { tool: 'oauth_client_delete', args: { client: `before ${turn}` } }
}

const createPolicy = async (_: TestApp, turn: number): Promise<SweptCall> => ({
  tool: 'create_tool_invocation_policy',
  args: {
    toolId: 'task_list',
    conditions: [{ key: 'project', operator: 'equal', value: `swept-${turn}` }],
    action: 'block_always',
  },
})
const deletePolicy = async (app: TestApp, turn: number): Promise<SweptCall> => {
  const { tool, args } = await createPolicy(app, turn)
  const { policy } = await app.ask<{ policy: { id: string } }>(tool, args)
  return { tool: 'delete_tool_invocation_policy', args: { id: policy.id } }
}

/** Projects whose names begin so are made only with an approval. */
const guarded = once(async (app) => {
  const conditions = [{ key: 'project', operator: 'startsWith', value: 'guarded' }]
  const args = { toolId: 'project_create', conditions, action: 'require_approval' }
  return (await app.ask<{ policy: { id: string } }>('create_tool_invocation_policy', args)).policy.id
})
const held = async (app: TestApp, turn: number): Promise<SweptCall> => {
  await guarded(app)
  return { tool: 'project_create', args: { project: `guarded-${turn}` } }
}
const requested = async (app: TestApp, turn: number): Promise<Readonly<{ call: SweptCall; id: string }>> => {
  const call = await held(app, turn)
  const { details } = await app.refusal(call.tool, call.args)
  return { call, id: String(details['approval_id']) }
}
const answerApproval = async (app: TestApp, turn: number): Promise<SweptCall> => ({
  tool: 'approval_answer',
  args: { id: (await requested(app, turn)).id, decision: 'approve' },
})
const useApproval = async (app: TestApp, turn: number): Promise<SweptCall> => {
  const { call, id } = await requested(app, turn)
  await app.ask('approval_answer', { id, decision: 'approve' }, byPerson)
  return call
}

const refused = async (app: TestApp): Promise<SweptCall> => ({
  tool: 'task_update',
  args: { task_id: await first(app), status: 'done' },
})

const read = async (app: TestApp): Promise<SweptCall> => ({
  tool: 'task_get',
  args: { task_id: await first(app), include_thought_trail: true },
})

type Make = (app: TestApp, turn: number) => Promise<SweptCall>
const alone =
  (make: Make): Operation['prepare'] =>
  async (app, turn) => [await make(app, turn)]
const together =
  (...makes: readonly Make[]): Operation['prepare'] =>
  async (app, turn) => {
    const calls: SweptCall[] = []
    for (const [index, make] of makes.entries()) calls.push(await make(app, turn * 100 + index))
    return calls
  }

const strict = { 'audit.read_records': 'strict' } as const

export const operations: readonly Operation[] = [
  { name: 'task_create', kind: 'write', prepare: alone(create) },
  { name: 'task_update', kind: 'write', prepare: alone(update) },
  { name: 'thought_record', kind: 'write', prepare: alone(thought) },
  { name: 'audit_session_start', kind: 'write', prepare: alone(sessionStart) },
  { name: 'merkle_finalize', kind: 'write', prepare: alone(finalize) },
  { name: 'api_key_create', kind: 'write', prepare: alone(createKey) },
  { name: 'api_key_revoke', kind: 'write', prepare: alone(revokeKey) },
  { name: 'seal_session_create', kind: 'write', prepare: alone(attest) },
  { name: 'secret_link_submit', kind: 'write', prepare: alone(enterSecret) },
  { name: 'secret_delete', kind: 'write', prepare: alone(deleteSecret) },
  { name: 'create_mcp_server', kind: 'write', prepare: alone(createServer) },
  { name: 'edit_mcp_description', kind: 'write', prepare: alone(renameServer) },
  { name: 'create_limit', kind: 'write', prepare: alone(createLimit) },
  { name: 'create_mcp_gateway', kind: 'write', prepare: alone(createGateway) },
  { name: 'create_llm_proxy', kind: 'write', prepare: alone(createProxy) },
  { name: 'virtual_key_create', kind: 'write', prepare: alone(createVirtualKey) },
  { name: 'virtual_key_rotate', kind: 'write', prepare: alone(rotateVirtualKey) },
  { name: 'virtual_key_revoke', kind: 'write', prepare: alone(revokeVirtualKey) },
  { name: 'provider_key_create', kind: 'write', prepare: alone(createProviderKey) },
  { name: 'provider_key_rotate', kind: 'write', prepare: alone(rotateProviderKey) },
  { name: 'provider_key_delete', kind: 'write', prepare: alone(deleteProviderKey) },
  { name: 'optimization_rule_create', kind: 'write', prepare: alone(createRule) },
  { name: 'optimization_rule_update', kind: 'write', prepare: alone(updateRule) },
  { name: 'optimization_rule_delete', kind: 'write', prepare: alone(deleteRule) },
  { name: 'bulk_assign_tools_to_mcp_gateways', kind: 'write', prepare: alone(assignTools) },
  { name: 'user_create', kind: 'write', prepare: alone(createUser) },
  { name: 'role_delete', kind: 'write', prepare: alone(deleteRole) },
  { name: 'user_update', kind: 'write', prepare: alone(giveRole) },
  { name: 'user_delete', kind: 'write', prepare: alone(deleteUser) },
  { name: 'invitation_accept', kind: 'write', prepare: alone(acceptInvitation) },
  {
    name: 'user_admit',
    kind: 'write',
    config: { oidc_providers: [provider] as never },
    prepare: alone(admitUser),
  },
  { name: 'oauth_client_create', kind: 'write', prepare: alone(createClient) },
  { name: 'oauth_client_delete', kind: 'write', prepare: alone(deleteClient) },
  { name: 'create_tool_invocation_policy', kind: 'write', prepare: alone(createPolicy) },
  { name: 'delete_tool_invocation_policy', kind: 'write', prepare: alone(deletePolicy) },
  { name: 'a call that asks for an approval', kind: 'asking', prepare: alone(held) },
  { name: 'approval_answer', kind: 'write', caller: byPerson, prepare: alone(answerApproval) },
  { name: 'a call that was approved', kind: 'write', prepare: alone(useApproval) },
  { name: 'a refused call', kind: 'refused', prepare: alone(refused), isBrief: true },
  { name: 'a batch of reads', kind: 'read', prepare: together(read, read, read, read, read), isBrief: true },
  { name: 'a batch of strict reads', kind: 'read', config: strict, prepare: together(read, read, read) },
  { name: 'several writes in one commit', kind: 'write', prepare: together(create, thought, createKey), isBrief: true },
  ...(isLongRun
    ? [
        {
          name: 'many writes in one commit',
          kind: 'write',
          prepare: together(create, thought, update, create, thought, finalize, createKey, revokeKey),
        } as const,
      ]
    : []),
]
