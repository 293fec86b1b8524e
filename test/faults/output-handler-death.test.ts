import { expect, onTestFinished, test } from 'vitest'
import { ask } from '../support/castellan-client.ts'
import { isLongRun } from '../support/long-run.ts'
import { setModelStage } from '../support/model-stage.ts'
import { type DyingRun, startedAtGate, sweepDeaths } from '../support/run-deaths.ts'
import { answer, serveWeb } from '../support/web-server.ts'
import { type Ended, workflowYaml } from '../support/workflows.ts'

/** What an output handler was answered is recorded, and then it is not asked again, whenever the server dies. */
const plans = [
  'run.step.before:kill:3',
  'run.step.after:kill:5',
  ...(isLongRun
    ? ['after:kill:3', 'before:kill:4', 'before:kill:5', 'before:kill:6'].map((at) => `run.step.${at}`)
    : []),
]

test('a server that dies around output handlers asks none again whose answer is recorded', {
  timeout: 240_000,
}, async () => {
  const web = await serveWeb({ '/': answer('kept') })
  onTestFinished(() => web[Symbol.asyncDispose]())
  const stage = await setModelStage(() => ({ text: 'nobody asks' }), {
    rate_limits: { enabled: false },
    web: { allow_private_addresses: ['127.0.0.1'] },
  })
  const handlers = {
    HOOK: `{ type: webhook, url: "${web.at('/')}", body_template: "{{input.turn}}.", required: true }`,
    BOX: '{ type: container, image: host, command: [sh, -c, "test ! -e mark && touch mark && echo boxed"], required: true }',
  }
  const state = (name: keyof typeof handlers, next: string) =>
    `${name}: { kind: ContainerRun, name: s, image: host, command: [echo, x], output_handler: ${handlers[name]}, transitions: [{ condition: on_success, target: ${next} }] }`
  const states = `GATE: { kind: Human, prompt: "Begin?", transitions: [{ condition: always, target: HOOK }] }
${state('HOOK', 'BOX')}
${state('BOX', 'END')}
END: { kind: System, command: "true", transitions: [] }`
  const client = await stage.start()
  await ask(client, 'aegis.workflow.create', { manifest_yaml: workflowYaml('handled', states) })
  await client.leave()
  const recordedAtDeath: boolean[] = []
  const run: DyingRun = {
    begin: startedAtGate('handled'),
    async judge(next, execution_id, turn, atDeath) {
      const end = await ask<Ended>(next, 'aegis.workflow.wait', { execution_id })
      expect(end, JSON.stringify(end)).toMatchObject({ status: 'completed', current_state: 'END' })
      expect(end.blackboard).toMatchObject({ HOOK: { output: 'kept' }, BOX: { output: 'boxed\n' } })
      const isRecorded = atDeath.some(({ type, state }) => type === 'output_handler_completed' && state === 'HOOK')
      recordedAtDeath.push(isRecorded)
      const times = web.bodies.filter((body) => body === `${turn}.`).length
      expect(times, turn).toBeGreaterThan(0)
      expect(times, turn).toBeLessThanOrEqual(isRecorded ? 1 : 2)
    },
  }
  expect(await sweepDeaths(stage, run, plans)).toEqual([])
  // Deaths on both sides of the record were seen.
  expect([...new Set(recordedAtDeath)].sort()).toEqual([false, true])
})
