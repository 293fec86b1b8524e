import { describe, expect, it } from 'vitest'
import { checkAgentManifest, parseAgentManifest } from './manifest.ts'

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
  ['a schedule without its type', withSpec('schedule: {cron: "0 6 * * *"}'), /schedule\.type: .*so cron is assumed/],
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
  it.each(cases)('%s is accepted with a warning', (_name, yaml, warn) => {
    expect(parseAgentManifest(yaml).warnings.join('\n')).toMatch(new RegExp(warn.source, 'm'))
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

it('take a judge by any name of an agent', () => {
  const judges = ['agent', 'agent_id', 'judge'].map((name) => `{type: semantic, ${name}: j, criteria: c}`)
  const both = '{type: multi_judge, judges: [{agent_id: j}, {agent: k, weight: 2}, l], criteria: c}'
  const list = [...judges, both].join(', ')
  const { execution } = parseAgentManifest(
    withSpec(`execution: {validation: [${list}], tool_validation: [${judges[1]}]}`),
  ).manifest
  const named = execution.validation.map((one) =>
    'judgeAgent' in one ? one.judgeAgent : 'judges' in one && one.judges,
  )
  const weighted = [
    { agent: 'j', weight: 1 },
    { agent: 'k', weight: 2 },
    { agent: 'l', weight: 1 },
  ]
  expect(named).toEqual(['j', 'j', 'j', weighted])
  expect(execution.toolValidation).toMatchObject([{ judgeAgent: 'j' }])
})

describe('tools written as objects', () => {
  const tools = (list: string, more = '') => parseAgentManifest(withSpec(`tools: [${list}]${more}`)).manifest
  const faults = (list: string, more = ''): string => {
    const checked = checkAgentManifest(withSpec(`tools: [${list}]${more}`))
    return checked.ok ? '' : checked.errors.join('\n')
  }

  it('keep the paths and the access that their config allows', () => {
    const config = 'config: {allowed_paths: [/workspace/src, docs], access_mode: read-only}'
    expect(tools(`{name: fs, executor: "builtin:fs", ${config}}`)).toMatchObject({
      tools: ['fs.read', 'fs.list', 'fs.glob', 'fs.grep'],
      filesystem: { read: ['/workspace/src', '/workspace/docs'], write: ['/workspace/src', '/workspace/docs'] },
    })
    expect(tools('{name: fs.write, config: {allowed_paths: [/workspace/out]}}, fs.read').filesystem).toMatchObject({
      read: ['/workspace'],
      write: ['/workspace/out'],
    })
    expect(tools('{name: fs.read, config: {allowed_paths: [/workspace/in]}}, fs.write').filesystem).toMatchObject({
      read: ['/workspace/in'],
      write: [],
    })
  })

  it.each([
    'readOnly: true',
    'read-only: true',
    'readonly: true',
    'accessMode: ro',
    'read_only: true, access_mode: rw',
  ])('are for reading alone with %s', (setting) => {
    expect(tools(`{name: filesystem, config: {${setting}}}`).tools).toEqual([
      'fs.read',
      'fs.list',
      'fs.glob',
      'fs.grep',
    ])
  })

  it('keep the hosts that their config allows or denies', () => {
    expect(tools('{name: web, config: {allowed_domains: [example.org]}}').network).toMatchObject({
      mode: 'allow',
      allowlist: ['example.org'],
    })
    expect(tools('{name: web.fetch, config: {blocked_domains: [example.org]}}').network).toMatchObject({
      mode: 'deny',
      denylist: ['example.org'],
    })
  })

  it.each([
    [
      '{name: fs, config: {access_mode: sometimes}}',
      'spec.tools[0].config.access_mode must be read-only or read-write',
    ],
    [
      '{name: fs.write, config: {access_mode: read-only}}',
      'spec.tools[0].config.access_mode cannot be read-only for fs.write',
    ],
    ['{name: fs, config: {allowed_paths: /workspace}}', 'spec.tools[0].config.allowed_paths must be a list'],
    [
      'fs.read, {name: cmd.run, config: {allowed_paths: [/workspace]}}',
      'spec.tools[1].config.allowed_paths cannot be set for a single tool',
    ],
    [
      '{name: cmd, config: {max_output_bytes: 9}}',
      'spec.tools[0].config.max_output_bytes cannot be set for a single tool',
    ],
    ['{name: fs, config: read-only}', 'spec.tools[0].config must be an object'],
    ['{name: fs, config: {write: false}}', 'spec.tools[0].config.write cannot be set for a single tool'],
    ['{name: fs, config: {rootDir: /workspace/a}}', 'spec.tools[0].config.rootDir cannot be set for a single tool'],
    ['{name: fs, mode: ro}', 'spec.tools[0].mode cannot be set for a single tool'],
    ['{name: cmd, config: {commands: [ls]}}', 'spec.tools[0].config.commands cannot be set for a single tool'],
    ['{name: cmd, config: {timeout_ceiling_secs: 9}}', 'say it in commands.timeout_ceiling_secs'],
    ['{name: cmd, config: {env_denylist: [A]}}', 'spec.tools[0].config.env_denylist cannot be set for a single tool'],
    ['{name: cmd, timeout_seconds: 9}', 'spec.tools[0].timeout_seconds cannot be set for a single tool'],
    ['{name: web, config: {rate_limit: 9}}', 'spec.tools[0].config.rate_limit cannot be set for a single tool'],
    [
      '{name: web, config: {allowed_domains: [a.org]}}, cmd.run',
      'spec.tools[0].config.allowed_domains cannot apply to web.* alone',
    ],
    [
      '{name: task_create, config: {allowed_projects: [a]}}',
      'spec.tools[0].config.allowed_projects cannot be set for a single tool',
    ],
  ])('are refused by name where a limit cannot be held: %s', (list, expected) => {
    expect(faults(list)).toContain(expected)
  })

  it('are refused where the manifest says otherwise elsewhere', () => {
    const security = '\n  security: {filesystem: {read: [/workspace], write: [/workspace/a]}, network: {mode: none}}'
    const both = '{name: fs, config: {allowed_paths: [/workspace/b]}}, {name: web, config: {allowed_domains: [a.org]}}'
    expect(faults(both, security)).toContain('contradicts spec.security.filesystem.read')
    expect(faults(both, security)).toContain('contradicts spec.security.network')
  })

  it('are the tools of the server for files under its other names, and not those that are switched off', () => {
    expect(tools('{name: filesystem, executor: "mcp:filesystem"}, "mcp:filesystem", "builtin:cmd"').tools).toEqual([
      'fs.*',
      'cmd.run',
    ])
    expect(tools('{name: cmd, enabled: false}, fs.read').tools).toEqual(['fs.read'])
  })

  it('are warned of where a setting closes nothing', () => {
    const { warnings } = parseAgentManifest(withSpec('tools: [{name: web, config: {provider: duck}}]'))
    expect(warnings.join('\n')).toContain('spec.tools[0].config.provider')
  })
})

describe('spec.security.filesystem', () => {
  it('lets nothing be written when it says only what may be read', () => {
    const { filesystem } = parseAgentManifest(
      withSpec('tools: [fs.read, fs.write]\n  security: {filesystem: {read: [/workspace]}}'),
    ).manifest
    expect(filesystem).toEqual({ read: ['/workspace'], write: [], readOnly: false })
  })

  it('must say what may be written where commands could write', () => {
    const checked = checkAgentManifest(withSpec('tools: [cmd.run]\n  security: {filesystem: {read: [/workspace]}}'))
    expect(checked).toMatchObject({ ok: false, errors: [expect.stringContaining('spec.security.filesystem.write')] })
  })
})
