import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CallingClient } from '../../src/contract/calling-client.ts'
import { rightsOf } from '../../src/contract/permissions.ts'
import { localOwner, type Principal } from '../../src/contract/principal.ts'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { callerOf, movableClock, openTestApp, type TestApp } from '../support/app.ts'
import { approvalsOf, askingPolicy, cli } from '../support/approvals.ts'
import { workflowYaml } from '../support/workflows.ts'

/** Calls that a policy lets through only with the approval of a person. */
type Task = Readonly<{ task_id: string }>

const clock = movableClock()
let app: TestApp
let sessions = 0
/** The local owner on a connection of its own. */
const connection = (): ToolCaller => callerOf({ ...localOwner, mcpSessionId: `s${++sessions}` })
const person = (name: string, role: 'admin' | 'editor' | 'member', more: Partial<Principal> = {}): ToolCaller =>
  callerOf(
    { ...localOwner, kind: 'user', actor: `${name}@example.com`, user: name, ...rightsOf(role), tier: 'user', ...more },
    { transport: 'rest' },
  )

beforeAll(async () => {
  app = await openTestApp({ clock, config: { 'rate_limits.enabled': false } })
  await app.ask('create_tool_invocation_policy', askingPolicy)
})
afterAll(() => app[Symbol.asyncDispose]())

const create = (title: string, more: object = {}) => ({ project: 'p', title, ...more })
const asked = async (args: object, caller: ToolCaller): Promise<string> => {
  const failure = await app.refusal('task_create', args, caller)
  expect(failure).toMatchObject({ code: 'ERR_APPROVAL_REQUIRED' })
  return failure.details['approval_id'] as string
}
const { answer, approve, get, list } = approvalsOf(() => app)

