import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { replay } from '../../../test/support/replayed-workflow.ts'
import { renderTemplate } from '../templating/templates.ts'
import { hasFailed, judgeCondition, type StateResult } from './conditions.ts'
import { applyResult, contextOf, type Finished, type Move, type Position, type Start, startOf } from './interpreter.ts'
import { parseWorkflowManifest } from './manifest.ts'
import type { Condition, WorkflowManifest } from './manifest-schema.ts'

const start: Start = { tenant: 't', intent: 'request', input: { a: 1 }, attachments: [], overrides: {} }

const workflow = (states: string, more = '', head = ''): WorkflowManifest =>
  parseWorkflowManifest(`
apiVersion: 100monkeys.ai/v1
kind: Workflow
metadata: { name: w, version: "1.0.0"${head} }
spec:
  initial_state: A
  ${more}
  states:
${states.replaceAll(/^/gm, '    ')}
`).manifest

const walk = (manifest: WorkflowManifest, results: readonly StateResult[]): Move | Position =>
  replay(
    manifest,
    start,
    results.map((result) => ({ result })),
  )
const ok: StateResult = { status: 'success', exit_code: 0, stdout: '', stderr: '' }
const bad: StateResult = { status: 'failed', exit_code: 1, stdout: '', stderr: 'no' }

const pair = workflow(
  `A: {kind: System, command: x, transitions: [{condition: on_success, target: B}, {condition: on_failure, target: A, feedback: "{{{A.stderr}}} {{status}}"}]}
B: {kind: System, command: y, transitions: []}`,
)

