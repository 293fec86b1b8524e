import { describe, expect, it } from 'vitest'
import { parseAgentManifest } from './manifest.ts'

const head = 'apiVersion: 100monkeys.ai/v1\nkind: Agent\nmetadata: {name: a, version: "1.0.0"}\n'
const runtime = 'runtime: {language: python, version: "3.11"}'
const task = 'task: {instruction: Do it.}'
const withSpec = (...fields: string[]) => `${head}spec:\n${[runtime, task, ...fields].map((f) => `  ${f}\n`).join('')}`

const cases: readonly [string, string, RegExp][] = [
  ['kind AgentManifest', withSpec().replace('kind: Agent', 'kind: AgentManifest'), /^kind: .*write Agent$/],
  ['an unquoted version', withSpec().replace('"1.0.0"', '1.10'), /^metadata\.version: .*"1\.10\.0"/],
  ['max_retries', withSpec('execution: {max_retries: 7}'), /max_retries: .*write max_iterations/],
  ['validation as an object', withSpec('execution: {validation: {system: {must_succeed: true}}}'), /write a list/],
  ['tools as objects', withSpec('tools: [{name: fs.read, executor: builtin}]'), /spec\.tools: .*names only/],
  ['mount_point', withSpec('volumes: [{name: v, mount_point: /workspace}]'), /mount_point: .*mount_path/],
  ['size_limit_mb', withSpec('volumes: [{name: v, size_limit_mb: 5}]'), /size_limit: "5Mi"/],
  ['no size_limit', withSpec('volumes: [{name: v, mount_path: /workspace}]'), /size_limit: .*1Gi/],
  ['a path without its folder', withSpec('security: {filesystem: {read: [src]}}'), /read: .*write \/workspace\/src/],
  [
    'a file of the context',
    withSpec('context: [{type: file, path: a.md}]'),
    /context\[0\]\.path: .*write \/workspace\/a\.md/,
  ],
  ['an address for a host', withSpec('security: {network: {allowlist: ["https://a.org/"]}}'), /write a\.org/],
  [
    'deliveries beside the execution',
    withSpec('delivery: {destinations: []}'),
    /spec\.delivery: .*spec\.execution\.delivery/,
  ],
  [
    'validators beside the execution',
    withSpec('validation: [{type: exit_code}]'),
    /write it as spec\.execution\.validation/,
  ],
  ['environment', withSpec('environment: {A: b}'), /spec\.environment: .*write it as spec\.env$/],
  [
    'a time of the runtime',
    withSpec().replace('"3.11"', '"3.11", timeout: 30s'),
    /spec\.runtime\.timeout: .*spec\.security\.resources\.timeout/,
  ],
  ['no network at all', withSpec('security: {network: {mode: deny-all}}'), /network\.mode: .*write none/],
  ['files in other words', withSpec('security: {filesystem: {mode: readonly}}'), /filesystem\.mode: .*read_only: true/],
  ['whole processors', withSpec('security: {resources: {cpu: 2}}'), /resources\.cpu: .*write 2000/],
  ['megabytes', withSpec('security: {resources: {memory: 512MB}}'), /resources\.memory: .*write 512M$/],
  [
    'a template with single braces',
    withSpec().replace('Do it.', 'Do it., prompt_template: "{agent_instruction} {user_input}"'),
    /prompt_template: .*double braces/,
  ],
  [
    'the vote of a majority',
    withSpec('execution: {validation: [{type: multi_judge, judges: [j], criteria: c, consensus: majority_vote}]}'),
    /validation\[0\]\.consensus: .*write majority$/,
  ],
  ['a schedule without its type', withSpec('schedule: {cron: "0 6 * * *"}'), /schedule\.type: .*taken as cron/],
  [
    'a destination without a name',
    withSpec('execution: {delivery: {destinations: [{type: webhook, webhook: {url: "https://a.org", method: put}}]}}'),
    /destinations\[0\]\.name: .*destination-1(?:.|\n)*webhook\.method: .*write PUT/,
  ],
  [
    'further tries as a group',
    withSpec('output_handler: {type: webhook, url: "https://a.org", retry: {max_attempts: 3}}'),
    /retry\.max_attempts: .*number of further tries/,
  ],
  ['the name of a tool', withSpec('output_handler: {type: mcp_tool, tool: fs.write}'), /tool: .*write tool_name/],
  ['the mode of a cluster', withSpec('volumes: [{name: v, access_mode: ReadWriteOnce, size_limit: 1GB}]'), /write 1G$/],
  ['a number in env', withSpec('env: {PORT: 8080}'), /spec\.env\.PORT: .*quotes/],
  ['an unknown field', withSpec('instructions: x'), /spec\.instructions: not a known field/],
  ['an unknown field near a known one', withSpec('execution: {max_iteration: 2}'), /Did you mean max_iterations\?/],
]

