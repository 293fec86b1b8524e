import { describe, expect, it } from 'vitest'
import { AppError } from '../../contract/app-error.ts'
import { compileJsonSchema } from '../manifests/json-schema.ts'
import { checkAgentManifest, parseAgentManifest } from './manifest.ts'
import { agentManifestJsonSchema } from './manifest-schema.ts'

const head = 'apiVersion: 100monkeys.ai/v1\nkind: Agent\nmetadata: {name: a, version: "1.0.0"}\n'
const runtime = 'runtime: {language: python, version: "3.11"}'
const task = 'task: {instruction: Do it.}'
const withSpec = (...fields: string[]) => `${head}spec:\n${[runtime, task, ...fields].map((f) => `  ${f}\n`).join('')}`
const errorsOf = (yaml: string) => {
  const checked = checkAgentManifest(yaml)
  return checked.ok ? [] : checked.errors
}

const changelogWriter = `
apiVersion: 100monkeys.ai/v1
kind: Agent
metadata:
  name: changelog-writer
  version: "0.3.0"
  description: Turns a commit list into a dated changelog file and checks its own output.
  labels: { role: worker, team: docs }
  annotations: { owner: "docs@example.test" }
spec:
  runtime: { language: python, version: "3.11", isolation: inherit, model: default }
  task:
    instruction: Read the commits you are given and write /workspace/CHANGELOG.md.
    prompt_template: |
      {{instruction}}
      {{#if audience}}Write for: {{audience}}{{/if}}
      {{input}}
  input_schema: { type: object, required: [prompt], properties: { prompt: { type: string, minLength: 1 } } }
  tools: [fs.read, fs.write, fs.list, cmd.run]
  security:
    network: { mode: none }
    filesystem: { read: ["/workspace"], write: ["/workspace"], read_only: false }
    resources: { cpu: 500, memory: "512Mi", disk: "1Gi", timeout: "600s" }
  volumes:
    - { name: scratch, storage_class: ephemeral, mount_path: /workspace, access_mode: read-write, size_limit: "256Mi", ttl_hours: 2 }
  env: { LOG_LEVEL: info, TOKEN: "secret:ci-token" }
  execution:
    mode: iterative
    max_iterations: 4
    iteration_timeout: "120s"
    llm_timeout_seconds: 90
    validation:
      - { type: exit_code, expected: 0, min_score: 0.8 }
      - { type: json_schema, schema: { type: object, required: [file] } }
      - { type: semantic, judge_agent: changelog-judge, criteria: Each commit once., min_score: 0.75, min_confidence: 0.5, timeout_seconds: 120 }
    tool_validation:
      - { type: semantic, judge_agent: changelog-judge, criteria: Only CHANGELOG.md may be written., min_score: 0.8 }
`

