import { describe, expect, test } from 'vitest'
import type { CastellanClient } from '../support/castellan-client.ts'
import { ask } from '../support/castellan-client.ts'
import { agentYaml } from '../support/executions.ts'
import { setModelStage } from '../support/model-stage.ts'
import type { SeenRequest } from '../support/scripted-model.ts'
import { type Ended, workflowYaml } from '../support/workflows.ts'

/** Workflows as those who come from elsewhere have them, in the real program with a scripted model and real workspaces. */
const task = (text: string, more = '') => `  task: { instruction: "${text}" }\n${more}`
const deploy = (client: CastellanClient, name: string, spec: string) =>
  ask(client, 'aegis.agent.create', { manifest_yaml: agentYaml(name, spec) })
async function run(client: CastellanClient, name: string, more: object = {}): Promise<Ended> {
  const { execution_id } = await ask<{ execution_id: string }>(client, 'aegis.workflow.run', { name, ...more })
  for (;;) {
    const answer = await ask<Ended>(client, 'aegis.workflow.wait', { execution_id })
    if (answer.timed_out !== true) return answer
  }
}

/** From an intent to the result of a program: written, reviewed, run in a container, summarised. */
const pipeline = `
apiVersion: 100monkeys.ai/v1
kind: Workflow
metadata:
  name: intent-to-execution
  version: "1.0.0"
  input_schema:
    type: object
    properties:
      language: { type: string, default: python }
      language_ext: { type: string, default: py }
      runner: { type: string, default: python }
      runner_flags: { type: string, default: "" }
      container_image: { type: string, default: "python:3.12-slim" }
      inputs: { type: object, additionalProperties: true }
      inputs_json: { type: string, default: "{}" }
  output_schema:
    type: object
    required: [result]
    properties: { result: { type: string }, exit_code: { type: integer } }
  output_template: { result: "{{EXECUTE_CODE.output}}", exit_code: "{{EXECUTE_CODE.exit_code}}" }
spec:
  initial_state: WRITE_CODE
  max_total_transitions: 20
  storage: { workspace: { storage_class: ephemeral, ttl_hours: 1, size_limit_mb: 256 } }
  states:
    WRITE_CODE:
      kind: Agent
      max_state_visits: 3
      agent: "aegis-{{input.language}}-executor-agent"
      intent: "{{intent}}"
      input: |
        Names of the inputs: {{{keys input.inputs}}}
        {{#if blackboard.EXECUTE_CODE}}It ended with {{blackboard.EXECUTE_CODE.output.exit_code}}: {{{blackboard.EXECUTE_CODE.output.stderr}}}{{/if}}
        {{#if blackboard.VALIDATE_CODE}}A look at it said: {{{blackboard.VALIDATE_CODE.output.summary}}}{{/if}}
      transitions:
        - { condition: on_success, target: VALIDATE_CODE }
        - { condition: on_failure, target: WRITE_FAILED }
    VALIDATE_CODE:
      kind: Agent
      max_state_visits: 3
      agent: aegis-code-validator-agent
      input: "Look at /workspace/solution.{{input.language_ext}}; inputs are {{{input.inputs_json}}}"
      transitions:
        - { condition: custom, expression: state_output.output.valid, target: EXECUTE_CODE }
        - { condition: on_success, target: WRITE_CODE }
        - { condition: on_failure, target: WRITE_FAILED }
    EXECUTE_CODE:
      kind: ContainerRun
      max_state_visits: 3
      name: execute
      image: "{{input.container_image}}"
      command: ["{{input.runner}}", "{{input.runner_flags}}", "/workspace/solution.{{input.language_ext}}"]
      workdir: /workspace
      env_additions: { INTENT_INPUTS: "{{{input.inputs_json}}}" }
      volumes: [{ name: workspace, mount_path: /workspace, read_only: true }]
      resources: { cpu: 500, memory: 256Mi, timeout: 600s }
      network_mode: none
      run_as_user: "65534:65534"
      read_only_root_filesystem: true
      output_handler:
        type: agent
        agent_id: aegis-output-formatter-agent
        input_template: "Requested was: {{intent}}\\nIt printed: {{output}}"
        required: true
      transitions:
        - { condition: exit_code_non_zero, target: EXECUTION_FAILED }
    WRITE_FAILED: { kind: System, command: "echo no program >&2; exit 1", transitions: [] }
    EXECUTION_FAILED:
      kind: System
      max_state_visits: 2
      command: echo "ended with $CODE"
      env: { CODE: "{{blackboard.EXECUTE_CODE.output.exit_code}}" }
      transitions: [{ condition: on_success, target: WRITE_CODE }]
`