describe('loose spellings', () => {
  it.each(cases)('%s is accepted with a remark', (_name, yaml, remark) => {
    expect(parseAgentManifest(yaml).warnings.join('\n')).toMatch(new RegExp(remark.source, 'm'))
  })

  it('keeps the meaning', () => {
    const tools = 'tools: [{name: cmd.run, config: {subcommand_allowlist: {git: [status], ls: []}}}]'
    const { manifest } = parseAgentManifest(withSpec(tools))
    expect(manifest.tools).toEqual(['cmd.run'])
    expect(manifest.subcommandAllowlist).toEqual({ git: ['status'], ls: [] })
    const old =
      'execution: {validation: {system: {must_succeed: true}, output: {format: json, schema: {type: object}}, semantic: {prompt: Good., threshold: 0.9}}}'
    expect(parseAgentManifest(withSpec(old)).manifest.execution.validation).toMatchObject([
      { type: 'exit_code', expected: 0 },
      { type: 'json_schema', schema: { type: 'object' } },
      { type: 'semantic', judgeAgent: 'output-judge', criteria: 'Good.', minScore: 0.9 },
    ])
    expect(parseAgentManifest(withSpec().replace('"3.11"', '3.10')).manifest.runtime.version).toBe('3.10')
  })

  it('keeps the meaning of what stood elsewhere', () => {
    const target = '{name: d, type: webhook, webhook: {url: "https://a.org"}}'
    const { manifest } = parseAgentManifest(
      withSpec(
        `delivery: {destinations: [${target}]}`,
        'validation: {type: json_schema, schema: {type: object}}',
        'environment: {A: b}',
        'security: {network: {mode: deny-all}, filesystem: {mode: readonly, allowed_paths: [/workspace/in]}, resources: {cpu: 0.5, memory: 512MB, disk: 2gib, max_iterations: 1}}',
      )
        .replace('"3.11"', '"3.11", timeout: 30s')
        .replace('Do it.', 'Do it., prompt_template: "{agent_instruction} {user_input} {other}"'),
    )
    expect(manifest).toMatchObject({
      execution: { maxIterations: 1, delivery: [{ url: 'https://a.org' }], validation: [{ type: 'json_schema' }] },
      env: { A: { value: 'b' } },
      network: { mode: 'none' },
      filesystem: { read: ['/workspace/in'], write: [], readOnly: true },
      resources: { cpuMillicores: 500, memoryBytes: 512_000_000, diskBytes: 2_147_483_648, timeoutMs: 30_000 },
      task: { promptTemplate: '{{instruction}} {{input}} {other}' },
    })
  })

  it('does not move anything over what is there', () => {
    const { manifest, warnings } = parseAgentManifest(withSpec('environment: {A: old}', 'env: {A: new}'))
    expect(manifest.env).toMatchObject({ A: { value: 'new' } })
    expect(warnings.join('\n')).toMatch(/^spec\.environment: not a known field/m)
  })

  it('takes dispatchers for their tools', () => {
    const tools =
      'tools: [{name: cmd, executor: "builtin:cmd", config: {subcommand_allowlist: {git: [status]}}}, fs, web]'
    const { manifest, warnings } = parseAgentManifest(withSpec(tools))
    expect(manifest).toMatchObject({
      tools: ['cmd.run', 'fs.*', 'web.*'],
      subcommandAllowlist: { git: ['status'] },
    })
    expect(warnings.join('\n')).toMatch(/spec\.tools: .*write cmd\.run for cmd/)
  })

  it('takes the list of commands that the document shows', () => {
    const yaml = withSpec(
      'builtin_dispatchers: [{name: cmd, capabilities: [{name: cmd.run, subcommand_allowlist: [python, pip]}]}]',
    )
    expect(parseAgentManifest(yaml).manifest).toMatchObject({
      tools: ['cmd.run'],
      subcommandAllowlist: { python: [], pip: [] },
    })
  })
})