describe('a complete manifest', () => {
  it('is read with every field, and a warning about the one that is rounded', () => {
    const { manifest, warnings } = parseAgentManifest(changelogWriter)
    expect(warnings).toEqual(['spec.security.resources.cpu: rounded up to 1000; a workspace has whole processors'])
    expect(manifest).toMatchObject({
      name: 'changelog-writer',
      labels: { role: 'worker', team: 'docs' },
      resources: { cpuMillicores: 500, memoryBytes: 536_870_912, diskBytes: 1_073_741_824, timeoutMs: 600_000 },
      network: { mode: 'none', allowlist: [], denylist: [] },
      volumes: [
        { name: 'scratch', mountPath: '/workspace', readOnly: false, sizeLimitBytes: 268_435_456, ttlHours: 2 },
      ],
      env: { LOG_LEVEL: { from: 'literal', value: 'info' }, TOKEN: { from: 'secret', value: 'ci-token' } },
    })
    expect(manifest.execution).toMatchObject({ maxIterations: 4, iterationTimeoutMs: 120_000, llmTimeoutMs: 90_000 })
    expect(manifest.execution.validation.map(({ type }) => type)).toEqual(['exit_code', 'json_schema', 'semantic'])
    expect(manifest.execution.toolValidation).toMatchObject([{ judgeAgent: 'changelog-judge', timeoutMs: 300_000 }])
  })

  it('has a warning about a disk that is rounded, where there is a workspace', () => {
    const sized = 'security: {resources: {cpu: 500, disk: 100Mi}}'
    expect(parseAgentManifest(withSpec(sized)).warnings).toEqual([])
    expect(parseAgentManifest(withSpec('tools: [fs.read]', sized)).warnings.join('\n')).toMatch(
      /disk: rounded up to 1Gi/,
    )
  })

  it('conforms to the published schema', () => {
    const schema = compileJsonSchema(agentManifestJsonSchema())
    expect(schema.ok).toBe(true)
    expect(schema.ok && schema.check({ apiVersion: 'x' }).length).toBeGreaterThan(0)
  })

  it('has the documented defaults', () => {
    const { manifest } = parseAgentManifest(withSpec())
    expect(manifest.execution).toMatchObject({ mode: 'one-shot', maxIterations: 3, iterationTimeoutMs: 600_000 })
    expect(manifest.runtime).toMatchObject({ model: 'default', isolation: 'inherit', imagePullPolicy: 'IfNotPresent' })
    expect(manifest.resources.timeoutMs).toBe(1_800_000)
    expect(parseAgentManifest(withSpec('execution: {}')).manifest.execution.maxIterations).toBe(5)
    expect(parseAgentManifest(withSpec('execution: {mode: one-shot}')).manifest.execution.maxIterations).toBe(1)
  })
})

