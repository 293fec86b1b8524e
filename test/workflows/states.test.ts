import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { localOwner, type Principal } from '../../src/contract/principal.ts'
import { type Answer, callerOf, type TestApp } from '../support/app.ts'
import { ended, eventsOf, register, runStates, start, untilEvent, workflowYaml } from '../support/workflows.ts'
import { openWorkspaceApp, rowsFor } from '../support/workspaces.ts'

let app: TestApp
beforeAll(async () => {
  app = await openWorkspaceApp()
})
afterAll(() => app[Symbol.asyncDispose]())

describe('System states', () => {
  it('run in one workspace, which is gone afterwards', async () => {
    const run = await runStates(
      app,
      'two-commands',
      `A: { kind: System, command: 'echo "$WHO" > note; pwd', env: { WHO: "{{input.who}}" }, transitions: [{ condition: on_success, target: B }] }
B: { kind: System, command: cat note, transitions: [] }`,
      { run: { input: { who: 'a "quoted" <name>' } }, metadata: 'output_template: { said: "{{B.stdout}}" }' },
    )
    expect(run).toMatchObject({ status: 'completed', current_state: 'B', output: { said: 'a "quoted" <name>\n' } })
    expect(run.blackboard['A']).toMatchObject({ status: 'success', exit_code: 0, stdout: '/workspace\n' })
    expect(run.blackboard).toHaveProperty('workspace_volume_id')
    expect(await rowsFor(app)).toEqual([])
    const types = (await eventsOf(app, run.execution_id)).map(({ event_type }) => event_type)
    expect(types.filter((type) => /^(?:workflow|state)_/.test(type))).toEqual([
      'workflow_execution_started',
      'state_entered',
      'state_exited',
      'state_entered',
      'state_exited',
      'workflow_execution_completed',
    ])
  })

  it('end the run as failed when the last one fails', async () => {
    const run = await runStates(
      app,
      'last-fails',
      'A: { kind: System, command: "echo no >&2; exit 3", transitions: [] }',
    )
    expect(run).toMatchObject({
      status: 'failed',
      output: null,
      error: { code: 'ERR_WORKFLOW_FAILED', details: { violation: 'WorkflowStateFailed', state: 'A' } },
    })
    expect(run.blackboard['A']).toMatchObject({ status: 'failed', exit_code: 3, stderr: 'no\n' })
  })

  it('loop with feedback until they succeed', async () => {
    const run = await runStates(
      app,
      'loop',
      `A: { kind: System, command: 'echo "{{trim state.feedback}}" >> log; test $(wc -l < log) -ge 3 || { echo try {{state.visit}} >&2; exit 1; }', transitions: [{ condition: exit_code_zero, target: B }, { condition: always, target: A, feedback: "{{{A.stderr}}}" }] }
B: { kind: System, command: cat log, transitions: [] }`,
    )
    expect(run).toMatchObject({ status: 'completed', output: { stdout: '\ntry 1\ntry 2\n' } })
  })

  it('write the blackboard without a workspace', async () => {
    const run = await runStates(
      app,
      'seed',
      `A: { kind: System, command: update_blackboard, env: { channel: "{{default input.channel workflow.context.channel}}" }, transitions: [{ condition: custom, expression: 'channel == "beta"', target: B }] }
B: { kind: System, command: update_blackboard, env: { seen: "{{blackboard.channel}} {{intent}} {{blackboard.extra}}" }, transitions: [] }`,
      { spec: 'context: { channel: beta }', run: { intent: 'request', blackboard: { extra: 'more' } } },
    )
    expect(run).toMatchObject({ status: 'completed', blackboard: { channel: 'beta', seen: 'beta request more' } })
  })

  it('are ended when their time is over', async () => {
    const run = await runStates(
      app,
      'slow',
      `A: { kind: System, command: sleep 60, timeout: 1s, transitions: [{ condition: timeout, target: B }] }
B: { kind: System, command: update_blackboard, transitions: [] }`,
    )
    expect(run).toMatchObject({ status: 'completed', current_state: 'B', blackboard: { A: { timeout: true } } })
  })

  it('have their workspaces whatever the rate at which their starter may call', async () => {
    await using limited = await openWorkspaceApp({ config: { 'rate_limits.enabled': true } })
    await register(limited, workflowYaml('busy', 'A: { kind: System, command: echo done, transitions: [] }'))
    const key = await limited.keyCaller()
    const ids: string[] = []
    for (let count = 0; count < 6; count++) ids.push(await start(limited, 'busy', {}, key))
    for (const id of ids) expect(await ended(limited, id, key)).toMatchObject({ status: 'completed' })
  })

  it('fail with a reason when a template cannot be rendered or a workspace not be had', async () => {
    const run = await runStates(
      app,
      'no-place',
      `A: { kind: System, command: "true", transitions: [{ condition: on_failure, target: B }] }
B: { kind: System, command: update_blackboard, transitions: [] }`,
      { spec: 'storage: { workspace: { volume_id: nowhere } }' },
    )
    expect(run).toMatchObject({
      status: 'completed',
      blackboard: { A: { status: 'failed', error_code: 'ERR_WORKSPACE_NOT_FOUND' } },
    })
  })
})

