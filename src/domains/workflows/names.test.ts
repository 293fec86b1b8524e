import { describe, expect, it } from 'vitest'
import { replay } from '../../../test/support/replayed-workflow.ts'
import type { JsonObject } from '../../kernel/canonical-json.ts'
import type { Move, Position, Start } from './interpreter.ts'
import { checkWorkflowManifest, readStoredManifest } from './manifest.ts'

const manifest = (states: string, { head = '', spec = '' } = {}): string => `
apiVersion: 100monkeys.ai/v1
kind: Workflow
metadata: { name: w, version: "1.0.0"${head} }
spec:
  initial_state: BUILD
  ${spec}
  states:
${states.replaceAll(/^/gm, '    ')}
`
/** A command, an agent, a person and a terminal state, with one text of the agent to test. */
const chain = (text: string, more: Readonly<{ head?: string; spec?: string }> = {}): string =>
  manifest(
    `BUILD: {kind: System, command: make, transitions: [{condition: always, target: WRITE}]}
WRITE: {kind: Agent, agent: a, input: ${JSON.stringify(text)}, transitions: [{condition: always, target: ASK}]}
ASK: {kind: Human, prompt: ok, transitions: [{condition: always, target: SET}]}
SET: {kind: System, command: update_blackboard, env: {ROUND: "{{blackboard.ROUND + 1}}"}, transitions: [{condition: always, target: WRITE}, {condition: on_failure, target: END}]}
END: {kind: System, command: ls, transitions: []}`,
    more,
  )
const errorsOf = (text: string) => checkWorkflowManifest(text).errors
const warningsOf = (text: string) => checkWorkflowManifest(text).warnings.join('\n')
const schema = (more = '') =>
  `, input_schema: {type: object${more}, properties: {task: {type: string}, size: {type: object, properties: {x: {type: number}}}}}`