const refused: readonly [string, string, RegExp][] = [
  [
    'commands in the wrong place',
    withSpec('subcommand_allowlist: {git: [status]}'),
    /^spec\.subcommand_allowlist has no effect here, .* set subcommand_allowlist in spec\.builtin_dispatchers\[\]\.capabilities\[\]/,
  ],
  ['another kind', withSpec().replace('kind: Agent', 'kind: Agnet'), /^kind must be Agent$/],
  [
    'a misspelt field that must be there',
    withSpec().replace(/^spec:/m, 'spce:'),
    /^spec is required; 'spce' is not a field: did you mean spec\?$/,
  ],
  [
    'commands of no tool',
    withSpec('builtin_dispatchers: [{name: cmd, capabilities: [{name: cmd, subcommand_allowlist: [ls]}]}]'),
    /^spec\.builtin_dispatchers\[0\]\.capabilities\[0\]\.name must be cmd\.run/,
  ],
  [
    'a list of commands that does not count',
    withSpec(
      'tools: [cmd.run]\n  builtin_dispatchers: [{name: cmd, enabled: false, capabilities: [{name: cmd.run, subcommand_allowlist: [ls]}]}]',
    ),
    /^spec\.builtin_dispatchers\[0\]\.enabled must be true if spec\.tools has cmd\.run/,
  ],
  [
    'a network outside of security',
    withSpec('network: {mode: none}'),
    /^spec\.network has no effect here, .* set network in spec\.security/,
  ],
  [
    'security outside of spec',
    `${withSpec()}security: {network: {mode: none}}\n`,
    /^security has no effect here, .* set security in spec/,
  ],
  [
    'security misspelt',
    withSpec('securty: {network: {mode: none}}'),
    /^spec\.securty has no effect here, .* set security in spec/,
  ],
  [
    'a context in camel case in the wrong place',
    withSpec('execution: {securityContext: default}'),
    /^spec\.execution\.securityContext has no effect here/,
  ],
  [
    'judged tools outside of execution',
    withSpec('tool_validation: [{type: semantic, judge_agent: j, criteria: c}]'),
    /set tool_validation in spec\.execution/,
  ],
  [
    'what may be read beside filesystem',
    withSpec('security: {read_only: true}'),
    /set read_only in spec\.security\.filesystem/,
  ],
  ['no name', withSpec().replace('name: a, ', ''), /^metadata\.name is required/],
  ['a name in capitals', withSpec().replace('name: a', 'name: My_Agent'), /^metadata\.name must be 1 to 63/],
  ['a version that is none', withSpec().replace('"1.0.0"', 'latest'), /^metadata\.version must be a semantic version/],
  ['another apiVersion', withSpec().replace('100monkeys.ai/v1', 'v9'), /^apiVersion must be 100monkeys\.ai\/v1/],
  ['a blank instruction', withSpec().replace('Do it.', '" "'), /^spec\.task\.instruction must not be blank/],
  ['no task', withSpec().replace(`  ${task}\n`, ''), /^spec\.task is required/],
  ['half a runtime', withSpec().replace(', version: "3.11"', ''), /^spec\.runtime\.version is required/],
  [
    'pair and image',
    withSpec().replace('version: "3.11"', 'version: "3.11", image: a/b'),
    /^spec\.runtime must have either/,
  ],
  [
    'an image without a slash',
    withSpec().replace('language: python, version: "3.11"', 'image: python'),
    /must contain a slash/,
  ],
  [
    'firecracker',
    withSpec('tools: [fs.read]').replace('"3.11"', '"3.11", isolation: firecracker'),
    /isolation cannot be firecracker/,
  ],
  [
    'a pattern with look-ahead',
    withSpec('execution: {validation: [{type: regex, pattern: "(?=a)"}]}'),
    /validation\[0\]\.pattern cannot be used/,
  ],
  [
    'an unknown validator',
    withSpec('execution: {validation: [{type: vibes}]}'),
    /validation\[0\]\.type must be one of/,
  ],
  [
    'a script of the object form',
    withSpec('execution: {validation: {script: ./x.sh}}'),
    /validation\[0\]\.type must be one of/,
  ],
  ['a schema that is none', withSpec('input_schema: {type: nonsense}'), /^spec\.input_schema cannot be used/],
  ['a cron that is none', withSpec('schedule: {type: cron, cron: "61 * * * *"}'), /^spec\.schedule\.cron must be/],
  [
    'a time zone that is none',
    withSpec('schedule: {type: cron, cron: "* * * * *", timezone: Mars}'),
    /timezone must be/,
  ],
  [
    'a template that is none',
    withSpec().replace('Do it.', 'Do it., prompt_template: "{{#if x}}"'),
    /prompt_template is not a template/,
  ],
  ['a volume elsewhere', withSpec('volumes: [{name: v, mount_path: /etc}]'), /mount_path must be \/workspace/],
  [
    'a volume that climbs',
    withSpec('volumes: [{name: v, mount_path: /workspace/../etc}]'),
    /mount_path must be \/workspace/,
  ],
  [
    'volumes inside each other',
    withSpec('volumes: [{name: v, mount_path: /workspace}, {name: w, mount_path: /workspace/x}]'),
    /inside or around/,
  ],
  ['a host path', withSpec('volumes: [{name: v, mount_path: /workspace, type: hostPath}]'), /type cannot be hostPath/],
  [
    'the volume of another caller',
    withSpec('volumes: [{name: v, mount_path: /workspace, source: {volume_id: x}}]'),
    /source cannot be honoured/,
  ],
  [
    'a volume that cannot be written',
    withSpec('volumes: [{name: v, mount_path: /workspace, access_mode: read-only}]'),
    /access_mode cannot be read-only/,
  ],
  [
    'mail',
    withSpec('execution: {delivery: {destinations: [{name: d, type: email, email: {}}]}}'),
    /type cannot be email/,
  ],
  [
    'a pattern of file names',
    withSpec('security: {filesystem: {write: ["/workspace/**/*.ts"]}}'),
    /^spec\.security\.filesystem\.write\[0\] must be a path/,
  ],
  [
    'a place above',
    withSpec('security: {filesystem: {read: ["/workspace/../etc"]}}'),
    /^spec\.security\.filesystem\.read\[0\] must be a path/,
  ],
  [
    'files that commands could write all the same',
    withSpec('tools: [cmd.run]', 'security: {filesystem: {read_only: true}}'),
    /^spec\.security\.filesystem\.read_only cannot be true/,
  ],
  [
    'hosts that commands could reach all the same',
    withSpec('tools: [cmd.run]', 'security: {network: {mode: deny, denylist: [a.org]}}'),
    /^spec\.security\.network\.denylist cannot be honoured/,
  ],
  [
    'an address that no workspace could reach',
    withSpec('tools: [fs.read]', 'security: {network: {allowlist: [a.org, "10.1.2.3"]}}'),
    /^spec\.security\.network\.allowlist\[1\] must be a host name/,
  ],
  [
    'more hosts than a workspace can be told',
    withSpec(
      'volumes: [{name: w, storage_class: ephemeral, mount_path: /workspace, access_mode: read-write, size_limit: 1Gi}]',
      `security: {network: {allowlist: [${Array.from({ length: 257 }, (_, index) => `h${index}.org`)}]}}`,
    ),
    /^spec\.security\.network\.allowlist must have at most 256 hosts/,
  ],
  [
    'a path of an address as a host',
    withSpec('security: {network: {allowlist: ["https://a.org/x"]}}'),
    /^spec\.security\.network\.allowlist\[0\] must be a host/,
  ],
  [
    'a limit of a container that is none',
    withSpec('output_handler: {type: container, image: a/b, command: [cat], resources: {memory: much}}'),
    /^spec\.output_handler\.resources\.memory must be a size/,
  ],
  [
    'a pattern that is large when compiled',
    withSpec("execution: {validation: [{type: exit_code}, {type: regex, pattern: '(?:a?){900}[bc]'}]}"),
    /^spec\.execution\.validation\[1\]\.pattern cannot be used .* its repetition counts make it too large/,
  ],
  ['too many iterations', withSpec('execution: {max_iterations: 101}'), /max_iterations must be a whole number/],
  ['no time at all', withSpec('execution: {iteration_timeout: 0s}'), /iteration_timeout must be greater than zero/],
  ['no memory at all', withSpec('security: {resources: {memory: 0Mi}}'), /resources\.memory must be greater than zero/],
  [
    'a day that never comes',
    withSpec('schedule: {type: cron, cron: "0 0 30 2 *"}'),
    /cron must match a time in the future/,
  ],
  [
    'an address of no page',
    withSpec('context: [{type: url, url: "ftp://a.org"}]'),
    /context\[0\]\.url must be an address/,
  ],
  ['a file above', withSpec('context: [{type: file, path: "../x"}]'), /context\[0\]\.path must be a path without/],
  ['a secret without a name', withSpec('env: {A: "secret:"}'), /spec\.env\.A must have a name after secret:/],
  ['a variable without a value', withSpec('env: {A: null}'), /spec\.env\.A has no value/],
  [
    'a handler of no kind',
    withSpec('output_handler: {type: post}'),
    /^spec\.output_handler\.type must be one of agent/,
  ],
  ['a warm pool', withSpec('advanced: {warm_pool_size: 2}'), /warm_pool_size must be 0/],
  ['no YAML', 'a: [', /not valid YAML: .* is not closed \(line 1\)/],
  ['a merge key', withSpec('<<: {a: 1}'), /merge keys are not read/],
  ['two documents', `${withSpec()}---\na: 1\n`, /several documents/],
]

