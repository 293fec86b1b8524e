import { tenantId } from '../../contract/principal.ts'
import { readStoredManifest } from './manifest.ts'
import type { WorkflowVersion } from './ports.ts'

/** Workflows that ship with the program. Every caller may run them, and none may change them. */
const texts: readonly (readonly [string, string])[] = [
  [
    '6b1d4c0e-6a1e-4c55-9d0a-5f0c6f1a0001',
    `apiVersion: 100monkeys.ai/v1
kind: Workflow
metadata:
  name: platform-approval-gate
  version: "1.0.0"
  description: Asks a person to approve something and ends as approved or rejected. Give input.question; use it as a sub-workflow in front of anything that cannot be undone.
  labels: { platform: "true", kind: approval }
  input_schema:
    type: object
    required: [question]
    properties: { question: { type: string, minLength: 1 } }
  output_schema: { type: object, properties: { approved: { type: boolean }, response: { type: string } } }
  output_template: { approved: "{{blackboard.approved}}", response: "{{{ASK.response}}}" }
spec:
  initial_state: ASK
  states:
    ASK:
      kind: Human
      prompt: "{{{input.question}}} Answer yes or no."
      timeout: 168h
      default_response: "no"
      transitions:
        - { condition: input_equals_yes, target: APPROVED }
        - { condition: always, target: REJECTED }
    APPROVED: { kind: System, command: update_blackboard, env: { approved: "true" }, transitions: [] }
    REJECTED: { kind: System, command: update_blackboard, env: { approved: "false" }, transitions: [] }
`,
  ],
  [
    '6b1d4c0e-6a1e-4c55-9d0a-5f0c6f1a0002',
    `apiVersion: 100monkeys.ai/v1
kind: Workflow
metadata:
  name: platform-write-and-review
  version: "1.0.0"
  description: One agent does a task, another judges it, and the first tries again with the judge's reasons until the score is 0.8 or three rounds have passed. Give input.worker, input.judge and input.task.
  labels: { platform: "true", kind: refinement }
  input_schema:
    type: object
    required: [worker, judge, task]
    properties: { worker: { type: string }, judge: { type: string }, task: { type: string } }
  output_template: { result: "{{{WRITE.output}}}", score: "{{REVIEW.output.score}}" }
  output_schema: { type: object, properties: { score: { type: number } } }
spec:
  initial_state: WRITE
  states:
    WRITE:
      kind: Agent
      agent: "{{input.worker}}"
      max_state_visits: 3
      input: |
        {{{input.task}}}
        {{#if state.feedback}}An earlier attempt was judged: {{{state.feedback}}}{{/if}}
      transitions:
        - { condition: on_success, target: REVIEW }
        - { condition: on_failure, target: GIVE_UP }
    REVIEW:
      kind: Agent
      agent: "{{input.judge}}"
      input: 'Task: {{{input.task}}} Result: {{{WRITE.output}}} Answer with JSON: {"score": 0 to 1, "confidence": 0 to 1, "reasoning": "..."}'
      transitions:
        - { condition: score_above, threshold: 0.8, target: DONE }
        - { condition: score_below, threshold: 0.8, target: WRITE, feedback: "{{{output.reasoning}}}" }
        - { condition: always, target: GIVE_UP }
    DONE: { kind: System, command: update_blackboard, transitions: [] }
    GIVE_UP: { kind: System, command: "echo the task was not done >&2; exit 1", transitions: [] }
`,
  ],
]

let shipped: readonly WorkflowVersion[] | undefined

export function platformWorkflows(): readonly WorkflowVersion[] {
  shipped ??= texts.map(([id, manifestText]) => {
    const { manifest } = readStoredManifest(manifestText)
    return {
      tenant: tenantId('castellan'),
      id,
      scope: 'global',
      owner: '',
      name: manifest.name,
      version: manifest.version,
      description: manifest.description,
      labels: manifest.labels,
      initialState: manifest.initialState,
      manifestText,
      createdAtMs: 0,
      createdBy: 'castellan',
      changedAtMs: 0,
    }
  })
  return shipped
}

export const isPlatform = ({ createdBy, createdAtMs }: WorkflowVersion): boolean =>
  createdBy === 'castellan' && createdAtMs === 0