describe('a call that needs an approval', () => {
  it('is refused with the request and how it is answered, and asks once however often it is made', async () => {
    const caller = connection()
    const failure = await app.refusal('task_create', create('ask-1'), caller)
    expect(failure.code).toBe('ERR_APPROVAL_REQUIRED')
    const id = failure.details['approval_id'] as string
    expect(failure.message).toContain(`castellan approvals approve ${id}`)
    expect(failure.message).toContain(`POST /v1/approvals/${id}/approve`)
    expect(await app.lastCall()).toMatchObject({
      outcome: 'refused',
      code: 'ERR_APPROVAL_REQUIRED',
      decisions: [
        { stage: 'invocation-policy', verdict: 'require_approval' },
        { stage: 'approval', verdict: 'require_approval', reason: `approval ${id}` },
      ],
      effects: [{ kind: 'approval_requested', body: { approval_id: id, tool: 'task_create' } }],
    })
    const again = await Promise.all([asked(create('ask-1'), caller), asked(create('ask-1'), caller)])
    expect(again).toEqual([id, id])
    expect(await get(id)).toMatchObject({
      kind: 'tool_call',
      status: 'pending',
      tool: 'task_create',
      arguments: { project: 'p', title: 'ask-1' },
      arguments_masked: false,
      reason: 'titles that ask need a person',
      requested_by: 'owner',
    })
  })

  it('goes through once after it was approved: exactly that call, and no other', async () => {
    const caller = connection()
    const id = await asked(create('ask-2'), caller)
    await approve(id)
    expect(await asked(create('ask-2', { description: 'other' }), caller)).not.toBe(id)
    expect(await asked(create('ask-2'), person('ann', 'admin'))).not.toBe(id)
    const { task_id } = await app.ask<Task>('task_create', create('ask-2'), caller)
    expect(task_id).toBeDefined()
    expect(await app.lastCall()).toMatchObject({
      outcome: 'ok',
      decisions: [{ verdict: 'require_approval' }, { stage: 'approval', verdict: 'allow', reason: `approval ${id}` }],
    })
    expect(await get(id)).toMatchObject({ status: 'used', answered_by: 'owner' })
    expect(await asked(create('ask-2'), caller)).not.toBe(id)
  })

  it('is the same call after its caller has connected again', async () => {
    const id = await asked(create('ask-again'), connection())
    expect(await asked(create('ask-again'), connection())).toBe(id)
    await approve(id)
    expect(await app.ask<Task>('task_create', create('ask-again'), connection())).toHaveProperty('task_id')
    const denied = await asked(create('ask-again'), connection())
    await app.ask('approval_answer', { id: denied, decision: 'deny' }, cli)
    expect(await app.refusal('task_create', create('ask-again'), connection())).toMatchObject({
      code: 'ERR_POLICY_DENIED',
    })
  })

  it('is made once of two calls at the same time', async () => {
    const caller = connection()
    await approve(await asked(create('ask-twice'), caller))
    const answers = await Promise.all([1, 2].map(() => app.call('task_create', create('ask-twice'), caller)))
    expect(answers.filter(({ isError }) => !isError)).toHaveLength(1)
    expect(answers.find(({ isError }) => isError)?.failure?.code).toBe('ERR_APPROVAL_REQUIRED')
  })

  it('through run_tool is the same call', async () => {
    const caller = connection()
    const through = { tool_name: 'task_create', tool_args: create('ask-3') }
    const failure = await app.refusal('run_tool', through, caller)
    await approve(failure.details['approval_id'] as string)
    expect(await app.ask<Task>('task_create', create('ask-3'), caller)).toHaveProperty('task_id')
  })

  it('is denied from then on if a person denied it, with their words', async () => {
    const caller = connection()
    const id = await asked(create('ask-4'), caller)
    await app.ask('approval_answer', { id, decision: 'deny', note: 'not on a Friday' }, cli)
    const failure = await app.refusal('task_create', create('ask-4'), caller)
    expect(failure.code).toBe('ERR_POLICY_DENIED')
    expect(failure.message).toContain('not on a Friday')
  })

  it('shows its secrets to nobody', async () => {
    const caller = connection()
    const description = 'see https://ann:hunter22@example.com and Authorization: Bearer abcdefghijkl'
    const id = await asked(create('ask-5', { description }), caller)
    const shown = await get(id)
    expect(JSON.stringify(shown)).not.toMatch(/hunter22|abcdefghijkl/)
    expect(shown).toMatchObject({ arguments_masked: true })
  })

  it('is forgotten when its time is over, whether it was answered or not', async () => {
    const caller = connection()
    const open = await asked(create('ask-6'), caller)
    const approved = await asked(create('ask-7'), caller)
    await approve(approved)
    clock.advance(61 * 60_000)
    expect(await get(approved)).toMatchObject({ status: 'expired' })
    expect(await asked(create('ask-7'), caller)).not.toBe(approved)
    clock.advance(24 * 60 * 60_000)
    expect(await get(open)).toMatchObject({ status: 'expired' })
    expect((await answer(open, 'approve')).failure).toMatchObject({ code: 'ERR_APPROVAL_ANSWERED' })
    expect((await list()).map(({ id }) => id)).not.toContain(open)
  })
})