describe('Human states', () => {
  const gate = `A: { kind: Human, prompt: "Publish {{default input.what 'it'}}?", transitions: [{ condition: approved, target: YES }, { condition: input_equals_no, target: NO }, { condition: always, target: A }] }
YES: { kind: System, command: update_blackboard, env: { answer: "{{human.response}}" }, transitions: [] }
NO: { kind: System, command: update_blackboard, env: { answer: "{{A.feedback}}" }, transitions: [] }`

  it('wait for an answer, and take text or an answer with feedback', async () => {
    await register(app, workflowYaml('gate', gate))
    const id = await start(app, 'gate', { input: { what: 'it' } })
    expect(await untilEvent(app, id, 'human_input_requested')).toMatchObject({
      payload: { prompt: 'Publish it?', state: 'A' },
    })
    await untilEvent(app, id, 'wait_began')
    expect(await app.ask('aegis.workflow.status', { execution_id: id })).toMatchObject({
      status: 'running',
      current_state: 'A',
    })
    const waited = await app.ask('aegis.workflow.wait', { execution_id: id, timeout_seconds: 1 })
    expect(waited).toMatchObject({ status: 'running', current_state: 'A', timed_out: true })
    expect(waited).not.toHaveProperty('blackboard')
    expect(await app.ask('aegis.workflow.signal', { execution_id: id, response: 'perhaps' })).toEqual({
      tool: 'aegis.workflow.signal',
      signalled: true,
      execution_id: id,
    })
    await untilSecondWait(id)
    await app.ask('aegis.workflow.signal', {
      execution_id: id,
      response: '{"response": " No ", "feedback": "shorter"}',
    })
    expect(await ended(app, id)).toMatchObject({
      status: 'completed',
      current_state: 'NO',
      blackboard: { answer: 'shorter' },
    })
    expect(await app.ask('aegis.workflow.signal', { execution_id: id, response: 'yes' })).toMatchObject({
      signalled: false,
      error: 'execution is not in a waiting state',
    })
  })

  it('are answered by people alone, and the record has who it was beside who they say they are', async () => {
    await register(app, workflowYaml('people', gate))
    const id = await start(app, 'people')
    await untilEvent(app, id, 'wait_began')
    const answer = { execution_id: id, response: '{"response": "approved", "by": "Ann"}' }
    const agent: Principal = { ...localOwner, kind: 'agent', actor: 'agent:eager', tier: 'user', onBehalfOf: 'owner' }
    const ofRun: Principal = { ...localOwner, executionId: id }
    for (const caller of [
      callerOf(agent, { transport: 'agent' }),
      callerOf(agent),
      callerOf(ofRun),
      callerOf(localOwner, { transport: 'agent' }),
      callerOf(localOwner, { transport: 'engine' }),
    ]) {
      const direct = await app.refusal('aegis.workflow.signal', answer, caller)
      const indirect = { tool_name: 'aegis.workflow.signal', arguments: answer }
      expect(direct).toMatchObject({
        code: 'ERR_PERMISSION_DENIED',
        message: expect.stringContaining('a person must answer'),
      })
      expect(await app.refusal('run_tool', indirect, caller)).toMatchObject({ code: 'ERR_PERMISSION_DENIED' })
    }
    expect((await app.ask('aegis.workflow.status', { execution_id: id }))['waiting_for']).not.toBeNull()
    await app.ask('aegis.workflow.signal', answer)
    const actor = { name: 'owner', identity: 'owner', door: 'stdio' }
    expect((await ended(app, id)).blackboard['A']).toMatchObject({ response: 'approved', by: 'Ann', actor })
    expect(await untilEvent(app, id, 'signal_received')).toMatchObject({ payload: { actor, payload: { by: 'Ann' } } })
  })

  it('say who answered when nobody is named', async () => {
    await register(app, workflowYaml('unnamed', gate))
    const key = await app.keyCaller({ name: 'carla', role: 'admin' })
    const id = await start(app, 'unnamed')
    await untilEvent(app, id, 'wait_began')
    await app.ask('aegis.workflow.signal', { execution_id: id, response: 'approved' }, key)
    expect((await ended(app, id)).blackboard['A']).toMatchObject({
      by: 'carla',
      actor: { name: 'carla', identity: `key:${key.principal.keyId}`, door: 'http' },
    })
  })

  it('show wherever the run is looked at that it waits, for what, and how to answer, also from below', async () => {
    await register(app, workflowYaml('asker', gate))
    await register(
      app,
      workflowYaml(
        'above',
        `SUB: { kind: Subworkflow, workflow_id: asker, mode: blocking, result_key: r, input: '{"what": "that"}', transitions: [] }`,
      ),
    )
    const id = await start(app, 'above')
    const status = () => app.ask<{ waiting_for: Answer | null }>('aegis.workflow.status', { execution_id: id })
    await expect.poll(async () => (await status()).waiting_for).not.toBeNull()
    const { waiting_for } = await status()
    const below = String(waiting_for!['execution_id'])
    expect(below).not.toBe(id)
    const expected = {
      execution_id: below,
      state: 'A',
      prompt: 'Publish that?',
      default_response: null,
      accepted_answers: null,
      requested_at: expect.any(String),
      expires_at: expect.any(String),
      answer_with: {
        tool: 'aegis.workflow.signal',
        arguments: { execution_id: below, response: '<answer>' },
        http: `POST /v1/workflows/executions/${below}/signal`,
      },
    }
    expect(waiting_for).toEqual(expected)
    const waited = await app.ask('aegis.workflow.wait', { execution_id: below, timeout_seconds: 1 })
    expect(waited).toMatchObject({
      waiting_for: expected,
      message: expect.stringContaining('waiting for a person to answer'),
    })
    const got = await app.ask('aegis.workflow.executions.get', { execution_id: id })
    expect(got['waiting_for']).toEqual(expected)
    const { executions } = await app.ask<{ executions: Answer[] }>('aegis.workflow.executions.list', { limit: 2 })
    expect(executions.map((one) => one['waiting_for'])).toEqual([expected, expected])
    await app.ask('aegis.workflow.signal', { execution_id: below, response: 'yes' })
    expect(await ended(app, id)).toMatchObject({ status: 'completed', current_state: 'SUB' })
    expect((await status()).waiting_for).toBeNull()
  })

  it('find the storage of the workflow on the blackboard in the words of the manifest', async () => {
    const run = await runStates(
      app,
      'stored',
      'A: { kind: System, command: update_blackboard, env: { mb: "{{workflow.storage.workspace.size_limit_mb}}", name: "{{workflow.storage.shared_volumes.[0].name}}" }, transitions: [] }',
      { spec: 'storage: { workspace: { size_limit_mb: 300, ttl_hours: 2 }, shared_volumes: [{ name: data }] }' },
    )
    expect(run.blackboard).toMatchObject({ mb: '300', name: 'data' })
    expect(JSON.stringify(run)).not.toMatch(/"[a-z]+[A-Z]\w*":/)
  })

  const untilSecondWait = async (id: string): Promise<void> => {
    for (;;) {
      const waits = (await eventsOf(app, id)).filter(({ event_type }) => event_type === 'wait_began')
      if (waits.length === 2) return
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }

  it('take the default answer when the time is over, or fail without one', async () => {
    const states = (
      fallback: string,
    ) => `A: { kind: Human, prompt: q, timeout: 1s, ${fallback} transitions: [{ condition: input_equals_no, target: B }] }
B: { kind: System, command: update_blackboard, transitions: [] }`
    const byDefault = await runStates(app, 'default-answer', states('default_response: "no",'))
    expect(byDefault).toMatchObject({ status: 'completed', blackboard: { A: { response: 'no', timeout: true } } })
    const without = await runStates(app, 'no-answer', states(''))
    expect(without).toMatchObject({
      status: 'failed',
      error: { details: { violation: 'WorkflowNoTransitionMatched' } },
    })
    expect(without.error?.message).toContain('nobody answered within 1 s')
  })

  it('wait through a restart of the server', async () => {
    await register(app, workflowYaml('patient', gate))
    const id = await start(app, 'patient', { input: { what: 'x' } })
    await untilEvent(app, id, 'wait_began')
    app = await app.restart()
    expect(await app.ask('aegis.workflow.status', { execution_id: id })).toMatchObject({
      status: 'running',
      current_state: 'A',
    })
    await app.ask('aegis.workflow.signal', { execution_id: id, response: 'yes' })
    expect(await ended(app, id)).toMatchObject({ status: 'completed', blackboard: { answer: 'yes' } })
  })
})

describe('sub-workflows', () => {
  it('give back their output, or run apart', async () => {
    await register(
      app,
      workflowYaml(
        'child',
        'A: { kind: System, command: update_blackboard, env: { doubled: "{{input.body}}{{input.body}}" }, transitions: [] }',
        {
          metadata: 'input_schema: { type: object, required: [body] }\noutput_template: { text: "{{doubled}}" }',
        },
      ),
    )
    const run = await runStates(
      app,
      'parent',
      `A: { kind: Subworkflow, workflow_id: child, mode: blocking, result_key: made, input: '{"body": {{{json input.text}}}}', transitions: [{ condition: on_success, target: B }] }
B: { kind: Subworkflow, workflow_id: child, mode: fire_and_forget, input: '{"body": "apart"}', transitions: [{ condition: always, target: C }] }
C: { kind: Subworkflow, workflow_id: child, mode: blocking, result_key: other, input: "no body", transitions: [{ condition: on_failure, target: D }] }
D: { kind: System, command: update_blackboard, transitions: [] }`,
      { run: { input: { text: 'a"b' } } },
    )
    expect(run).toMatchObject({
      status: 'completed',
      blackboard: { made: { text: 'a"ba"b' }, C: { status: 'failed' } },
    })
    expect(run.blackboard['C']?.['error']).toContain('input_schema')
    const apart = String(run.blackboard['B']?.['execution_id'])
    expect(await ended(app, apart)).toMatchObject({ status: 'completed', output: { text: 'apartapart' } })
  })

  it('may take longer than any timer can wait', async () => {
    await register(app, workflowYaml('asks', 'A: { kind: Human, prompt: q, timeout: 2400h, transitions: [] }'))
    const states =
      'A: { kind: Subworkflow, workflow_id: asks, mode: blocking, result_key: said, timeout: 2400h, transitions: [] }'
    await register(app, workflowYaml('long-patient', states))
    const id = await start(app, 'long-patient')
    const access = () => app.ask<Answer>('aegis.workflow.status', { execution_id: id })
    const asked = async () => {
      const { status, waiting_for } = await access()
      return waiting_for ?? (status === 'running' || status === 'pending' ? null : status)
    }
    await expect.poll(asked).not.toBeNull()
    expect(await asked()).toMatchObject({ prompt: 'q' })
    const { execution_id } = (await asked()) as Answer
    await app.ask('aegis.workflow.signal', { execution_id, response: 'late' })
    expect(await ended(app, id)).toMatchObject({ status: 'completed', blackboard: { said: 'late' } })
  })
})

describe('a run', () => {
  it('is cancelled with what it runs, and its workspace goes', async () => {
    await register(
      app,
      workflowYaml('endless', 'A: { kind: System, command: "echo begun > here; sleep 600", transitions: [] }'),
    )
    const id = await start(app, 'endless')
    await untilEvent(app, id, 'step_began')
    expect(await app.ask('aegis.workflow.remove', { execution_id: id })).toMatchObject({
      removed: false,
      error: 'execution is not in a terminal state',
    })
    expect(await app.ask('aegis.workflow.cancel', { execution_id: id })).toEqual({
      tool: 'aegis.workflow.cancel',
      cancelled: true,
      execution_id: id,
    })
    expect(await ended(app, id)).toMatchObject({ status: 'cancelled' })
    expect(await rowsFor(app)).toEqual([])
    expect(await app.ask('aegis.workflow.cancel', { execution_id: id })).toMatchObject({
      cancelled: false,
      error: 'execution already in terminal state',
    })
    expect(await app.ask('aegis.workflow.remove', { execution_id: id })).toMatchObject({ removed: true })
    expect(await app.refusal('aegis.workflow.status', { execution_id: id })).toMatchObject({
      code: 'ERR_EXECUTION_NOT_FOUND',
    })
  })

  it('goes on although its workflow is deleted', async () => {
    await register(
      app,
      workflowYaml(
        'going',
        `A: { kind: Human, prompt: q, transitions: [{ condition: always, target: B }] }
B: { kind: System, command: update_blackboard, env: { done: "yes" }, transitions: [] }`,
      ),
    )
    const id = await start(app, 'going')
    await untilEvent(app, id, 'wait_began')
    await app.ask('aegis.workflow.delete', { name: 'going' })
    expect(await app.refusal('aegis.workflow.run', { name: 'going' })).toMatchObject({ code: 'ERR_WORKFLOW_NOT_FOUND' })
    await app.ask('aegis.workflow.signal', { execution_id: id, response: 'go' })
    expect(await ended(app, id)).toMatchObject({ status: 'completed', blackboard: { done: 'yes' } })
  })

  it('refuses an input that does not conform, and overrides of its own names', async () => {
    await register(
      app,
      workflowYaml('strict', 'A: { kind: System, command: update_blackboard, transitions: [] }', {
        metadata: 'input_schema: { type: object, required: [n], properties: { n: { type: integer } } }',
      }),
    )
    expect(await app.refusal('aegis.workflow.run', { name: 'strict', input: { n: 'x' } })).toMatchObject({
      code: 'ERR_INVALID_INPUT',
    })
    expect(
      await app.refusal('aegis.workflow.run', { name: 'strict', input: { n: 1 }, blackboard: { workflow: {} } }),
    ).toMatchObject({ code: 'ERR_INVALID_INPUT', message: expect.stringContaining('blackboard.workflow') })
  })
})