describe('names of texts, when a workflow is registered', () => {
  it.each([
    '{{input.anything.below}} {{workflow.task}} {{workflow.name}} {{workflow.version}} {{intent}} {{tenant_id}}',
    '{{BUILD.stdout}} {{BUILD.output.stdout}} {{blackboard.BUILD.output.exit_code}} {{BUILD.error}}',
    '{{#if state.feedback}}{{state.feedback}}{{/if}} {{state.visit}} {{state.name}}',
    '{{#if ASK}}{{ASK.response}} {{human.feedback}}{{/if}} {{#if blackboard.END}}x{{/if}}',
    '{{#each input.rows}}{{id}} {{@index}} {{../input.x}} {{@root.BUILD.stdout}}{{/each}}',
    '{{#each input.rows as |row|}}{{row.id}}{{/each}} {{#with input}}{{deep}}{{/with}}',
    '{{blackboard.ROUND}} {{ROUND}} {{default ROUND 1}} {{ROUND + 1}}',
    '{{WRITE.output.anything}} {{WRITE.score}}',
    '{{blackboard.given_at_the_start}}',
  ])('are known: %s', (text) => {
    expect(errorsOf(chain(text))).toEqual([])
  })

  it.each([
    ['{{inptu.task}}', "{{inptu.task}}: there is no name 'inptu' here; did you mean input?"],
    ['{{task}}', "{{task}}: there is no name 'task' here; did you mean ASK? A field of the input is input.task, and"],
    ['{{#if BULD.stdout}}x{{/if}}', "there is no name 'BULD' here; did you mean BUILD?"],
    ['{{BUILD.stdot}}', "{{BUILD.stdot}}: BUILD has no 'stdot'; did you mean BUILD.stdout?"],
    ['{{BUILD.output.sdterr}}', "BUILD.output has no 'sdterr'; did you mean BUILD.output.stderr?"],
    ['{{BUILD.stdout.first}}', 'BUILD.stdout has no members'],
    ['{{blackboard.round}}', "blackboard has no 'round'; did you mean blackboard.ROUND?"],
    ['{{state.feedbak}}', "state has no 'feedbak'; did you mean state.feedback?"],
    ['{{END.stdout}}', 'the state END never runs before WRITE'],
    ['{{upper (default x.y "")}}', "there is no name 'x' here"],
    ['{{output}}', "there is no name 'output' here"],
  ])('are refused by name: %s', (text, error) => {
    expect(errorsOf(chain(text)).join('\n')).toContain(`spec.states.WRITE.input: `)
    expect(errorsOf(chain(text)).join('\n')).toContain(error)
  })

  it('are those of a schema that lists them, unless it says that there are more', () => {
    const text = '{{input.tsak}} {{workflow.tsak}} {{input.size.y}}'
    expect(errorsOf(chain(text, { head: schema() }))).toEqual([
      "spec.states.WRITE.input: {{input.tsak}}: input has no 'tsak'; did you mean input.task?",
      "spec.states.WRITE.input: {{workflow.tsak}}: workflow has no 'tsak'; did you mean workflow.task?",
      "spec.states.WRITE.input: {{input.size.y}}: input.size has no 'y'; it has x",
    ])
    const open = ', additionalProperties: true'
    expect(errorsOf(chain('{{input.tsak}} {{workflow.tsak}}', { head: schema(open) }))).toEqual([])
    expect(errorsOf(chain('{{input.task}} {{workflow.task}} {{input.size.x}}', { head: schema() }))).toEqual([])
    expect(warningsOf(chain('{{blackboard.colour}}'))).toContain(
      'spec.states.WRITE.input: {{blackboard.colour}}: nothing in this manifest writes blackboard.colour',
    )
  })

  const leaving = (transition: string) =>
    manifest(`BUILD: {kind: System, command: make, transitions: [{${transition}, target: END}, {condition: always, target: END}]}
END: {kind: System, command: ls, transitions: []}`)

  it.each([
    'condition: custom, expression: "state_output.output.exit_code == 0"',
    'condition: custom, expression: "result.exit_code == 0 && status == \'success\'"',
    'condition: custom, expression: "has(input.list) && input.list.exists(item, item.id > BUILD.exit_code)"',
    'condition: custom, expression: "type(status) == string"',
    'condition: always, feedback: "{{BUILD.output.stderr}} {{output.stdout}} {{state.exit_code}} {{status}}"',
  ])('are known where a state is left: %s', (transition) => {
    expect(errorsOf(leaving(transition))).toEqual([])
  })

  it.each([
    [
      'condition: custom, expression: "state_outptu.output.valid"',
      "there is no name 'state_outptu' here; did you mean",
    ],
    ['condition: custom, expression: "score > 0.8"', "there is no name 'score' here"],
    ['condition: custom, expression: "input.list.exists(item, itme.id > 1)"', "there is no name 'itme' here"],
    ['condition: custom, expression: "has(BUILD.sdtout)"', 'did you mean BUILD.stdout?'],
    ['condition: always, feedback: "{{BUILD.outptu}}"', "BUILD has no 'outptu'; did you mean BUILD.output?"],
  ])('are refused by name there: %s', (transition, error) => {
    expect(errorsOf(leaving(transition)).join('\n')).toContain(error)
    expect(errorsOf(leaving(transition)).join('\n')).toContain('spec.states.BUILD.transitions[0].')
  })

  it('are no reason to give up what is registered already', () => {
    expect(readStoredManifest(chain('{{inptu.task}}')).manifest.name).toBe('w')
  })
})

