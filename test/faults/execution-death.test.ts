import { expect, test } from 'vitest'
import { ask } from '../support/castellan-client.ts'
import { agentYaml } from '../support/executions.ts'
import { isLongRun } from '../support/long-run.ts'
import { setModelStage } from '../support/model-stage.ts'
import { type DyingRun, journalsOf, startedAtGate, sweepDeaths } from '../support/run-deaths.ts'
import type { Line, SeenRequest } from '../support/scripted-model.ts'
import { type Ended, workflowYaml } from '../support/workflows.ts'

/**
 * The real program kills itself at any step of an agent that has tools, judges of its calls, a validator that sends it back
 * once, and a process. The next one goes on: no answer of a model is asked for twice, and no command is run twice.
 */
const STEPS = 24
const COMMITS = 60
const plans = isLongRun
  ? ['before', 'after'].flatMap((side) => [
      ...Array.from({ length: STEPS }, (_, index) => `run.step.${side}:kill:${index + 1}`),
      ...Array.from({ length: COMMITS }, (_, index) => `store.commit.${side}:kill:${index + 1}`),
    ])
  : [
      // At the first command, which must not be run twice.
      'run.step.after:kill:8',
      'run.step.before:kill:12',
      'store.commit.before:kill:25',
      'store.commit.after:kill:50',
    ]

const worker = agentYaml(
  'worker',
  `  task: { instruction: "Work." }
  tools: [fs.read, cmd.run]
  execution:
    mode: iterative
    max_iterations: 2
    tool_validation: [{ type: semantic, judge_agent: judge, criteria: c }]
    validation: [{ type: regex, pattern: "^good" }, { type: semantic, judge_agent: judge, criteria: c }]
`,
)
const judge = agentYaml('judge', '  task: { instruction: "Judge." }\n')
const states = `GATE: { kind: Human, prompt: "Begin?", transitions: [{ condition: always, target: WORK }] }
WORK: { kind: Agent, agent: worker, intent: "{{input.turn}}.", input: "Go.", transitions: [] }`

function answer({ text, messages }: SeenRequest): Line {
  if (text.includes('Judge.')) return { text: '{"score":1,"confidence":1,"reasoning":""}' }
  const [last] = messages.filter(({ role }) => role === 'tool').slice(-1)
  const isSecond = text.includes('Previous attempts')
  if (last !== undefined) return { text: isSecond ? `good ${String(last.content)}` : 'bad' }
  const args = isSecond ? { path: 'log' } : { command: 'echo once >> log' }
  return { toolCalls: [{ name: isSecond ? 'fs_read' : 'cmd_run', arguments: args }] }
}

test('a server that kills itself at any step of an agent leaves an execution that the next one ends', {
  timeout: isLongRun ? 3_600_000 : 240_000,
}, async () => {
  const stage = await setModelStage(answer, { rate_limits: { enabled: false } })
  const client = await stage.start()
  for (const manifest_yaml of [judge, worker]) await ask(client, 'aegis.agent.create', { manifest_yaml })
  await ask(client, 'aegis.workflow.create', { manifest_yaml: workflowYaml('swept', states) })
  await client.leave()
  const times: number[] = []
  const run: DyingRun = {
    begin: startedAtGate('swept'),
    async judge(next, execution_id, turn, atDeath) {
      const end = await ask<Ended>(next, 'aegis.workflow.wait', { execution_id })
      expect(end, JSON.stringify(end)).toMatchObject({ status: 'completed', current_state: 'WORK' })
      const output = String(end.blackboard['WORK']!['output'])
      expect(output).toMatch(/^good/)
      const ran = output.split('once').length - 1
      times.push(ran)
      // Whether a command that the death interrupted took effect, nobody knows: the model is told, and decides.
      const isRecorded = atDeath.some(
        ({ type, key }) => type === 'tool_invocation_completed' && key?.endsWith('tool-1-1'),
      )
      expect(ran, output).toBeLessThanOrEqual(1)
      if (isRecorded) expect(ran, output).toBe(1)
      const asked = stage.requests.filter(({ text }) => new RegExp(`${turn}\\b`).test(text)).length
      const answered = journalsOf(stage.dataDir, execution_id).filter(({ type }) => type === 'llm_interaction').length
      expect([0, 1], `${asked} asked, ${answered} recorded`).toContain(asked - answered)
    },
  }
  const unreached = await sweepDeaths(stage, run, plans)
  expect(unreached.length, `${unreached}`).toBeLessThan(plans.length / 3)
  expect(times).toContain(1)
})