describe('what is refused', () => {
  it.each(refused)('%s, by name', (_name, yaml, message) => {
    expect(errorsOf(yaml).join('\n')).toMatch(new RegExp(message.source, 'm'))
  })

  it('is an error that lists all faults', () => {
    const yaml = withSpec('volumes: [{name: v, mount_path: /etc, type: seal}]', 'schedule: {type: cron, cron: never}')
    try {
      parseAgentManifest(yaml)
      expect.unreachable()
    } catch (error) {
      expect(error).toBeInstanceOf(AppError)
      expect((error as AppError).code).toBe('ERR_MANIFEST_INVALID')
      expect((error as AppError).details['errors']).toHaveLength(3)
    }
  })
})

describe('hostile text', () => {
  it('cannot grow by aliases', () => {
    const laughs = ['a0: &a0 [x,x,x,x,x,x,x,x,x,x]']
    for (let level = 1; level < 9; level++) laughs.push(`a${level}: &a${level} [${`*a${level - 1},`.repeat(9)}]`)
    expect(errorsOf(laughs.join('\n'))[0]).toMatch(/more than 10000 values/)
    expect(errorsOf('a: &a [*a]')[0]).toMatch(/nested deeper|is an alias/)
  })

  it('cannot nest without end', () => {
    expect(errorsOf('['.repeat(100_000))[0]).toMatch(/nested deeper/)
    expect(errorsOf(`${'- '.repeat(50_000)}x`)[0]).toMatch(/nested deeper/)
  })

  it('cannot be endless', () => {
    expect(errorsOf(`a: ${'x'.repeat(300_000)}`)[0]).toMatch(/longer than/)
  })

  it('is read to its first fault, in steps as many as it has characters', () => {
    const keys = Array.from({ length: 15_000 }, (_, index) => `k${index}: 1`)
    expect(errorsOf(keys.join('\n'))[0]).toMatch(/more than 10000 values/)
    expect(errorsOf([...keys.slice(0, 9_000), 'k8: 1'].join('\n'))[0]).toMatch(/occurs twice \(line 9001\)/)
    expect(errorsOf(`z: "${'\\x'.repeat(100_000)}`)[0]).toMatch(/not valid YAML/)
    expect(errorsOf(`? ${'k'.repeat(2_000)}\n: [1]`)[0]).toMatch(/longer than 1024/)
    const aliases = Array.from({ length: 3_000 }, (_, index) => `- &a${index} x\n- *a${index}`)
    expect(errorsOf(aliases.join('\n'))[0]).toMatch(/object/)
  })

  it('cannot reach the prototype', () => {
    expect(errorsOf(withSpec('__proto__: {polluted: true}'))[0]).toMatch(/not a valid name/)
  })
})