describe('the interpreter', () => {
  it('takes the first transition that matches', () => {
    expect(walk(pair, [ok])).toMatchObject({ state: 'B', entered: 2, feedback: '' })
    const again = walk(pair, [bad]) as Position
    expect(again).toMatchObject({ state: 'A', entered: 2, feedback: 'no failed' })
    expect(renderTemplate('{{state.feedback}}/{{state.visit}}', contextOf(pair, again), { field: 'f' })).toBe(
      'no failed/2',
    )
  })

  it('fails a run that ends in a state that failed, whatever the state is called', () => {
    expect(walk(pair, [ok, ok])).toMatchObject({ kind: 'end', failure: undefined })
    expect(walk(pair, [ok, bad])).toMatchObject({
      kind: 'end',
      output: null,
      failure: { violation: 'WorkflowStateFailed' },
    })
  })

  it('fails, and says so, when nothing matches', () => {
    const gap = workflow('A: {kind: Human, prompt: q, transitions: [{condition: input_equals_yes, target: A}]}')
    expect(walk(gap, [{ status: 'completed', response: 'perhaps', timeout: false }])).toMatchObject({
      failure: { violation: 'WorkflowNoTransitionMatched', message: expect.stringContaining('input_equals_yes') },
    })
  })

  it('keeps to the limits on visits and on transitions', () => {
    const loop = 'A: {kind: System, command: x, max_state_visits: 3, transitions: [{condition: always, target: A}]}'
    expect(walk(workflow(loop), [ok, ok, ok])).toMatchObject({
      failure: { violation: 'WorkflowStateVisitLimitExceeded' },
    })
    expect(walk(workflow(loop), [ok, ok])).toMatchObject({ state: 'A', entered: 3 })
    expect(walk(workflow(loop, 'max_total_transitions: 1'), [ok, ok])).toMatchObject({
      failure: { violation: 'WorkflowTransitionLimitExceeded' },
    })
  })

  it('gives an agent that failed to on_failure', () => {
    const repair = workflow(
      `A: {kind: Agent, agent: a, input: x, transitions: [{condition: on_success, target: B}, {condition: on_failure, target: C}]}
B: {kind: System, command: y, transitions: []}
C: {kind: System, command: z, transitions: []}`,
    )
    expect(walk(repair, [{ status: 'failed', error: 'no model' }])).toMatchObject({ state: 'C' })
  })

  it('renders the output with the types of its schema', () => {
    const typed = workflow(
      'A: {kind: System, command: x, transitions: []}',
      '',
      `, output_template: {n: "{{A.exit_code}}", ok: "{{eq A.exit_code 0}}", list: "{{{json input}}}", text: "{{A.exit_code}}", deep: {n: "7"}}, output_schema: {type: object, properties: {n: {type: integer}, ok: {type: boolean}, list: {type: object}, deep: {type: object, properties: {n: {type: number}}}}}`,
    )
    expect(walk(typed, [ok])).toMatchObject({
      output: { n: 0, ok: true, list: { a: 1 }, text: '0', deep: { n: 7 } },
      violations: [],
    })
    const wrong = workflow(
      'A: {kind: System, command: x, transitions: []}',
      '',
      `, output_template: {n: "{{A.stdout}}"}, output_schema: {type: object, properties: {n: {type: integer}}}`,
    )
    expect(walk(wrong, [ok])).toMatchObject({ output: { n: '' }, violations: [expect.stringContaining('integer')] })
  })

  it('puts what a state left under its name, and a person’s answer under human as well', () => {
    const gate = workflow(
      'A: {kind: Human, prompt: q, transitions: [{condition: always, target: B}]}\nB: {kind: System, command: x, transitions: []}',
    )
    const at = walk(gate, [{ status: 'completed', response: 'no', feedback: 'shorter', timeout: false }]) as Position
    expect(
      renderTemplate('{{A.response}} {{human.feedback}} {{blackboard.A.feedback}}', contextOf(gate, at), {
        field: 'f',
      }),
    ).toBe('no shorter shorter')
  })

  it.each([
    ['expression', 'condition: custom, expression: "A.judges.all(x, A.judges.all(y, x != y || x == y))"'],
    ['feedback', 'condition: always, feedback: "{{#each A.judges}}{{length (json ../A.judges)}}{{/each}}"'],
  ])('fails where its %s asks for too much work, and says where', (field, text) => {
    const manifest =
      workflow(`A: {kind: Agent, agent: a, input: x, transitions: [{${text}, target: B}, {condition: always, target: B}]}
B: {kind: System, command: y, transitions: []}`)
    const judges = Array.from({ length: 20_000 }, (_, index) => `row ${index}`)
    const once = walk(manifest, [{ ...ok, judges }])
    const at = `spec.states.A.transitions[0].${field}`
    expect(once).toMatchObject({
      kind: 'end',
      failure: {
        violation: 'TemplateFailed',
        details: { state: 'A', field: at },
        message: expect.stringContaining(at),
      },
    })
    expect(walk(manifest, [{ ...ok, judges }])).toEqual(once)
    expect(walk(manifest, [{ ...ok, judges: ['one'] }])).toMatchObject({ state: 'B' })
  })

  it('refuses a blackboard without end', () => {
    expect(walk(pair, [{ ...ok, stdout: 'x'.repeat(5_000_000) }])).toMatchObject({
      failure: { violation: 'BlackboardTooLarge' },
    })
  })
})

const share = fc.double({ min: 0, max: 1, noNaN: true })
const result = fc.record(
  {
    status: fc.constantFrom('success', 'completed', 'failed', 'error'),
    exit_code: fc.integer({ min: 0, max: 3 }),
    score: share,
    response: fc.constantFrom('yes', 'no', ' Yes', 'perhaps', ''),
    output: fc.oneof(fc.string(), fc.record({ score: share, valid: fc.boolean() })),
    timeout: fc.boolean(),
  },
  { requiredKeys: [] },
) as fc.Arbitrary<StateResult>
const holds = (condition: Condition, value: StateResult) =>
  judgeCondition(condition, value, { ...value }, { field: 'f' }).holds

