import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ToolCaller } from '../../src/tools/runtime/tool-host.ts'
import { ownerCaller, type TestApp } from '../support/app.ts'
import { ended, register, start, untilEvent, workflowYaml } from '../support/workflows.ts'
import { openWorkspaceApp } from '../support/workspaces.ts'

let app: TestApp
beforeAll(async () => {
  app = await openWorkspaceApp()
})
afterAll(() => app[Symbol.asyncDispose]())

describe('Human states', () => {
  it('refuse an answer that leads nowhere, say which do, and forgive case, spaces and other words for yes and no', async () => {
    const choice = `A: { kind: Human, prompt: "Which?", transitions: [{ condition: input_equals, value: "Ship it", target: B }, { condition: input_equals, value: approve, target: B }, { condition: input_equals_no, target: C }] }
B: { kind: System, command: update_blackboard, transitions: [] }
C: { kind: System, command: update_blackboard, transitions: [] }`
    await register(app, workflowYaml('choice', choice))
    const accepted_answers = ['Ship it', 'approve', 'no']
    const answered = async (response: string) => {
      const id = await start(app, 'choice')
      await untilEvent(app, id, 'wait_began')
      expect(await app.ask('aegis.workflow.status', { execution_id: id })).toMatchObject({
        waiting_for: { accepted_answers },
      })
      const refused = await app.refusal('aegis.workflow.signal', { execution_id: id, response: 'perhaps' })
      expect(refused).toMatchObject({
        code: 'ERR_INVALID_INPUT',
        message: expect.stringContaining('answer with one of "Ship it", "approve", "no"'),
        details: { field: 'response', state: 'A', accepted_answers },
      })
      expect(await app.ask('approval_list', { execution_id: id })).toMatchObject({ approvals: [{ accepted_answers }] })
      await app.ask('aegis.workflow.signal', { execution_id: id, response })
      const { status, current_state, blackboard } = await ended(app, id)
      return { status, current_state, response: blackboard['A']?.['response'] }
    }
    const status = 'completed'
    expect(await answered('  ship  IT ')).toEqual({ status, current_state: 'B', response: 'Ship it' })
    expect(await answered('yes')).toEqual({ status, current_state: 'B', response: 'approve' })
    expect(await answered('{"response": "rejected", "feedback": "f"}')).toMatchObject({ current_state: 'C' })
  })

  it.each([
    ['anything', '{ condition: always, target: B }'],
    ['any success', '{ condition: on_success, target: B }'],
    ['nothing in particular', ''],
  ])('refuse an empty answer where they take %s', async (_, transition) => {
    const name = `empty-${transition === '' ? 'end' : transition.includes('always') ? 'always' : 'success'}`
    const after = transition === '' ? '' : '\nB: { kind: System, command: update_blackboard, transitions: [] }'
    await register(app, workflowYaml(name, `A: { kind: Human, prompt: "Why?", transitions: [${transition}] }${after}`))
    const id = await start(app, name)
    await untilEvent(app, id, 'wait_began')
    for (const response of ['', ' \n', '{"response": "", "feedback": " "}']) {
      expect(await app.refusal('aegis.workflow.signal', { execution_id: id, response })).toMatchObject({
        code: 'ERR_INVALID_INPUT',
        message: expect.stringContaining('response: the answer is empty'),
        details: { field: 'response', state: 'A' },
      })
    }
    await app.ask('aegis.workflow.signal', { execution_id: id, response: '{"response": "", "feedback": "because"}' })
    expect((await ended(app, id)).blackboard['A']).toMatchObject({ response: '', feedback: 'because' })
  })

  it('take an empty answer if a transition says so', async () => {
    const states = `A: { kind: Human, prompt: "A note?", transitions: [{ condition: input_equals, value: "", target: C }, { condition: always, target: B }] }
B: { kind: System, command: update_blackboard, transitions: [] }
C: { kind: System, command: update_blackboard, transitions: [] }`
    await register(app, workflowYaml('may-be-empty', states))
    const id = await start(app, 'may-be-empty')
    await untilEvent(app, id, 'wait_began')
    await app.ask('aegis.workflow.signal', { execution_id: id, response: '' })
    expect(await ended(app, id)).toMatchObject({ status: 'completed', current_state: 'C' })
  })

  it('say that they are answered if an approval comes too late', async () => {
    await register(app, workflowYaml('once', 'A: { kind: Human, prompt: "Go?", transitions: [] }'))
    const id = await start(app, 'once')
    await untilEvent(app, id, 'wait_began')
    await app.ask('approval_answer', { id, decision: 'approve' })
    await ended(app, id)
    const other = await app.keyCaller({ name: 'passer-by', role: 'member' })
    for (const [tool, args] of [
      ['approval_answer', { id, decision: 'deny' }],
      ['approval_get', { id }],
    ] as const) {
      expect(await app.refusal(tool, args)).toMatchObject({
        code: 'ERR_APPROVAL_ANSWERED',
        message: expect.stringMatching(/no longer waits.*castellan call aegis\.workflow\.logs/),
      })
      expect(await app.refusal(tool, args, other)).toMatchObject({ code: 'ERR_NOT_FOUND' })
    }
  })

  it('are listed with their answers on request, to those who see the run', async () => {
    const states = `A: { kind: Human, prompt: "Which colour?", transitions: [{ condition: always, target: B }] }
B: { kind: Human, prompt: "Sure?", timeout: 1s, default_response: no, transitions: [{ condition: always, target: C }] }
C: { kind: Human, prompt: "Go?", transitions: [] }`
    await register(app, workflowYaml('asks-thrice', states))
    const id = await start(app, 'asks-thrice')
    await untilEvent(app, id, 'wait_began')
    await app.ask('aegis.workflow.signal', { execution_id: id, response: 'blue' })
    const rows = async (args: object, caller?: ToolCaller) =>
      (await app.ask<{ approvals: Record<string, unknown>[] }>('approval_list', args, caller)).approvals
        .filter((row) => row['id'] === id)
        .map(({ state, status, prompt, note, answered_by }) => [state, status, prompt, note, answered_by])
    const waiting = ['C', 'pending', 'Go?', null, null]
    await expect.poll(() => rows({}), { timeout: 20_000 }).toEqual([waiting])
    const over = [
      ['B', 'expired', 'Sure?', 'no', null],
      ['A', 'answered', 'Which colour?', 'blue', 'owner'],
    ]
    expect(await rows({ answered: true })).toEqual([waiting, ...over])
    expect(await rows({ answered: true, kind: 'tool_call' })).toEqual([])
    expect(await rows({ answered: true, execution_id: id })).toEqual([waiting, ...over])
    expect(await rows({ execution_id: id.toUpperCase() })).toEqual([waiting])
    for (const args of [{ execution_id: 'none' }, { execution_id: 'none', answered: true }]) {
      expect(await app.refusal('approval_list', args)).toMatchObject({ code: 'ERR_EXECUTION_NOT_FOUND' })
    }
    const other = await app.keyCaller({ name: 'onlooker', role: 'member' })
    expect(await rows({ answered: true }, other)).toEqual([])
    await app.ask('approval_answer', { id, decision: 'deny', note: 'too late' })
    await ended(app, id)
    expect(await rows({ answered: true })).toEqual([['C', 'answered', 'Go?', 'rejected', 'owner'], ...over])
  })

  it('are not answered by the key whose run asks, nor through a program that has read untrusted data', async () => {
    await register(app, workflowYaml('guarded', 'A: { kind: Human, prompt: "Go?", transitions: [] }'))
    const key = await app.keyCaller({ name: 'starter', role: 'admin' })
    const other = await app.keyCaller({ name: 'reader', role: 'admin' })
    const { execution_id } = await app.ask<{ execution_id: string }>('aegis.workflow.run', { name: 'guarded' }, key)
    await untilEvent(app, execution_id, 'wait_began')
    const answer = { execution_id, response: 'approved' }
    const again = { ...key, principal: { ...key.principal, mcpSessionId: 'again' } }
    for (const caller of [key, again, { ...key, transport: 'cli' } as const]) {
      for (const [tool, args] of [
        ['aegis.workflow.signal', answer],
        ['approval_answer', { id: execution_id, decision: 'approve' }],
      ] as const)
        expect(await app.refusal(tool, args, caller)).toMatchObject({
          code: 'ERR_PERMISSION_DENIED',
          message: expect.stringContaining('a key may not answer for a run of its own'),
        })
    }
    await app.ask('log_export', { limit: 1 }, other)
    expect((await app.refusal('aegis.workflow.signal', answer, other)).message).toContain('read untrusted data')
    await app.ask('aegis.workflow.signal', answer)
    expect((await ended(app, execution_id)).status).toBe('completed')
  })

  it('are not registered with a default answer that leads nowhere', async () => {
    const states =
      'A: { kind: Human, prompt: q, default_response: perhaps, transitions: [{ condition: approved, target: B }] }\nB: { kind: System, command: ls, transitions: [] }'
    expect(await app.refusal('aegis.workflow.create', { manifest_yaml: workflowYaml('lost', states) })).toMatchObject({
      message: expect.stringContaining('spec.states.A.default_response: is not accepted by any transition'),
    })
  })
})

