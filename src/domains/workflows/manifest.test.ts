import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { releaseNotes } from '../../../test/support/release-notes-workflow.ts'
import { checkWorkflowManifest, parseWorkflowManifest } from './manifest.ts'
import { workflowManifestJsonSchema } from './manifest-schema.ts'

const wrap = (states: string, more = ''): string => `
apiVersion: 100monkeys.ai/v1
kind: Workflow
metadata: { name: w, version: "1.0.0" }
spec:
  initial_state: A
${more}
  states:
${states
  .trim()
  .split('\n')
  .map((line) => `    ${line}`)
  .join('\n')}
`
const one = (state: string): string => wrap(`A: ${state}`)
const errorsOf = (text: string) => checkWorkflowManifest(text).errors
const warningsOf = (text: string) => {
  const { errors, warnings } = checkWorkflowManifest(text)
  expect(errors).toEqual([])
  return warnings
}

describe('a workflow manifest', () => {
  it('has one bound for both of its schemas', () => {
    const properties = Object.fromEntries(Array.from({ length: 800 }, (_, index) => [`p${index}`, { minLength: 1 }]))
    const schema = JSON.stringify({ properties })
    const text = one('{ kind: System, command: "true", transitions: [] }')
    const withSchemas = (...names: string[]) =>
      text.replace('name: w,', `name: w, ${names.map((name) => `${name}: ${schema},`).join(' ')}`)
    expect(errorsOf(withSchemas('input_schema'))).toEqual([])
    expect(errorsOf(withSchemas('input_schema', 'output_schema'))).toEqual([
      expect.stringMatching(/^metadata\.output_schema: is not a JSON Schema: .* at most 3000 values in all/),
    ])
  })

  it('is read with every default filled in', () => {
    const { manifest, warnings } = parseWorkflowManifest(releaseNotes)
    expect(warnings).toEqual([
      'spec.states.CHECK.run_as_user: commands in a workspace have no capabilities and no rights outside it; inside they appear as user 0',
    ])
    expect(manifest).toMatchObject({ name: 'release-notes', version: '1.2.0', maxTotalTransitions: 30 })
    expect([...manifest.states.keys()]).toEqual(['SEED', 'DRAFT', 'CHECK', 'REVIEW', 'GATE', 'PUBLISH', 'GIVE_UP'])
    expect(manifest.states.get('DRAFT')).toMatchObject({
      kind: 'Agent',
      maxVisits: 3,
      timeoutMs: 900_000,
      maxIterations: 10,
    })
    expect(manifest.states.get('CHECK')).toMatchObject({
      step: {
        network: 'none',
        readOnlyRoot: true,
        resources: { cpuMillis: 250, memoryMb: 128, timeoutMs: 30_000 },
        volumes: [{ name: 'workspace', mountPath: '/workspace', readOnly: true }],
      },
      retry: { maxAttempts: 0, backoffMs: 0 },
    })
    expect(manifest.states.get('REVIEW')).toMatchObject({
      consensus: { minJudgesRequired: 2, confidenceWeighting: { agreementFactor: 0.7, selfConfidenceFactor: 0.3 } },
    })
  })

  it('conforms to the published schema, and the schema notices what does not', () => {
    const conforms = new Ajv2020({ strict: false }).compile(workflowManifestJsonSchema())
    expect(conforms(parse(releaseNotes))).toBe(true)
    expect(conforms(parse(releaseNotes.replace('kind: Human', 'kind: Person')))).toBe(false)
    expect(conforms({ kind: 'Workflow' })).toBe(false)
  })

  it.each([
    '{type: agent, agent_id: a, input_template: "{{output}}", timeout_seconds: 5, required: true}',
    '{type: mcp_tool, tool_name: t, arguments: {a: 1}}',
    '{type: webhook, url: "https://a.b/", method: PUT, headers: {x-a: "secret:n"}, body_template: "{{output}}", retry: 2}',
    '{type: container, image: a/b, command: [x], env: {A: "{{output}}"}, resources: {cpu: 500, memory: 64Mi, disk: 1g, timeout: 5s}}',
  ])('has the output handler %s by its schema and by its parser', (handler) => {
    const text = one(`{kind: Agent, agent: a, input: x, output_handler: ${handler}, transitions: []}`)
    expect(warningsOf(text)).toEqual([])
    const conforms = new Ajv2020({ strict: false }).compile(workflowManifestJsonSchema())
    expect(conforms(parse(text)), JSON.stringify(conforms.errors)).toBe(true)
    expect(conforms(parse(text.replace(/type: (agent|mcp_tool|webhook|container)/, 'type: mail')))).toBe(false)
  })

  it('refuses what is no workflow, and says all that is wrong at once', () => {
    expect(errorsOf('a: [1')[0]).toContain('not valid YAML')
    expect(errorsOf('apiVersion: v2\nkind: Agent\nspec: {}').length).toBeGreaterThan(3)
    expect(errorsOf(releaseNotes.replace(/^spec:/m, 'spce:'))).toEqual([
      "spec: is required; 'spce' is not a field: did you mean spec?",
    ])
    expect(errorsOf(releaseNotes.replace('kind: Workflow', 'kind: Worfklow'))[0]).not.toContain('did you mean')
    expect(errorsOf(releaseNotes.replace('initial_state: SEED', 'initial_state: SEEDS'))[0]).toContain(
      'did you mean SEED?',
    )
    expect(errorsOf(releaseNotes.replace('name: release-notes', 'name: Release_Notes'))[0]).toContain('metadata.name')
    expect(errorsOf(releaseNotes.replace('type: object', 'type: objekt'))[0]).toContain('is not a JSON Schema')
    expect(errorsOf(releaseNotes.replace('{ name: workspace, mount_path', '{ name: other, mount_path'))[0]).toContain(
      'shared_volumes',
    )
    expect(() => parseWorkflowManifest('x')).toThrow(expect.objectContaining({ code: 'ERR_MANIFEST_INVALID' }))
  })

  it('does not let aliases multiply, nor take names that are not names', () => {
    const nine = (name: string) => `[${Array.from({ length: 9 }, () => `*${name}`).join(',')}]`
    const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\nb: &b ${nine('a')}\nc: &c ${nine('b')}\nd: &d ${nine('c')}\ne: ${nine('d')}`
    expect(errorsOf(bomb)[0]).toContain('aliases')
    expect(errorsOf(wrap('__proto__: {kind: System, command: ls, transitions: []}'))[0]).toContain('__proto__')
    expect(errorsOf(wrap('input: {kind: System, command: ls, transitions: []}')).join()).toContain(
      'not a name for a state',
    )
  })

  it('reads versions that are clear, and refuses those that are not', () => {
    const withVersion = (version: string) => checkWorkflowManifest(releaseNotes.replace('"1.2.0"', version))
    expect(withVersion('1.2').manifest?.version).toBe('1.2.0')
    expect(withVersion('v2').manifest?.version).toBe('2.0.0')
    expect(withVersion('soon').errors[0]).toContain('metadata.version')
  })
})

const clear: readonly [string, string][] = [
  [
    'A: {kind: System, command: ls, transitions: [{target: B}]}\nB: {kind: System, command: ls, transitions: []}',
    'condition: is absent and read as always',
  ],
  [
    'A: {kind: Human, prompt: ok, transitions: [{condition: approved, target: A}, {condition: always, target: B}]}\nB: {kind: System, command: ls, transitions: []}',
    'approved is an old spelling; write input_equals_yes',
  ],
  [
    'A: {kind: Human, prompt: ok, transitions: [{condition: timeout, target: B}, {condition: always, target: B}]}\nB: {kind: System, command: ls, transitions: []}',
    'timeout is an extension of this server',
  ],
  ['A: {kind: Agent, agent: a, transitions: []}', 'input: is absent'],
  ['A: {kind: Agent, agent: a, input: x, volumes: [{name: v}], transitions: []}', 'volumes: is ignored'],
  ['A: {kind: Agent, agent_id: a, input: x, transitions: []}', 'agent_id: is an old spelling; write agent'],
  ['A: {kind: agent, agent: a, input: x, transitions: []}', 'kind: is an old spelling; write Agent'],
  ['A: {kind: System, command: ls}', 'transitions: is absent, so the run ends here'],
  ['A: {kind: System, command: ls, colour: red, transitions: []}', 'colour: is not a field here and is ignored'],
  [
    'A: {kind: System, command: ls, maxStateVisits: 3, transitions: []}',
    'maxStateVisits: is an old spelling; write max_state_visits',
  ],
  [
    'A: {kind: System, command: ls, transitions: []}\nB: {kind: System, command: ls, transitions: []}',
    'B: is never reached',
  ],
  ['A: {kind: System, command: ls, transitions: [{condition: always, target: A}]}', 'no transition leads out of A'],
  [
    'A: {kind: System, command: ls, transitions: [{condition: on_success, target: B}]}\nB: {kind: System, command: ls, transitions: []}',
    'a result that matches none of these fails the run',
  ],
  [
    'A: {kind: Human, prompt: q, transitions: [{condition: on_failure, target: B}]}\nB: {kind: System, command: ls, transitions: []}',
    'no answer leads to another state',
  ],
  [
    'A: {kind: Agent, agent: a, input: x, transitions: [{condition: score_above, threshold: 0.8, target: B}, {condition: score_between, min: 0.3, max: 0.6, target: B}, {condition: score_below, threshold: 0.5, target: B}, {condition: on_failure, target: B}]}\nB: {kind: System, command: ls, transitions: []}',
    'a score from 0.6 to 0.8 matches none of these',
  ],
  ['A: {kind: System, command: update_blackboard, env: {state: x}, transitions: []}', 'env.state: hides the state'],
  [
    'A: {kind: Subworkflow, workflow_id: x, mode: blocking, result_key: state, transitions: []}',
    'result_key: hides the state',
  ],
  [
    'A: {kind: System, command: ls, transitions: [{condition: always, target: state}]}\nstate: {kind: System, command: ls, transitions: []}',
    'state: hides the state',
  ],
  [
    'A: {kind: ContainerRun, image: i/x, command: "ls -l", transitions: []}',
    'command: is a string and is run by a shell',
  ],
  ['A: {kind: Subworkflow, workflow_id: x, result_key: r, transitions: []}', 'mode: is absent; blocking'],
  [
    'A: {kind: Human, prompt: ok, transitions: [{condition: "{{response}}", target: B}, {condition: always, target: B}]}\nB: {kind: System, command: ls, transitions: []}',
    'a template is read as condition: custom',
  ],
]

const impossible: readonly [string, string][] = [
  [
    '{kind: System, command: ls, network: none, transitions: []}',
    'network: has no effect here, and ignoring it would remove a restriction',
  ],
  ['{kind: Agent, agent: a, tools: [fs.read], transitions: []}', 'set tools in the manifest of the agent'],
  ['{kind: System, command: ls, judges: [{agent_id: j}], transitions: []}', 'set judges in an Agent'],
  ['{kind: System, command: ls, transitions: [{condition: always, target: C}]}', "there is no state 'C'"],
  ['{kind: Sistem, command: ls, transitions: []}', 'did you mean System?'],
  ['{kind: ContainerStep, image: x, command: [ls], transitions: []}', 'did you mean ContainerRun?'],
  ['{kind: System, transitions: []}', 'command: is required'],
  ['{kind: System, command: repository_commit, transitions: []}', 'repository_commit is not supported here'],
  ['{kind: System, command: update_blackboard, env: {input: x}, transitions: []}', 'env.input: cannot be written'],
  ['{kind: System, command: "echo {{#if}}", transitions: []}', 'command: is not a template'],
  ['{kind: System, command: "echo {{a +}}", transitions: []}', 'command: is not a template'],
  ['{kind: System, command: "echo {{a + b}}", transitions: []}', "{{a}}: there is no name 'a' here"],
  ['{kind: Human, prompt: "{{> secret}}", transitions: []}', 'partials ({{> name}})'],
  ['{kind: ContainerRun, image: x/y, command: [], transitions: []}', 'command: must be a list of at least one word'],
  ['{kind: ContainerRun, image: x/y, command: [ls], network_mode: host, transitions: []}', 'network_mode'],
  [
    '{kind: ContainerRun, image: x/y, command: [ls], registry_credentials: {}, transitions: []}',
    'registry_credentials',
  ],
  [
    '{kind: ContainerRun, image: x/y, command: [ls], volumes: [{name: v, mount_path: data}], transitions: []}',
    'mount_path',
  ],
  ['{kind: ContainerRun, image: x/y, command: [ls], resources: {memory: much}, transitions: []}', 'memory'],
  ['{kind: ParallelContainerRun, steps: [], transitions: []}', 'steps'],
  [
    '{kind: ParallelContainerRun, steps: [{name: a, image: x/y, command: [ls]}, {name: a, image: x/y, command: [ls]}], transitions: []}',
    'two steps are named',
  ],
  ['{kind: Subworkflow, workflow_id: x, mode: blocking, transitions: []}', 'result_key: is required'],
  [
    '{kind: Subworkflow, workflow_id: x, mode: fire_and_forget, result_key: r, transitions: []}',
    'result_key: must not be set',
  ],
  [
    '{kind: Agent, agent: a, input: x, pre_execution_validator: {}, transitions: []}',
    'pre_execution_validator: must be',
  ],
  [
    '{kind: Agent, agent: a, input: x, pre_execution_validator: "{{input.guard}}", transitions: []}',
    'pre_execution_validator: cannot be a template',
  ],
  [
    '{kind: Agent, agent: a, input: x, output_handler: {type: webhook, url: "https://a.b/", headers: {authorization: "Bearer {{ secret:t }}"}}, transitions: []}',
    'output_handler.headers.authorization: must be secret:NAME alone',
  ],
  [
    '{kind: Agent, agent: a, input: x, output_handler: {type: webhook, url: x}, transitions: []}',
    'output_handler.url: must be an address',
  ],
  [
    '{kind: Agent, agent: a, input: x, output_handler: {type: webhook, url: "https://{{output}}/"}, transitions: []}',
    'output_handler.url: cannot be a template',
  ],
  [
    '{kind: Agent, agent: a, input: x, output_handler: {type: webhook, url: "https://a.b/", headers: {"a b": x}}, transitions: []}',
    'output_handler.headers.a b: is not the name',
  ],
  [
    '{kind: Agent, agent: a, input: x, output_handler: {type: webhook, url: "https://a.b/", body_template: "{{#if"}, transitions: []}',
    'output_handler.body_template: is not a template',
  ],
  [
    '{kind: Agent, agent: a, input: x, output_handler: {type: container, image: a/b}, transitions: []}',
    'output_handler.command: is required; it must be a list of at least one word',
  ],
  [
    '{kind: Agent, agent: a, input: x, output_handler: {type: container, image: a/b, command: [x], resources: {disk: much}}, transitions: []}',
    'output_handler.resources.disk: must be a size',
  ],
  [
    '{kind: Agent, agent: a, input: x, output_handler: {type: mail}, transitions: []}',
    'output_handler.type: must be one of agent, webhook, container, mcp_tool',
  ],
  [
    '{kind: ParallelAgents, agents: [{agent: a, input: x}], consensus: {strategy: majority, min_judges_required: 2}, transitions: []}',
    'min_judges_required',
  ],
  [
    '{kind: ParallelAgents, agents: [{agent: a, input: x}], consensus: {strategy: majority, confidence_weighting: {agreement_factor: 0.9}}, transitions: []}',
    'add up to 1',
  ],
  ['{kind: System, command: ls, timeout: soon, transitions: []}', 'timeout: must be a duration'],
  ['{kind: System, command: ls, timeout: 48h, transitions: []}', 'timeout: must be at most 24h'],
  [
    '{kind: ContainerRun, image: x/y, command: [ls], resources: {timeout: 25h}, transitions: []}',
    'resources.timeout: must be at most 24h',
  ],
  [
    '{kind: System, command: ls, max_state_visits: 21, transitions: []}',
    'max_state_visits: must be a whole number from 1 to 20',
  ],
  [
    '{kind: System, command: ls, transitions: [{condition: score_abov, threshold: 0.5, target: A}]}',
    'did you mean score_above?',
  ],
  [
    '{kind: System, command: ls, transitions: [{condition: exit_code0, target: A}]}',
    "condition: 'exit_code0' is not a condition; did you mean exit_code?",
  ],
  [
    '{kind: System, command: ls, transitions: [{conditon: on_failure, target: A}]}',
    'conditon: is not a field; did you mean condition?',
  ],
  ['{kind: System, command: ls, transitions: [{condition: score_above, target: A}]}', 'threshold: is required'],
  [
    '{kind: System, command: ls, transitions: [{condition: custom, expression: "a ==", target: A}]}',
    'is not an expression',
  ],
]

describe('manifests as people write them', () => {
  it.each(clear)('takes what is clear and says how it is written now: %s', (states, warning) => {
    expect(warningsOf(wrap(states)).join('\n')).toContain(warning)
  })

  it('does not send to a step what stands in one', () => {
    for (const field of ['network_mode: none', 'read_only_root_filesystem: true']) {
      const steps = `[{name: s, image: i, command: [ls], ${field}}]`
      const errors = errorsOf(one(`{kind: ParallelContainerRun, steps: ${steps}, transitions: []}`))
      expect(errors.join()).not.toContain('a step of')
    }
  })

  it('is content with scores that leave nothing out', () => {
    const to = (condition: string) => `{condition: ${condition}, target: B}`
    const transitions = [
      to('score_above, threshold: 0.8'),
      to('score_between, min: 0.5, max: 0.8'),
      to('score_below, threshold: 0.5'),
      to('on_failure'),
    ].join(', ')
    const states = `A: {kind: Agent, agent: a, input: x, transitions: [${transitions}]}\nB: {kind: System, command: ls, transitions: []}`
    expect(warningsOf(wrap(states))).toEqual([])
  })

  it.each(impossible)('refuses by name what cannot be done: %s', (state, error) => {
    expect(errorsOf(one(state)).join('\n')).toContain(error)
  })
})

describe('a value in a shell line', () => {
  const end = ', transitions: [] }'
  it.each([
    [`{ kind: System, command: "echo {{input.name}}"${end}`, 'write {{shell input.name}}'],
    [`{ kind: System, command: 'echo "{{shell input.name}}"'${end}`, 'remove the quotes around it'],
    [
      `{ kind: ContainerRun, name: s, image: i, command: [/bin/bash, -euc, "echo {{input.name}}"]${end}`,
      'write {{shell',
    ],
    [`{ kind: ContainerRun, name: s, image: i, shell: true, command: [echo, "{{input.name}}"]${end}`, 'write {{shell'],
  ])('%s is warned of, by state', (state, warning) => {
    expect(warningsOf(one(state))).toEqual([expect.stringMatching(/^spec\.states\.A\.command: /)])
    expect(warningsOf(one(state))[0]).toContain(warning)
  })

  it('is warned of in a parallel step', () => {
    const steps = 'steps: [{ name: s, image: i, shell: true, command: [echo, "{{input.x}}"] }]'
    expect(warningsOf(one(`{ kind: ParallelContainerRun, ${steps}${end}`))).toEqual([
      expect.stringMatching(/^spec\.states\.A\.steps\[0\]\.command: /),
    ])
  })

  it.each([
    `{ kind: System, command: "echo {{shell input.name}}"${end}`,
    `{ kind: System, command: 'echo "$NAME"', env: { NAME: "{{input.name}}" }${end}`,
    `{ kind: System, command: update_blackboard, env: { NAME: "{{input.name}}" }${end}`,
    `{ kind: ContainerRun, name: s, image: i, command: [echo, "{{input.name}}"]${end}`,
    `{ kind: ContainerRun, name: s, image: i, command: [sh, -c, 'echo "$1"', sh, "{{input.name}}"]${end}`,
  ])('%s is not', (state) => {
    expect(warningsOf(one(state))).toEqual([])
  })
})