describe('an answer', () => {
  it('is given by people, and over no connection of who asks', async () => {
    const caller = connection()
    const id = await asked(create('ask-8'), caller)
    const key = await app.keyCaller({ name: 'robot', role: 'admin', tier: 'operator' })
    for (const own of [
      caller,
      connection(),
      callerOf(localOwner, { transport: 'http' }),
      callerOf(localOwner, { transport: 'rest' }),
      callerOf({ ...localOwner, mcpSessionId: 'line' }, { transport: 'stdio' }),
    ]) {
      const { failure } = await answer(id, 'approve', own)
      expect(failure).toMatchObject({ code: 'ERR_PERMISSION_DENIED' })
      expect(failure?.message).toContain(`castellan approvals approve ${id}`)
    }
    for (const wrong of [
      key,
      callerOf({ ...localOwner, runRootId: 'run' }),
      callerOf({ ...localOwner, kind: 'agent', agent: 'a', onBehalfOf: 'owner' }, { transport: 'agent' }),
    ]) {
      expect((await answer(id, 'approve', wrong)).failure).toMatchObject({ code: 'ERR_PERMISSION_DENIED' })
    }
    expect(await get(id)).toMatchObject({ status: 'pending' })
    await approve(id)
  })

  it('is not taken from the main connection of who asks through a gateway', async () => {
    const gateway = await app.ask<{ id: string }>('create_mcp_gateway', { name: 'asking', scope: 'org' })
    const assignments = [{ mcpGatewayId: gateway.id, toolId: 'task_create' }]
    await app.ask('bulk_assign_tools_to_mcp_gateways', { assignments })
    const there = callerOf({ ...localOwner, gateway: gateway.id, mcpSessionId: 'g' }, { transport: 'http' })
    const id = await asked(create('ask-15'), there)
    expect((await answer(id, 'approve', connection())).failure?.code).toBe('ERR_PERMISSION_DENIED')
    await approve(id)
    expect(await app.ask<Task>('task_create', create('ask-15'), there)).toHaveProperty('task_id')
  })

  it('is taken from a connection of a person for what a key of the tenant asks', async () => {
    const key = await app.keyCaller({ name: 'asker', role: 'editor' })
    for (const answerer of [connection(), callerOf(localOwner, { transport: 'rest' })]) {
      const id = await asked(create('ask-16'), key)
      await approve(id, answerer)
      expect(await app.ask<Task>('task_create', create('ask-16'), key)).toHaveProperty('task_id')
    }
  })

  it('is taken from a person who is signed in, also for what their own programs ask, but not from those programs', async () => {
    const program = person('ann', 'member', { oauthClient: 'client' })
    const id = await asked(create('ask-9'), program)
    expect((await answer(id, 'approve', program)).failure?.code).toBe('ERR_PERMISSION_DENIED')
    await approve(id, person('ann', 'member'))
    expect(await app.ask<Task>('task_create', create('ask-9'), program)).toHaveProperty('task_id')
  })

  it('is not taken from another connection of the program that asks, but from a terminal of the person', async () => {
    const at = (more: Partial<Principal>): ToolCaller =>
      callerOf({ ...person('ann', 'member', { oauthClient: 'client', ...more }).principal }, { transport: 'http' })
    const id = await asked(create('ask-14'), at({ mcpSessionId: 'a' }))
    expect((await answer(id, 'approve', at({ mcpSessionId: 'b' }))).failure?.code).toBe('ERR_PERMISSION_DENIED')
    await approve(id, at({ mcpSessionId: 'c', oauthClient: 'castellan', atTerminal: true }))
  })

  it('is not there for others, and all are there for editors', async () => {
    const id = await asked(create('ask-10'), person('ann', 'member', { oauthClient: 'client' }))
    const bob = person('bob', 'member')
    const [hidden, missing] = [await answer(id, 'approve', bob), await answer('nothing', 'approve', bob)]
    expect(hidden.failure).toEqual(missing.failure)
    expect(hidden.failure).toMatchObject({ code: 'ERR_NOT_FOUND' })
    expect((await app.refusal('approval_get', { id }, bob)).code).toBe('ERR_NOT_FOUND')
    expect((await list({}, bob)).map((one) => one.id)).not.toContain(id)
    const eve = person('eve', 'editor')
    expect((await list({}, eve)).map((one) => one.id)).toContain(id)
    await approve(id, eve)
  })

  it('that comes second is told so', async () => {
    const id = await asked(create('ask-11'), connection())
    const answers = await Promise.all([answer(id, 'approve'), answer(id, 'deny')])
    expect(answers.map(({ failure }) => failure?.code)).toEqual([undefined, 'ERR_APPROVAL_ANSWERED'])
    expect(await app.lastCall()).toMatchObject({ tool: 'approval_answer' })
  })

  it('is not taken from a context that has read untrusted data', async () => {
    const key = await app.keyCaller({ name: 'other', role: 'editor' })
    const id = await asked(create('ask-12'), key)
    const reader = connection()
    await (await app.app.ready).database!.write(localOwner.tenant, async (tx) => {
      const { sqlTrustStore } = await import('../../src/stores/sql/trust-store.ts')
      await sqlTrustStore.insertTaint(tx, localOwner.tenant, {
        tenant: localOwner.tenant,
        context: `session:${reader.principal.mcpSessionId!}`,
        cause: { kind: 'tool_result' },
        sinceMs: 0,
        seenMs: 0,
        credential: null,
      })
    })
    const restarted = await app.restart()
    app = restarted
    expect((await answer(id, 'approve', reader)).failure?.code).toBe('ERR_PERMISSION_DENIED')
    await approve(id, connection())
  })
})