describe('System states', () => {
  it('wait inside their step where a person must approve a command, also through a restart, and run it once', async () => {
    await app.ask('create_tool_invocation_policy', {
      toolId: 'exec',
      conditions: [{ key: 'command', operator: 'contains', value: 'only-with-approval' }],
      action: 'require_approval',
    })
    await register(
      app,
      workflowYaml(
        'approved-command',
        `A: { kind: System, command: 'echo only-with-approval >> log; cat log', transitions: [{ condition: on_success, target: B }, { condition: on_failure, target: C }] }
B: { kind: System, command: cat log, transitions: [] }
C: { kind: System, command: update_blackboard, transitions: [] }`,
      ),
    )
    const cli = { ...ownerCaller, transport: 'cli' } as const
    const answerOf = async (decision: 'approve' | 'deny') => {
      const execution_id = await start(app, 'approved-command')
      const asked = async () =>
        (await app.ask<{ approvals: { id: string }[] }>('approval_list', { execution_id, kind: 'tool_call' }, cli))
          .approvals
      await expect.poll(asked).toMatchObject([{ tool: 'exec', status: 'pending' }])
      expect(await app.ask('approval_list', { execution_id }, cli)).toEqual({ approvals: await asked() })
      const [{ id }] = (await asked()) as [{ id: string }]
      app = await app.restart()
      await app.ask('approval_answer', { id, decision, note: 'said by a person' }, cli)
      return await ended(app, execution_id)
    }
    const made = await answerOf('approve')
    expect(made).toMatchObject({ status: 'completed', current_state: 'B' })
    expect(made.blackboard['B']).toMatchObject({ stdout: 'only-with-approval\n' })
    const denied = await answerOf('deny')
    expect(denied).toMatchObject({ status: 'completed', current_state: 'C' })
    expect(JSON.stringify(denied.blackboard['A'])).toContain('said by a person')
  })
})