describe('conditions', () => {
  it('leave no score between above and below at one threshold', () => {
    fc.assert(
      fc.property(share, share, (score, threshold) => {
        const above = holds({ type: 'score_above', threshold }, { score })
        const below = holds({ type: 'score_below', threshold }, { score })
        expect(above).toBe(!below)
      }),
    )
    expect(holds({ type: 'score_above', threshold: 0.8 }, { score: 0.8 })).toBe(true)
    expect(holds({ type: 'score_between', min: 0.8, max: 0.9 }, { score: 0.8 })).toBe(true)
    expect(
      holds({ type: 'consensus', threshold: 0.8, agreement: 0 }, { consensus: { score: 0.8, confidence: 0 } }),
    ).toBe(true)
  })

  it('are success or failure, never both and never neither', () => {
    fc.assert(
      fc.property(result, (value) => holds({ type: 'on_success' }, value) !== holds({ type: 'on_failure' }, value)),
    )
    fc.assert(fc.property(result, (value) => holds({ type: 'on_failure' }, value) === hasFailed(value)))
  })

  it('ask for a score only where there is one', () => {
    for (const type of ['score_above', 'score_below'] as const) expect(holds({ type, threshold: 0 }, ok)).toBe(false)
  })

  it('go by what was agreed or judged, not by what one agent says of itself', () => {
    const boast = { output: { score: 1, confidence: 1 } }
    const agreed: StateResult = { ...boast, consensus: { score: 0.5, confidence: 0.4 } }
    const judged: StateResult = { ...boast, score: 0.5, confidence: 0.4, judges: [{ judge: 'j', score: 0.5 }] }
    for (const value of [agreed, judged]) {
      expect(holds({ type: 'score_above', threshold: 0.8 }, value)).toBe(false)
      expect(holds({ type: 'score_below', threshold: 0.8 }, value)).toBe(true)
      expect(holds({ type: 'confidence_above', threshold: 0.8 }, value)).toBe(false)
    }
    expect(holds({ type: 'score_above', threshold: 0.8 }, boast)).toBe(true)
  })

  it('read answers as people write them', () => {
    for (const response of [' Yes', 'y', 'APPROVED', '1'])
      expect(holds({ type: 'input_equals_yes' }, { response })).toBe(true)
    for (const response of ['no ', 'Rejected', '0']) expect(holds({ type: 'input_equals_no' }, { response })).toBe(true)
    expect(holds({ type: 'input_equals', value: 'blue' }, { response: 'blue\n' })).toBe(true)
  })
})

/** Workflows of three states with any transitions between them. */
const anyWorkflow = fc
  .array(
    fc.array(
      fc.record({
        condition: fc.constantFrom(
          'always',
          'on_success',
          'on_failure',
          'exit_code_zero',
          'input_equals_yes',
          'timeout',
        ),
        target: fc.constantFrom('A', 'B', 'C'),
      }),
      { maxLength: 4 },
    ),
    { minLength: 3, maxLength: 3 },
  )
  .map((lists) =>
    workflow(
      lists
        .map((list, index) => `${'ABC'[index]}: {kind: System, command: x, transitions: ${JSON.stringify(list)}}`)
        .join('\n'),
      'max_total_transitions: 12',
    ),
  )

describe('any workflow', () => {
  it('ends within its limits, and is decided by what is recorded alone', () => {
    fc.assert(
      fc.property(anyWorkflow, fc.infiniteStream(result), (manifest, stream) => {
        const results: Finished[] = []
        let position = startOf(manifest, start)
        let move: Move
        for (;;) {
          const next: Finished = { result: stream.next().value! }
          results.push(next)
          move = applyResult(manifest, position, next)
          if (move.kind === 'end') break
          expect(manifest.states.has(move.position.state)).toBe(true)
          expect(move.position.entered).toBe(position.entered + 1)
          position = move.position
        }
        expect(results.length).toBeLessThanOrEqual(13)
        expect(replay(manifest, start, results)).toEqual(move)
        for (let count = 0; count < results.length; count++) {
          expect(replay(manifest, start, results.slice(0, count))).toMatchObject({ entered: count + 1 })
        }
      }),
      { numRuns: 200 },
    )
  })
})