describe('the person at the client', () => {
  const clientWith = (reply: object, seen: object[] = []): CallingClient => ({
    id: 'c',
    owner: 'owner',
    isSession: true,
    capabilities: { elicitation: {} },
    ask: async (questions) => {
      seen.push(questions)
      return { approval: reply as Record<string, unknown> }
    },
    tell() {},
  })
  const callWith = (title: string, client: CallingClient, caller = connection()) =>
    app.call('task_create', create(title), caller, { client })

  it('is asked at once where the client offers that', async () => {
    const seen: object[] = []
    const yes = clientWith({ action: 'accept', content: { decision: 'approve' } }, seen)
    expect((await callWith('ask-client', yes)).isError).toBe(false)
    expect(JSON.stringify(seen)).toContain('titles that ask need a person')
    expect(JSON.stringify(await app.lastCall())).toContain('the person at the client approved')
    const no = await callWith('ask-client', clientWith({ action: 'decline' }))
    expect(no.failure).toMatchObject({ code: 'ERR_POLICY_DENIED' })
  })

  it('who does not answer leaves the request to others, and a key is no person', async () => {
    const away = await callWith('ask-away', clientWith({ action: 'cancel' }))
    expect(away.failure).toMatchObject({ code: 'ERR_APPROVAL_REQUIRED' })
    const key = await app.keyCaller({ name: 'program', role: 'admin' })
    const yes = clientWith({ action: 'accept', content: { decision: 'approve' } })
    expect((await callWith('ask-key', yes, key)).failure?.code).toBe('ERR_APPROVAL_REQUIRED')
  })
})

describe('the list', () => {
  it('has both kinds, and one tool answers both', async () => {
    await app.ask('aegis.workflow.create', {
      manifest_yaml: workflowYaml(
        'asking',
        `A: { kind: Human, prompt: "Go on?", transitions: [{ condition: input_equals_yes, target: B }, { condition: input_equals_no, target: B }] }
B: { kind: System, command: update_blackboard, env: { done: "yes" }, transitions: [] }`,
      ),
    })
    const { execution_id } = await app.ask<{ execution_id: string }>('aegis.workflow.run', { name: 'asking' })
    const call = await asked(create('ask-list'), connection())
    await expect
      .poll(async () => (await list()).map(({ id }) => id))
      .toEqual(expect.arrayContaining([execution_id, call]))
    expect((await list({ kind: 'human_state' })).map(({ id }) => id)).toEqual([execution_id])
    expect(await get(execution_id)).toMatchObject({ kind: 'human_state', prompt: 'Go on?', status: 'pending' })
    expect(await approve(execution_id)).toMatchObject({ kind: 'human_state', status: 'approved' })
    const ended = await app.ask('aegis.workflow.wait', { execution_id })
    expect(ended).toMatchObject({ status: 'completed' })
  })
})
