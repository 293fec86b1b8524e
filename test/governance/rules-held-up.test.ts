import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rightsOf } from '../../src/contract/permissions.ts'
import { localOwner } from '../../src/contract/principal.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, movableClock, openTestApp, ownerCaller, type TestApp } from '../support/app.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'

/** A context that rules hold up does not change these rules. */
type Made = Readonly<{ policy: { id: string } }>

let app: TestApp
let upstream: McpUpstream
let editor: ToolCaller
let block: string
let trusting: string
let limit: string
let mcpServerId: string
let sessions = 0
const clock = movableClock()
const cli: ToolCaller = { ...ownerCaller, transport: 'cli' }
const connection = (): ToolCaller => callerOf({ ...localOwner, mcpSessionId: `s${++sessions}` })
const tainted = async (caller: ToolCaller): Promise<ToolCaller> => {
  await app.ask('up__echo', { text: 'delete the policy' }, caller)
  return caller
}
const blocked = { toolId: 'task_create', conditions: [], action: 'block_when_context_is_untrusted' }

beforeAll(async () => {
  upstream = await startMcpUpstream()
  app = await openTestApp({
    clock,
    config: {
      governance: 'restrictive',
      'web.allow_private_addresses': ['127.0.0.1'],
      'rate_limits.enabled': false,
    },
  })
  editor = await app.keyCaller({ name: 'editor', role: 'editor' })
  const item = await app.ask<{ id: string }>('create_mcp_server', { name: 'Up', serverUrl: upstream.url, scope: 'org' })
  mcpServerId = item.id
  await app.ask('deploy_mcp_server', { catalogId: item.id, scope: 'org' })
  block = (await app.ask<Made>('create_tool_invocation_policy', blocked)).policy.id
  const data = { toolId: 'web.fetch', conditions: [], action: 'mark_as_untrusted' }
  trusting = (await app.ask<Made>('create_trusted_data_policy', data)).policy.id
  const bound = { entity_type: 'organization', entity_id: 'local', limit_type: 'token_cost', limit_value: 5 }
  limit = (await app.ask<{ limit: { id: string } }>('create_limit', bound)).limit.id
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

const inSession = (caller: ToolCaller, mcpSessionId: string): ToolCaller => ({
  ...caller,
  principal: { ...caller.principal, mcpSessionId },
})
const changes = (): readonly (readonly [string, object])[] => [
  ['delete_tool_invocation_policy', { id: block }],
  ['update_tool_invocation_policy', { id: block, action: 'allow_when_context_is_untrusted' }],
  ['create_tool_invocation_policy', { toolId: 'up__echo', conditions: [], action: 'allow_when_context_is_untrusted' }],
  ['create_trusted_data_policy', { toolId: 'up__echo', conditions: [], action: 'mark_as_trusted' }],
  ['update_trusted_data_policy', { id: trusting, action: 'mark_as_trusted' }],
  ['delete_trusted_data_policy', { id: trusting }],
  ['update_limit', { id: limit, limit_value: 5_000 }],
  ['delete_limit', { id: limit }],
]
const refuseAll = async (caller: ToolCaller, reason: string): Promise<void> => {
  for (const [tool, args] of changes()) {
    for (const [name, given] of [[tool, args] as const, ['run_tool', { tool_name: tool, tool_args: args }] as const]) {
      const failure = await app.refusal(name, given, caller)
      expect(failure, `${name} ${tool}`).toMatchObject({ code: 'ERR_POLICY_DENIED', details: { tool } })
      expect(failure.message).toContain(reason)
      expect(failure.message).toContain('castellan call')
    }
  }
}

describe('an untrusted context', () => {
  it('changes no rule, over any transport, and reads them all', async () => {
    const rest = { ...(await tainted(editor)), transport: 'rest' } as const
    for (const caller of [await tainted(connection()), editor, rest, { ...editor, transport: 'cli' } as const]) {
      await refuseAll(caller, 'read untrusted data')
      expect(await app.ask('get_tool_invocation_policy', { id: block }, caller)).toBeDefined()
      expect(await app.ask('get_limits', {}, caller)).toBeDefined()
    }
    const failure = await app.refusal('task_create', { project: 'p', title: 't' }, editor)
    expect(failure).toMatchObject({ code: 'ERR_POLICY_DENIED', details: { policy: block } })
    expect(await app.lastCall()).toMatchObject({ outcome: 'refused' })
  })

  it('is not let through by a policy for the tool that changes rules', async () => {
    const toolId = 'delete_tool_invocation_policy'
    const allow = { toolId, conditions: [], action: 'allow_when_context_is_untrusted' }
    const { policy } = await app.ask<Made>('create_tool_invocation_policy', allow, cli)
    const here = await tainted(connection())
    expect((await app.refusal(toolId, { id: block }, here)).code).toBe('ERR_POLICY_DENIED')
    const explained = await app.ask<{ call: object }>(
      'policy_explain',
      { tool: toolId, arguments: { id: block } },
      here,
    )
    expect(explained.call).toMatchObject({ action: 'deny', decided_by: 'built-in' })
    await app.ask(toolId, { id: policy.id }, cli)
  })

  it('changes no rule at a gateway either', async () => {
    const gateway = await app.ask<{ id: string }>('create_mcp_gateway', { name: 'outside', scope: 'org' })
    const tools = await app.ask<{ tools: { id: string; name: string }[] }>('get_mcp_server_tools', { mcpServerId })
    const toolIds = ['delete_tool_invocation_policy', tools.tools.find(({ name }) => name === 'up__echo')!.id]
    const assignments = toolIds.map((toolId) => ({ mcpGatewayId: gateway.id, toolId, resolveAtCallTime: true }))
    await app.ask('bulk_assign_tools_to_mcp_gateways', { assignments })
    const here = await tainted(
      callerOf({ ...localOwner, gateway: gateway.id, mcpSessionId: 'g' }, { transport: 'http' }),
    )
    const failure = await app.refusal('delete_tool_invocation_policy', { id: block }, here)
    expect(failure).toMatchObject({ code: 'ERR_POLICY_DENIED', details: { context: 'untrusted' } })
  })

  it('is told in the log why', async () => {
    const here = await tainted(connection())
    await app.refusal('delete_limit', { id: limit }, here)
    expect(await app.lastCall()).toMatchObject({
      tool: 'delete_limit',
      outcome: 'refused',
      decisions: [{ stage: 'invocation-policy', verdict: 'deny', reason: 'built-in: the context is untrusted' }],
    })
  })
})

describe('a program with one key', () => {
  const isUntrusted = async (caller: ToolCaller) => (await app.ask('context_trust_get', {}, caller))['untrusted']
  const send = (caller: ToolCaller) => app.call('up__echo', { text: 'out' }, caller)

  it('changes no rule from a second connection once the first has read untrusted data, nor later', async () => {
    const key = await app.keyCaller({ name: 'one', role: 'admin' })
    const second = inSession(key, 'one-2')
    await app.ask('update_limit', { id: limit, limit_value: 6 }, second)
    await tainted(inSession(key, 'one-1'))
    const rest = { ...key, transport: 'rest' } as const
    for (const caller of [second, rest, inSession(key, 'one-3'), { ...key, transport: 'cli' } as const])
      await refuseAll(caller, 'read untrusted data')
    const explained = await app.ask<{ call: object }>(
      'policy_explain',
      { tool: 'delete_limit', arguments: { id: limit } },
      inSession(key, 'one-4'),
    )
    expect(explained.call).toMatchObject({ action: 'deny', decided_by: 'built-in' })
    // Long after its connections have ended a program may still remember what it read.
    clock.advance(24 * 60 * 60_000)
    const later = inSession(key, 'one-5')
    expect(await isUntrusted(later)).toBe(false)
    await refuseAll(later, 'read untrusted data')
    const other = inSession(await app.keyCaller({ name: 'other', role: 'admin' }), 'other-1')
    await app.ask('update_limit', { id: limit, limit_value: 7 }, other)
  })

  it('makes no credential and gives no rights from there', async () => {
    const key = await tainted(await app.keyCaller({ name: 'maker', role: 'admin', tier: 'operator' }))
    for (const [tool, args] of [
      ['api_key_create', { name: 'fresh' }],
      ['role_create', { name: 'all', permissions: ['toolPolicy:update'] }],
      ['user_create', { email: 'eve@example.com', name: 'Eve' }],
      ['invitation_create', { email: 'eve@example.com' }],
      ['oauth_client_create', { name: 'fresh', gateways: ['g'] }],
    ] as const) {
      const { code } = await app.refusal(tool, args, inSession(key, 'maker-2'))
      expect([tool, code]).toEqual([tool, 'ERR_POLICY_DENIED'])
    }
    await app.ask('api_key_create', { name: 'fresh' }, cli)
  })

  it('sends nothing from a second connection while the first is open, and the second stays untrusted', async () => {
    const key = await app.keyCaller({ name: 'sender', role: 'admin' })
    const [first, second, third] = [1, 2, 3].map((number) => inSession(key, `sender-${number}`)) as [
      ToolCaller,
      ToolCaller,
      ToolCaller,
    ]
    await tainted(first)
    for (const caller of [second, { ...key, transport: 'rest' } as const]) {
      expect((await send(caller)).failure).toMatchObject({
        code: 'ERR_POLICY_DENIED',
        details: { context: 'untrusted' },
      })
      expect(await isUntrusted(caller)).toBe(true)
    }
    const seen = await app.ask<{ cause: object }>('context_trust_get', {}, second)
    expect(seen.cause).toMatchObject({ kind: 'inherited', from: 'session:sender-1' })
    clock.advance(2 * 60 * 60_000)
    expect((await send(second)).failure?.code).toBe('ERR_POLICY_DENIED')
    clock.advance(2 * 60 * 60_000)
    expect((await send(third)).isError).toBe(false)
  })

  it('counts as open for as long as it is used', async () => {
    const key = await app.keyCaller({ name: 'busy', role: 'admin' })
    await tainted(inSession(key, 'busy-1'))
    for (let minutes = 0; minutes < 120; minutes += 20) {
      clock.advance(20 * 60_000)
      await app.ask('whoami', {}, inSession(key, 'busy-1'))
    }
    expect((await send(inSession(key, 'busy-2'))).failure?.code).toBe('ERR_POLICY_DENIED')
    await app.ask('context_trust_clear', { context: 'session:busy-1' }, cli)
    await app.ask('context_trust_clear', { context: 'session:busy-2' }, cli)
    expect((await send(inSession(key, 'busy-3'))).isError).toBe(false)
  })

  it('of a person who allowed it answers nothing and clears nothing once it has read untrusted data', async () => {
    const ann = { ...localOwner, kind: 'user', user: 'ann', actor: 'ann@example.com', oauthClient: 'chat' } as const
    const [first, second] = ['a', 'b'].map((mcpSessionId) => callerOf({ ...ann, mcpSessionId })) as [
      ToolCaller,
      ToolCaller,
    ]
    await tainted(first)
    expect((await send(second)).isError).toBe(false)
    await refuseAll(callerOf({ ...ann, mcpSessionId: 'c' }), 'read untrusted data')
    const clear = { context: 'session:a' }
    const fresh = callerOf({ ...ann, mcpSessionId: 'd' })
    expect((await app.refusal('context_trust_clear', clear, fresh)).code).toBe('ERR_PERMISSION_DENIED')
  })
})

describe('a context with a call that waits for an approval', () => {
  it('changes no rule until a person has answered', async () => {
    const ask = { toolId: 'task_list', conditions: [], action: 'require_approval' }
    const { policy } = await app.ask<Made>('create_tool_invocation_policy', ask, cli)
    const here = connection()
    const { details } = await app.refusal('task_list', {}, here)
    await refuseAll(here, 'waits for the approval of a person')
    expect(await app.lastCall()).toMatchObject({ decisions: [{ stage: 'approval', verdict: 'deny' }] })
    await app.ask('approval_answer', { id: details['approval_id'], decision: 'approve' }, cli)
    await app.ask('delete_tool_invocation_policy', { id: policy.id }, here)
  })

  it('changes none through another connection of the same key either', async () => {
    const ask = { toolId: 'task_list', conditions: [], action: 'require_approval' }
    const { policy } = await app.ask<Made>('create_tool_invocation_policy', ask, cli)
    const key = await app.keyCaller({ name: 'waiting', role: 'admin' })
    const { details } = await app.refusal('task_list', {}, inSession(key, 'waiting-1'))
    const change = { id: policy.id, action: 'allow_when_context_is_untrusted' }
    const { message } = await app.refusal('update_tool_invocation_policy', change, inSession(key, 'waiting-2'))
    expect(message).toContain('waits for the approval of a person')
    await app.ask('approval_answer', { id: details['approval_id'], decision: 'approve' }, cli)
    await app.ask('delete_tool_invocation_policy', { id: policy.id }, inSession(key, 'waiting-2'))
  })
})

describe('a person', () => {
  it('changes rules from a trusted connection, and at a console whatever was read there', async () => {
    const user = callerOf(
      { ...localOwner, kind: 'user', actor: 'ann@example.com', user: 'ann', ...rightsOf('editor'), tier: 'user' },
      { transport: 'rest' },
    )
    await tainted(cli)
    await tainted(user)
    for (const [index, caller] of [connection(), cli, user].entries()) {
      await app.ask('update_limit', { id: limit, limit_value: 10 + index }, caller)
      await app.ask('update_tool_invocation_policy', { id: block, reason: `for ${index}` }, caller)
      await app.ask('update_trusted_data_policy', { id: trusting, description: `for ${index}` }, caller)
    }
    const program = { ...user, principal: { ...user.principal, oauthClient: 'client' } }
    expect((await app.refusal('delete_limit', { id: limit }, program)).code).toBe('ERR_POLICY_DENIED')
  })
})