describe('names in the texts of an agent', () => {
  const warned = (template: string, more = 'tools: []') =>
    parseAgentManifest(
      withSpec(more).replace(/task:.*/, `task: {instruction: x, prompt_template: '${template}'}`),
    ).warnings.join('\n')

  it.each([
    ['{{final_output}}', '{{final_output}} is empty unless context_overrides of the execution sets it'],
    ['{{inptu}}', 'did you mean input?'],
  ])('that nothing gives are told: %s', (template, warning) => {
    expect(warned(template)).toContain(`spec.task.prompt_template: ${warning.startsWith('{{') ? warning : '{{inptu}}'}`)
    expect(warned(template)).toContain(warning)
  })

  it('are held against the input_schema, unless that is open', () => {
    const schema = (open: string) => `input_schema: {type: object, properties: {colour: {type: string}}${open}}`
    expect(warned('{{input.color}} {{input.colour}}', schema(''))).toBe(
      'spec.task.prompt_template: {{input.color}} is empty: spec.input_schema has no such property; did you mean colour?',
    )
    expect(warned('{{input.color}}', schema(', additionalProperties: true'))).toBe('')
  })

  it('are fine where they are asked for first, or known', () => {
    expect(warned('{{#if audience}}For {{audience}}{{/if}} {{default tone "plain"}}')).toBe('')
    expect(warned('{{instruction}} {{intent}} {{input}} {{iteration_number}} {{previous_error}} {{context}}')).toBe('')
    const handler = 'output_handler: {type: agent, agent_id: a, input_template: "{{output}} {{outptu}}"}'
    expect(warned('{{input}}', handler)).toContain('spec.output_handler.input_template: {{outptu}} is empty')
  })
})

describe('the JSON Schemas of one manifest', () => {
  it('share one bound', () => {
    const schema = (count: number) =>
      JSON.stringify({
        properties: Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, { minLength: 1 }])),
      })
    const validators = (count: number) =>
      `execution: {validation: [${Array(8)
        .fill(`{type: json_schema, schema: ${schema(count)}}`)
        .join()}]}`
    expect(errorsOf(withSpec(validators(100)))).toEqual([])
    const errors = errorsOf(withSpec(`input_schema: ${schema(500)}`, validators(150)))
    expect(errors[0]).toMatch(/^spec\.execution\.validation\[6\]\.schema cannot be used .* at most 3000 values in all/)
  })
})