describe('names without a value, in a run', () => {
  const start: Start = {
    tenant: 't',
    intent: null,
    input: { task: 'x' },
    attachments: [],
    overrides: {},
    names: 'strict',
  }
  const leave = (states: string, result: JsonObject, more = {}, begin = start): Move | Position =>
    replay(readStoredManifest(manifest(states, more)).manifest, begin, [{ result }])
  const agent = (transition: string) =>
    `BUILD: {kind: Agent, agent: a, input: x, transitions: [{${transition}, target: END}, {condition: always, target: LAST}]}
END: {kind: System, command: ls, transitions: []}
LAST: {kind: System, command: ls, transitions: []}`

  it('fail an expression by name, unless the state failed or the expression asks first', () => {
    const states = agent('condition: custom, expression: "state_output.output.valid"')
    expect(leave(states, { status: 'completed', output: { valid: true } })).toMatchObject({ state: 'END' })
    expect(leave(states, { status: 'completed', output: { valid: false } })).toMatchObject({ state: 'LAST' })
    expect(leave(states, { status: 'failed', output: null })).toMatchObject({ state: 'LAST' })
    expect(leave(states, { status: 'completed', output: { vaild: true } })).toMatchObject({
      kind: 'end',
      failure: {
        violation: 'TemplateFailed',
        message: expect.stringContaining(
          'spec.states.BUILD.transitions[0].expression: there is no state_output.output.valid in the result of the state',
        ),
        details: { name: 'state_output.output.valid' },
      },
    })
    const cel = agent('condition: custom, expression: "output.marks > 3"')
    expect(leave(cel, { status: 'completed', output: {} })).toMatchObject({
      failure: { message: expect.stringContaining('there is no output.marks') },
    })
    const asking = agent('condition: custom, expression: "has(output.marks) && output.marks > 3"')
    expect(leave(asking, { status: 'completed', output: {} })).toMatchObject({ state: 'LAST' })
  })

  it('fail a text by name, and one that may be without value is empty', () => {
    const said = (feedback: string, result: JsonObject = { status: 'completed', output: { a: 1 } }) =>
      leave(agent(`condition: always, feedback: "${feedback}"`), result)
    expect(said('{{output.b}}')).toMatchObject({
      failure: { message: expect.stringContaining("{{output.b}} has no value: output has no 'b'") },
    })
    expect(said('{{input.tsak}}')).toMatchObject({
      failure: { message: expect.stringContaining('did you mean input.task?') },
    })
    expect(said('{{blackboard.task}}')).toMatchObject({
      failure: { message: expect.stringContaining('the input has it as input.task') },
    })
    expect(said('{{BUILD.score}}')).toMatchObject({
      failure: { message: expect.stringContaining('no judge gave a score') },
    })
    expect(said('{{workflow.task}}{{BUILD.error}}{{#if output.b}}b{{/if}}{{default output.b 2}}')).toMatchObject({
      state: 'END',
      feedback: 'x2',
    })
  })

  it('are empty for inputs that a schema declares, and in runs of earlier programs', () => {
    const states = agent('condition: always, feedback: "[{{input.note}}]"')
    const head = ', input_schema: {type: object, properties: {task: {type: string}, note: {type: string}}}'
    const result = { status: 'completed', output: '' }
    expect(leave(states, result, { head })).toMatchObject({ feedback: '[]' })
    const { names: _, ...earlier } = start
    expect(leave(states, result, {}, earlier)).toMatchObject({ feedback: '[]' })
  })

  it('are null in the output of a run, which says so', () => {
    const states = `BUILD: {kind: System, command: ls, transitions: []}
OTHER: {kind: System, command: ls, transitions: []}`
    const head = ', output_template: {text: "{{OTHER.stdout}}", own: "{{BUILD.output.stdout}}"}'
    expect(leave(states, { status: 'success', exit_code: 0, stdout: 'made', stderr: '' }, { head })).toMatchObject({
      kind: 'end',
      failure: undefined,
      output: { text: null, own: 'made' },
      violations: [expect.stringContaining('{{OTHER.stdout}} has no value: nothing that sets OTHER')],
    })
  })

  it('keep numbers, and yes and no, in the output of a run, unless a schema wants text', () => {
    const states = 'BUILD: {kind: System, command: ls, transitions: []}'
    const template =
      '{code: "{{BUILD.exit_code}}", is: "{{eq BUILD.exit_code 4}}", sum: "{{BUILD.exit_code + 1}}", in: "code {{BUILD.exit_code}}", said: "{{BUILD.stdout}}", text: "{{BUILD.exit_code}}", deep: ["{{BUILD.exit_code}}"]}'
    const head = `, output_template: ${template}, output_schema: {type: object, properties: {text: {type: string}}}`
    expect(leave(states, { status: 'success', exit_code: 4, stdout: '7' }, { head })).toMatchObject({
      output: { code: 4, is: true, sum: 5, in: 'code 4', said: '7', text: '4', deep: [4] },
    })
  })

  it('end a run where transitions lead on from failures alone and the state succeeds', () => {
    const states = `BUILD: {kind: System, command: ls, transitions: [{condition: exit_code_non_zero, target: END}]}
END: {kind: System, command: ls, transitions: []}`
    expect(leave(states, { status: 'success', exit_code: 0 })).toMatchObject({ kind: 'end', failure: undefined })
    expect(leave(states, { status: 'failed', exit_code: 2 })).toMatchObject({ state: 'END' })
  })
})