/** The first program is refused, the second fails, the third is right. */
function author({ text, messages }: SeenRequest) {
  if (text.includes('Format.')) return { text: `In words: ${/"stdout":"(\w+)/.exec(text)?.[1]}` }
  if (text.includes('Look.')) {
    const isFirst = !text.includes('second') && seenPrograms === 1
    return { text: JSON.stringify({ valid: !isFirst, summary: isFirst ? 'it does nothing' : 'good' }) }
  }
  if (messages.some(({ role }) => role === 'tool')) return { text: 'written' }
  seenPrograms++
  const programs = [
    'pass',
    'raise SystemExit(3)',
    'import os, json\nprint(json.loads(os.environ["INTENT_INPUTS"])["n"] * 2)',
  ]
  const content = programs[seenPrograms - 1] ?? programs[2]!
  return { toolCalls: [{ name: 'fs_write', arguments: { path: '/workspace/solution.py', content } }] }
}
let seenPrograms = 0

describe('workflows of others', () => {
  test('an intent is written, reviewed, run and summarised, and failures go back to the author', async () => {
    seenPrograms = 0
    const stage = await setModelStage(author, { workflows: { images: ['python=host'] } })
    const client = await stage.start()
    await deploy(client, 'aegis-python-executor-agent', task('Write.', '  tools: [fs.write]\n'))
    await deploy(client, 'aegis-code-validator-agent', task('Look.'))
    await deploy(client, 'aegis-output-formatter-agent', task('Format.'))
    await ask(client, 'aegis.workflow.create', { manifest_yaml: pipeline })
    const end = await run(client, 'intent-to-execution', {
      intent: 'Double the number.',
      input: { inputs: { n: 21 }, inputs_json: '{"n": 21}' },
    })
    expect(end, JSON.stringify(end)).toMatchObject({
      status: 'completed',
      current_state: 'EXECUTE_CODE',
      output: { result: 'In words: 42', exit_code: 0 },
    })
    expect(end.blackboard['EXECUTION_FAILED']).toMatchObject({ stdout: 'ended with 3\n' })
    const asked = stage.requests.map(({ text }) => text)
    expect(asked.some((text) => text.includes('A look at it said: it does nothing'))).toBe(true)
    expect(asked.some((text) => text.includes('It ended with 3:'))).toBe(true)
    expect(asked.some((text) => text.includes('Names of the inputs: ["n"]'))).toBe(true)
  })

  test('a loop counts its rounds, commands have their output, and the older names of inputs are known', async () => {
    const stage = await setModelStage(() => ({ text: 'unused' }))
    const client = await stage.start()
    const states = `RUN:
  kind: System
  command: "{{workflow.command}}"
  transitions:
    - { condition: exit_code_zero, target: DONE }
    - { condition: exit_code_non_zero, target: REFINE, feedback: "{{RUN.output.stderr}}" }
REFINE:
  kind: System
  command: update_blackboard
  env: { round: "{{blackboard.round + 1}}", said: "{{trim state.feedback}}" }
  transitions:
    - { condition: custom, expression: "{{blackboard.round < workflow.context.rounds}}", target: RUN }
    - { condition: custom, expression: "{{blackboard.round >= workflow.context.rounds}}", target: DONE }
DONE: { kind: System, command: update_blackboard, transitions: [] }`
    const yaml = workflowYaml('counting', states, {
      spec: 'context: { rounds: 3 }',
      metadata: 'output_template: { task: "{{workflow.task}}", round: "{{round}}", said: "{{said}}" }',
    })
    const created = await client.call('aegis.workflow.create', { manifest_yaml: yaml })
    expect(JSON.stringify(created)).toContain('{{workflow.command}} is the whole command line')
    const end = await run(client, 'counting', { input: { task: 'count', command: 'echo no >&2; exit 1' } })
    expect(end).toMatchObject({
      status: 'completed',
      blackboard: { round: 3, said: 'no' },
      output: { task: 'count', said: 'no' },
    })
    const lost = await run(client, 'counting', { input: { command: 'true' } })
    expect(lost).toMatchObject({ status: 'completed', output: { task: null } })
  })

  test('what cannot be is refused before anything runs, and names itself', async () => {
    const stage = await setModelStage(() => ({ text: '{"score": 1}' }))
    const client = await stage.start()
    await deploy(client, 'worker', task('Work.'))
    const refusal = async (tool: string, args: object): Promise<string> => {
      const outcome = await client.call(tool, args)
      expect(outcome.kind).not.toBe('done')
      return JSON.stringify(outcome)
    }
    const state = (more: string) =>
      workflowYaml('w', `A: { kind: Agent, agent: worker, input: x, ${more} transitions: [] }`)
    expect(
      await refusal('aegis.workflow.create', { manifest_yaml: state('judges: [{ agent_id: nobody }],') }),
    ).toContain("spec.states.A.judges[0].agent_id: there is no agent 'nobody' to judge")
    expect(
      await refusal('aegis.workflow.create', { manifest_yaml: state('pre_execution_validator: nobody,') }),
    ).toContain('spec.states.A.pre_execution_validator')
    expect(
      await refusal('aegis.workflow.create', { manifest_yaml: state(''), judge_agents: ['worker', 'nobody'] }),
    ).toContain("judge_agents: there is no agent 'nobody'")
    const validated = task(
      'Work.',
      '  execution:\n    validation:\n      - { type: semantic, judge_agent: nobody, criteria: c }\n',
    )
    expect(await refusal('aegis.agent.create', { manifest_yaml: agentYaml('judged', validated) })).toContain(
      "spec.execution.validation[0].judge_agent: there is no agent 'nobody' to judge",
    )
    expect(stage.requests).toEqual([])
    const container = (image: string, more = '') =>
      workflowYaml(
        'box',
        `A: { kind: ContainerRun, name: a, image: "${image}", command: [ls], ${more} transitions: [] }`,
      )
    const warned = await client.call('aegis.workflow.create', { manifest_yaml: container('rust:1.75-alpine') })
    expect(JSON.stringify(warned)).toContain("there is no image 'rust:1.75-alpine' here, and images are not pulled")
    expect(await run(client, 'box')).toMatchObject({
      status: 'failed',
      error: { message: expect.stringContaining("image: there is no image 'rust:1.75-alpine' here") },
    })
    expect(
      await refusal('aegis.workflow.create', {
        manifest_yaml: container('host', 'registry_credentials: "vault:ci/registry",'),
      }),
    ).toContain('secret:ci/registry is not set; add it to executions.secrets')
  })

  test('an Agent state has the score of its own validators, and a virtual machine only where nothing runs', async () => {
    const stage = await setModelStage(({ text }) => ({
      text: text.includes('Judge.') ? '{"score": 0.9, "confidence": 1, "reasoning": "r"}' : 'done',
    }))
    const client = await stage.start()
    await deploy(client, 'judge', task('Judge.'))
    const validation =
      '  execution:\n    validation:\n      - { type: semantic, judge_agent: judge, criteria: c, min_score: 0.7 }\n'
    const vm = '  runtime: { image: castellan/host, model: default, isolation: firecracker }\n'
    const plain = agentYaml('worker', task('Work.', validation))
    const manifest_yaml = plain.replace(/^ {2}runtime:.*$(?:\n {4}.*$)*/m, vm.trimEnd())
    expect(manifest_yaml).toContain('firecracker')
    await ask(client, 'aegis.agent.create', { manifest_yaml })
    const tools = await client.call('aegis.agent.create', {
      manifest_yaml: manifest_yaml.replace('name: worker', 'name: other').concat('  tools: [fs.read]\n'),
    })
    expect(JSON.stringify(tools)).toContain('cannot be firecracker for an agent with files or commands')
    const states = `A: { kind: Agent, agent: worker, input: x, isolation: firecracker, transitions: [{ condition: score_above, threshold: 0.85, target: B }, { condition: always, target: C }] }
B: { kind: System, command: update_blackboard, env: { score: "{{A.score}}" }, transitions: [] }
C: { kind: System, command: update_blackboard, transitions: [] }`
    await ask(client, 'aegis.workflow.create', { manifest_yaml: workflowYaml('graded', states) })
    expect(await run(client, 'graded')).toMatchObject({
      status: 'completed',
      current_state: 'B',
      blackboard: { score: '0.9' },
    })
  })
})
