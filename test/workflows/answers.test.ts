import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TestApp } from '../support/app.ts'
import { ended, register, start, untilEvent, workflowYaml } from '../support/workflows.ts'
import { destroyAll, openWorkspaceApp } from '../support/workspaces.ts'

let app: TestApp
beforeAll(async () => {
  app = await openWorkspaceApp()
})
afterAll(async () => {
  await destroyAll(app)
  await app[Symbol.asyncDispose]()
})

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

  it('are not registered with a default answer that leads nowhere', async () => {
    const states =
      'A: { kind: Human, prompt: q, default_response: perhaps, transitions: [{ condition: approved, target: B }] }\nB: { kind: System, command: ls, transitions: [] }'
    expect(await app.refusal('aegis.workflow.create', { manifest_yaml: workflowYaml('lost', states) })).toMatchObject({
      message: expect.stringContaining('spec.states.A.default_response: is not accepted by any transition'),
    })
  })
})
