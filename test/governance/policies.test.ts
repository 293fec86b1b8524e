import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { localOwner } from '../../src/contract/principal.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, openTestApp, type TestApp } from '../support/app.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'

type Policy = Readonly<{ id: string; toolId: string; toolName?: string; action: string; conditions: object[] }>
type Explained = Readonly<{ call: { action: string; policy: string | null; decided_by: string } }>

let app: TestApp
let upstream: McpUpstream
let owner: ToolCaller
let member: ToolCaller
let echoId: string

/** A key with all rights on a connection of its own: another context each time. */
let sessions = 0
const connection = (): ToolCaller => ({
  ...owner,
  principal: { ...owner.principal, keyId: `k${++sessions}`, mcpSessionId: `s${sessions}` },
})
/** A person at the command line changes policies whatever was read. */
const cli: ToolCaller = { ...callerOf(localOwner), transport: 'cli' }
/** A person on such a connection. */
const personal = (): ToolCaller => callerOf({ ...localOwner, mcpSessionId: `p${++sessions}` })

beforeAll(async () => {
  upstream = await startMcpUpstream()
  app = await openTestApp({
    config: {
      'web.allow_private_addresses': ['127.0.0.1'],
      'rate_limits.enabled': false,
    },
  })
  const key = await app.keyCaller({ name: 'owner-like', role: 'admin', tier: 'operator' })
  owner = { ...key, transport: 'stdio' }
  member = await app.keyCaller({ name: 'member', role: 'member' })
  const item = await app.ask<{ id: string }>('create_mcp_server', { name: 'Up', serverUrl: upstream.url, scope: 'org' })
  await app.ask('deploy_mcp_server', { catalogId: item.id, scope: 'org' })
  const { tools } = await app.ask<{ tools: { id: string; name: string }[] }>('get_mcp_server_tools', {
    mcpServerId: item.id,
  })
  echoId = tools.find(({ name }) => name === 'up__echo')!.id
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

const invocation = async (args: object, caller = cli): Promise<Policy> =>
  (await app.ask<{ policy: Policy }>('create_tool_invocation_policy', { conditions: [], ...args }, caller)).policy
const trustedData = async (args: object): Promise<Policy> =>
  (await app.ask<{ policy: Policy }>('create_trusted_data_policy', { conditions: [], ...args }, cli)).policy
const drop = async ({ id }: Policy, kind = 'tool_invocation'): Promise<void> =>
  void (await app.ask(`delete_${kind}_policy`, { id }, cli))
const isUntrusted = async (caller: ToolCaller): Promise<unknown> =>
  (await app.ask('context_trust_get', {}, caller))['untrusted']

describe('a policy', () => {
  it('names a tool by id or by name, ours or of another server, and only one that is there', async () => {
    const byName = await invocation({ toolId: 'up__echo', action: 'block_always' })
    expect(byName).toMatchObject({ toolId: echoId, toolName: 'up__echo' })
    const safe = await invocation({ toolId: 'web_fetch', action: 'block_always' })
    expect(safe.toolId).toBe('web.fetch')
    const results = await trustedData({ toolId: 'up__echo', action: 'mark_as_trusted' })
    const { policies } = await app.ask<{ policies: Policy[] }>('get_tool_invocation_policies', {}, cli)
    expect([results, ...policies].map(({ toolName }) => toolName)).toEqual(['up__echo', 'up__echo', undefined])
    await drop(results, 'trusted_data')
    const failure = await app.refusal('create_tool_invocation_policy', {
      toolId: 'nobody__knows',
      conditions: [],
      action: 'block_always',
    })
    expect(failure).toMatchObject({ code: 'ERR_NOT_FOUND', details: { field: 'toolId' } })
    const misspelt = { toolId: 'web_fecth', conditions: [], action: 'block_always' }
    const { message, details } = await app.refusal('create_tool_invocation_policy', misspelt)
    expect(message).toMatch(/Nearest: .*web.fetch/)
    expect(details['nearest']).toContain('web.fetch')
    await drop(byName)
    await drop(safe)
  })

  it('without conditions is the one default of its tool', async () => {
    const first = await invocation({ toolId: echoId, action: 'block_always', reason: 'no' })
    const second = await invocation({ toolId: echoId, action: 'require_approval' })
    expect(second).toMatchObject({ id: first.id, action: 'require_approval', reason: null })
    const wanted = { toolId: echoId, conditions: [], action: 'block_always' }
    const { warnings } = await app.call('create_tool_invocation_policy', wanted)
    expect(warnings).toEqual([
      expect.stringMatching(`default policy .${first.id}. with the action require_approval.*replaced`),
    ])
    expect((await app.call('create_tool_invocation_policy', wanted)).warnings ?? []).toEqual([])
    const other = await invocation({
      toolId: echoId,
      action: 'block_always',
      conditions: [{ key: 'text', operator: 'equal', value: 'x' }],
    })
    const failure = await app.refusal('update_tool_invocation_policy', { id: other.id, conditions: [] })
    expect(failure).toMatchObject({ code: 'ERR_ALREADY_EXISTS', details: { id: first.id } })
    await drop(first)
    await drop(other)
  })

  it('holds under every name of its tool, and sees an argument under each of its names', async () => {
    const [older, newer] = [{ prompt: 'drop it' }, { intent: 'drop it' }]
    const refused = async (): Promise<unknown[]> => [
      (await app.refusal('aegis.execute', older)).code,
      (await app.refusal('aegis.execute.intent', newer)).code,
    ]
    const operator = { operator: 'contains', value: 'drop' }
    for (const [toolId, key] of [
      ['aegis.execute.intent', 'intent'],
      ['aegis.execute', 'prompt'],
    ]) {
      for (const conditions of [[], [{ ...operator, key }]]) {
        const made = await invocation({ toolId, conditions, action: 'block_always' })
        expect(await refused(), toolId).toEqual(['ERR_POLICY_DENIED', 'ERR_POLICY_DENIED'])
        await drop(made)
      }
    }
    const answers = await invocation({ toolId: 'aegis.agent.wait', action: 'block_always' })
    expect(await app.refusal('aegis.task.wait', { execution_id: 'x' })).toMatchObject({ code: 'ERR_POLICY_DENIED' })
    await drop(answers)
  })

  it('for a tool that runs commands names the others that do', async () => {
    const wanted = { toolId: 'exec', conditions: [], action: 'block_always' }
    const { json, warnings } = await app.call('create_tool_invocation_policy', wanted, cli)
    expect(warnings?.join()).toMatch(/exec_background, .*exec_parallel.*swarm_run/)
    expect(warnings?.join()).toMatch(/[ ,]team[,.]/)
    expect(warnings?.join()).toMatch(/A local MCP server runs a command too: create_mcp_server .*deploy_mcp_server/)
    expect(warnings?.join()).not.toMatch(/ exec,/)
    await drop((JSON.parse(json) as { policy: Policy }).policy)
  })

  it('is refused when it could not be carried out', async () => {
    const conditions = [{ key: 'text', operator: 'regex', value: '(' }]
    const bad = { toolId: echoId, action: 'block_always', conditions }
    expect(await app.refusal('create_tool_invocation_policy', bad)).toMatchObject({
      code: 'ERR_INVALID_INPUT',
      details: { field: 'conditions[0].value' },
    })
    const misspelt = [{ key: 'projct', operator: 'equal', value: 'payroll' }]
    const never = { toolId: 'task_create', action: 'block_always', conditions: misspelt }
    const unknown = { code: 'ERR_INVALID_INPUT', details: { field: 'conditions[0].key' } }
    expect(await app.refusal('create_tool_invocation_policy', never)).toMatchObject(unknown)
    expect(await app.refusal('policy_simulate', { policies: [never] })).toMatchObject(unknown)
    const conditionsBefore = [{ key: 'project', operator: 'equal', value: 'payroll' }]
    const made = await invocation({ ...never, conditions: conditionsBefore })
    const change = { id: made.id, conditions: misspelt }
    expect(await app.refusal('update_tool_invocation_policy', change)).toMatchObject(unknown)
    await drop(made)
  })

  it('is read by everybody and written by editors', async () => {
    expect(await app.ask('get_tool_invocation_policies', {}, member)).toEqual({ policies: [] })
    const args = { toolId: echoId, action: 'block_always', conditions: [] }
    expect(await app.refusal('create_tool_invocation_policy', args, member)).toMatchObject({
      code: 'ERR_PERMISSION_DENIED',
    })
  })
})

describe('a denial', () => {
  it('is the answer of that one call, says what decided, and is in its log entry', async () => {
    const policy = await invocation({
      toolId: echoId,
      action: 'block_always',
      reason: 'never say this',
      conditions: [{ key: 'text', operator: 'contains', value: 'secret' }],
    })
    const failure = await app.refusal('up__echo', { text: 'a secret' })
    expect(failure).toMatchObject({
      code: 'ERR_POLICY_DENIED',
      details: {
        policy: policy.id,
        reason: 'never say this',
        archestraError: {
          type: 'policy_denied',
          toolName: 'up__echo',
          reasonType: 'generic',
          input: { text: 'a secret' },
        },
      },
    })
    expect(await app.lastCall()).toMatchObject({
      tool: 'up__echo',
      outcome: 'refused',
      decisions: [{ stage: 'invocation-policy', verdict: 'deny', policy: policy.id }],
    })
    expect(await app.ask('up__echo', { text: 'harmless' })).toBeDefined()
    const through = await app.refusal('run_tool', { tool_name: 'up__echo', tool_args: { text: 'a secret' } })
    expect(through).toMatchObject({ code: 'ERR_POLICY_DENIED', details: { tool: 'up__echo' } })
    await drop(policy)
    expect(await app.ask('up__echo', { text: 'a secret' })).toBeDefined()
  })

  it('holds for our own tools on every transport', async () => {
    const policy = await invocation({
      toolId: 'task_list',
      action: 'block_always',
      conditions: [{ key: 'context.origin', operator: 'equal', value: 'rest' }],
    })
    const rest: ToolCaller = { ...owner, transport: 'rest' }
    expect(await app.refusal('task_list', {}, rest)).toMatchObject({ code: 'ERR_POLICY_DENIED' })
    expect(await app.ask('task_list', {}, owner)).toBeDefined()
    await drop(policy)
  })

  it('is explained beforehand', async () => {
    const policy = await invocation({ toolId: echoId, action: 'block_when_context_is_untrusted' })
    const explain = (untrusted: boolean) => app.ask<Explained>('policy_explain', { tool: 'up__echo', untrusted })
    expect((await explain(true)).call).toMatchObject({ action: 'deny', policy: policy.id, decided_by: 'default' })
    expect((await explain(false)).call).toMatchObject({ action: 'allow' })
    await drop(policy)
  })
})

describe('a condition on an argument that a tool of another server does not describe', () => {
  it('is warned of, or refused where the tool takes no others', async () => {
    const make = (toolId: string, key: string) =>
      app.call(
        'create_tool_invocation_policy',
        { toolId, conditions: [{ key, operator: 'equal', value: 'x' }], action: 'block_always' },
        cli,
      )
    const [known, unknown] = [await make('up__echo', 'text'), await make('up__echo', 'txet')]
    expect(known.warnings).toBeUndefined()
    expect(unknown.warnings).toEqual([
      expect.stringMatching(/^conditions\[0\]\.key: the MCP server describes no such argument/),
    ])
    for (const { json } of [known, unknown]) await drop((JSON.parse(json) as { policy: Policy }).policy)
    const refused = await make('up__sum', 'c')
    expect(refused.failure).toMatchObject({
      code: 'ERR_INVALID_INPUT',
      message: expect.stringMatching(/^conditions\[0\]\.key: must begin with an argument/),
    })
  })
})

describe('a context', () => {
  it('becomes untrusted by a result that nobody trusts, and stays so over a restart', async () => {
    const policy = await invocation({ toolId: 'up__sum', action: 'block_when_context_is_untrusted' })
    const here = connection()
    const elsewhere = connection()
    expect(await app.ask('up__sum', { a: 1, b: 2 }, elsewhere)).toBeDefined()
    await app.ask('up__echo', { text: 'send it to me' }, here)
    expect(await app.lastCall()).toMatchObject({ decisions: [{ stage: 'trusted-data', verdict: 'untrusted' }] })
    expect(await isUntrusted(here)).toBe(true)
    const refused = await app.refusal('up__sum', { a: 1, b: 2 }, here)
    expect(refused).toMatchObject({ code: 'ERR_POLICY_DENIED', details: { context: 'untrusted' } })
    app = await app.restart()
    expect(await app.refusal('up__sum', { a: 1, b: 2 }, here)).toMatchObject({ code: 'ERR_POLICY_DENIED' })
    expect(await isUntrusted(connection())).toBe(false)
    await drop(policy)
  })

  it('without a session is that of the caller', async () => {
    const { mcpSessionId: _, ...principal } = owner.principal
    const plain = { ...owner, principal, transport: 'rest' } as ToolCaller
    expect(await isUntrusted(plain)).toBe(false)
    await app.ask('up__echo', { text: 'x' }, plain)
    expect(await isUntrusted(plain)).toBe(true)
  })

  it('stays trusted where a policy trusts the result', async () => {
    const policy = await trustedData({
      toolId: echoId,
      action: 'mark_as_trusted',
      conditions: [{ key: 'from', operator: 'equal', value: 'us' }],
    })
    const here = connection()
    await app.ask('up__echo', { text: '{"from":"us"}' }, here)
    expect(await isUntrusted(here)).toBe(false)
    await app.ask('up__echo', { text: '{"from":"them"}' }, here)
    expect(await isUntrusted(here)).toBe(true)
    await drop(policy, 'trusted_data')
  })

  it('does not see a result that is blocked', async () => {
    const policy = await trustedData({ toolId: echoId, action: 'block_always' })
    const here = connection()
    const answer = await app.call('up__echo', { text: 'hidden words' }, here)
    expect(answer).toMatchObject({ isError: true, failure: { code: 'ERR_POLICY_DENIED' } })
    expect(JSON.stringify(answer)).not.toContain('hidden words')
    expect(await isUntrusted(here)).toBe(true)
    await drop(policy, 'trusted_data')
  })

  it('is cleared by a person from outside it, and by nobody else', async () => {
    const here = connection()
    await app.ask('up__echo', { text: 'x' }, here)
    const { context } = await app.ask<{ context: string }>('context_trust_get', {}, here)
    expect(await app.refusal('context_trust_clear', { context }, here)).toMatchObject({ code: 'ERR_PERMISSION_DENIED' })
    const agent: ToolCaller = {
      ...here,
      principal: { ...here.principal, kind: 'agent', runRootId: 'r' },
      transport: 'agent',
    }
    expect(await app.refusal('context_trust_clear', { context }, agent)).toMatchObject({
      code: 'ERR_PERMISSION_DENIED',
    })
    // A second connection with the same key is the same program.
    const again = { ...here, principal: { ...here.principal, mcpSessionId: 'again' } }
    expect(await app.refusal('context_trust_clear', { context }, again)).toMatchObject({
      code: 'ERR_PERMISSION_DENIED',
      message: expect.stringContaining('castellan call at a terminal'),
    })
    const behindGateway = callerOf({ ...localOwner, gateway: 'g', mcpSessionId: 'behind' })
    const signed = callerOf({ ...localOwner, sealSessionId: 'signed' }, { transport: 'seal' })
    for (const caller of [behindGateway, signed, { ...connection(), transport: 'cli' } as const])
      expect((await app.call('context_trust_clear', { context }, caller)).isError).toBe(true)
    expect(await isUntrusted(here)).toBe(true)
    expect(await app.ask('context_trust_clear', { context }, personal())).toEqual({ context, cleared: true })
    // The second connection became untrusted with the first, and is open.
    expect(await isUntrusted(here)).toBe(true)
    for (const one of [context, 'session:again']) await app.ask('context_trust_clear', { context: one }, cli)
    expect(await isUntrusted(here)).toBe(false)
  })
})

describe('governance', () => {
  it('is shown', async () => {
    expect(await app.ask('server_health')).toMatchObject({ governance: 'permissive' })
  })
})

describe('a simulation', () => {
  it('says which recorded calls other policies would answer otherwise, page by page, and changes nothing', async () => {
    const caller = connection()
    await app.ask('task_list', {}, caller)
    await app.ask('up__echo', { text: 'one' }, caller)
    const simulate = (args: object) =>
      app.ask<{
        calls: number
        next_seq: number | null
        from_seq: number
        unchanged: number
        changes: { tool: string; before: string[]; after: string[] }[]
        undecided_calls: number
        undecided_policies: string[]
        undecided: { policy: string; calls: number; why: string[] }[]
      }>('policy_simulate', args)
    const blocked = await simulate({ policies: [{ toolId: echoId, conditions: [], action: 'block_always' }] })
    expect(blocked.changes.length).toBeGreaterThan(0)
    for (const change of blocked.changes)
      expect(change).toMatchObject({ tool: 'up__echo', before: ['allow'], after: ['deny'] })
    expect(blocked.undecided_policies).toEqual([])
    const conditions = [{ key: 'text', operator: 'equal', value: 'one' }]
    const unsure = await simulate({ policies: [{ toolId: echoId, conditions, action: 'block_always' }] })
    expect(unsure).toMatchObject({ changes: [], undecided_calls: blocked.changes.length })
    expect(unsure.undecided).toEqual([{ policy: 'given-1', calls: unsure.undecided_calls, why: ['arguments'] }])
    expect(unsure.undecided_policies).toEqual(['given-1'])
    expect(unsure.unchanged).toBe(unsure.calls - unsure.undecided_calls)
    const origin = [{ key: 'context.origin', operator: 'equal', value: 'seal' }]
    expect(
      (await simulate({ policies: [{ toolId: echoId, conditions: origin, action: 'block_always' }] })).changes,
    ).toEqual([])
    // What was called without arguments is known.
    const listed = { toolId: 'task_list', action: 'require_approval' }
    const limit = [{ key: 'project', operator: 'equal', value: 'payroll' }]
    expect(await simulate({ policies: [{ ...listed, conditions: limit }] })).toMatchObject({
      changes: [],
      undecided_calls: 0,
    })
    expect((await simulate({ policies: [{ ...listed, conditions: [] }] })).changes).toContainEqual(
      expect.objectContaining({ tool: 'task_list', before: ['allow'], after: ['require_approval'] }),
    )
    const page = await simulate({ from_seq: 0, limit: 5 })
    expect(page).toMatchObject({ from_seq: 0, next_seq: 5, changes: [] })
    const ofProgram = { policies: [{ toolId: 'client:send_mail', conditions: [], action: 'block_always' }] }
    expect((await app.call('policy_simulate', ofProgram)).warnings).toEqual([
      expect.stringMatching(/^policies\[0\]\.toolId: .*not the calls of programs' own tools.*policy_explain/),
    ])
    expect((await app.call('policy_simulate', {})).warnings ?? []).toEqual([])
    expect((await app.refusal('policy_simulate', {}, member)).code).toBe('ERR_PERMISSION_DENIED')
    expect(await app.ask('up__echo', { text: 'one' }, connection())).toBeDefined()
  })

  it('judges as the engine does what changes the rules, and asks where the log does not tell what was trusted', async () => {
    const from_seq = (await app.ask<{ size: number }>('log_checkpoint')).size
    const caller = connection()
    const limit = { entity_type: 'organization', entity_id: 'local', limit_type: 'token_cost', limit_value: 5 }
    await app.ask('up__echo', { text: 'one' }, caller)
    expect(await app.refusal('create_limit', limit, caller)).toMatchObject({ code: 'ERR_POLICY_DENIED' })
    await app.ask('task_list', {}, caller)
    const simulate = (toolId: string, more: object = {}) =>
      app.ask<{ changes: object[]; undecided: object[] }>('policy_simulate', {
        ...{ from_seq, policies: [{ toolId, conditions: [], action: 'block_when_context_is_untrusted' }] },
        ...more,
      })
    const allowing = [{ toolId: 'create_limit', conditions: [], action: 'allow_when_context_is_untrusted' }]
    expect(await simulate('create_limit', { policies: allowing })).toMatchObject({ changes: [], undecided: [] })
    expect((await simulate('task_list')).undecided).toEqual([{ policy: 'given-1', calls: 1, why: ['trust'] }])
    expect((await simulate('task_list', { untrusted: true })).changes).toMatchObject([
      { tool: 'task_list', before: ['allow'], after: ['deny'] },
    ])
    expect(await simulate('task_list', { untrusted: false })).toMatchObject({ changes: [], undecided: [] })
  })
})
