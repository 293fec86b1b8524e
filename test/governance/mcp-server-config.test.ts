import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestApp, type TestApp } from '../support/app.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'

type Row = Record<string, unknown>
let app: TestApp
let upstream: McpUpstream

beforeAll(async () => {
  upstream = await startMcpUpstream()
  app = await openTestApp({ config: { 'web.allow_private_addresses': ['127.0.0.1'] } })
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})
const deploy = (catalogId: string): Promise<Row> => app.ask('deploy_mcp_server', { catalogId })

describe('the configuration of an MCP server', () => {
  it('is refused when it could not work, with the field and the rule', async () => {
    const remote = { serverUrl: 'http://127.0.0.1/' }
    const wrong: [string, Row][] = [
      ['serverType', {}],
      ['serverType', { serverType: 'builtin', command: 'x' }],
      ['serverUrl', { serverType: 'remote', serverUrl: 'ftp://x' }],
      ['serverUrl', { serverUrl: 'http://ann:pw@127.0.0.1/' }],
      ['oauthConfig', { command: 'x', oauthConfig: {} }],
      [
        'environment',
        {
          command: 'x',
          environment: [1, 2].map(() => ({ key: 'A', type: 'plain_text', promptOnInstallation: false })),
        },
      ],
      [
        'headerName',
        {
          serverUrl: 'http://127.0.0.1/',
          userConfig: { a: { type: 'string', headerName: 'X' }, b: { type: 'string', headerName: 'x' } },
        },
      ],
      ['headerName', { serverUrl: 'http://127.0.0.1/', userConfig: { a: { type: 'string', headerName: 'Host' } } }],
      [
        'authFields',
        {
          serverUrl: 'http://127.0.0.1/',
          authFields: [{ name: 'a; b', label: 'A', type: 'cookie', secret: true }],
        },
      ],
      ['userConfig.a', { command: 'x', userConfig: { a: { type: 'string', sensitive: true, default: 'x' } } }],
      ['deploymentSpecYaml', { command: 'x', deploymentSpecYaml: 'kind: Pod' }],
      ['serverType', { command: 'x', serverUrl: 'http://127.0.0.1/' }],
      ['allowedDomains', { command: 'x', allowedDomains: ['registry.npmjs.org', 'http://example.org/'] }],
      ['serviceAccount', { command: 'x', serviceAccount: 'Bad name' }],
      ['imagePullSecrets.name', { command: 'x', imagePullSecrets: [{ source: 'existing', name: '-a' }] }],
      ['envFrom.name', { command: 'x', envFrom: [{ type: 'secret', name: 'A' }] }],
      ['envFrom.prefix', { command: 'x', envFrom: [{ type: 'configMap', name: 'a', prefix: '1_' }] }],
      ['nodePort', { command: 'x', nodePort: 8_080 }],
      ['dockerImage', { dockerImage: 'not an image' }],
      ['serverUrl', { serverType: 'local', command: 'x', serverUrl: 'http://127.0.0.1/' }],
      ['requiresAuth', { command: 'x', requiresAuth: true }],
      ['authFields', { command: 'x', authFields: [{ name: 'a', label: 'A', type: 'header', secret: true }] }],
      ['command', { serverType: 'remote', serverUrl: 'http://127.0.0.1/', command: 'x' }],
      ['allowedDomains', { serverUrl: 'http://127.0.0.1/', allowedDomains: ['example.org'] }],
      ['environment', { ...remote, environment: [{ key: 'A', type: 'plain_text', promptOnInstallation: true }] }],
      ['httpPort', { command: 'x', httpPort: 9_000 }],
      ['environmentId', { command: 'x', environmentId: 'production' }],
      ['oauthConfig.redirect_uris', { ...remote, oauthConfig: { redirect_uris: ['http://127.0.0.1/back'] } }],
      ['userConfig.a.headerName', { command: 'x', userConfig: { a: { type: 'string', headerName: 'X' } } }],
      ['userConfig.a.valuePrefix', { ...remote, userConfig: { a: { type: 'string', valuePrefix: 'Bearer ' } } }],
      ['userConfig.a', { command: 'x', userConfig: { a: { type: 'string', max: 3 } } }],
      ['userConfig.a', { command: 'x', userConfig: { a: { type: 'string', default: ['x'] } } }],
      ['a', { command: 'x', userConfig: { a: { type: 'number', min: 1, default: 0 } } }],
      ['a', { command: 'x', userConfig: { a: { type: 'number', promptOnInstallation: false, default: 'xx' } } }],
      ...[true, false].flatMap((promptOnInstallation): [string, Row][] => [
        ['A', { command: 'x', environment: [{ key: 'A', type: 'number', value: 'xx', promptOnInstallation }] }],
        ['A', { command: 'x', environment: [{ key: 'A', type: 'boolean', default: 'xx', promptOnInstallation }] }],
      ]),
    ]
    for (const [field, config] of wrong) {
      const { code, details } = await app.refusal('create_mcp_server', { name: 'Wrong', ...config })
      expect([config, code, details['field']]).toEqual([config, 'ERR_INVALID_INPUT', field])
    }
    const { id } = await app.ask<{ id: string }>('create_mcp_server', {
      ...{ name: 'Docker', dockerImage: 'ghcr.io:443/x/y-z:1.2', serviceAccount: 'runner.a', nodePort: 30_100 },
      ...{ imagePullSecrets: [{ source: 'existing', name: 'a' }], allowedDomains: ['*.example.org'] },
      envFrom: [{ type: 'secret', name: 'a', prefix: 'A_' }],
    })
    expect(await deploy(id)).toMatchObject({ status: 'error', error: expect.stringContaining('no container back end') })
  })

  it('that did not start is named when one of its tools is called, to those who may see it', async () => {
    const { id } = await app.ask<{ id: string }>('create_mcp_server', { name: 'Memory', dockerImage: 'x/memory:1' })
    await deploy(id)
    const calls = [
      ['memory__read_graph', {}],
      ['run_tool', { tool_name: 'memory__read_graph', tool_args: {} }],
    ] as const
    const other = await app.keyCaller({ name: 'other', role: 'editor' })
    for (const [tool, args] of calls) {
      const refused = await app.refusal(tool, args)
      expect([tool, refused.code]).toEqual([tool, 'ERR_UNKNOWN_TOOL'])
      expect(refused.message).toMatch(/^The MCP server 'memory' does not have this tool now: .*get_mcp_server_logs/)
      expect(refused.details).toMatchObject({ server: 'memory', reason: 'ERR_UPSTREAM_UNAVAILABLE' })
      const hidden = await app.refusal(tool, args, other)
      expect([tool, hidden.code]).toEqual([tool, 'ERR_UNKNOWN_TOOL'])
      expect(hidden.message).not.toContain("server 'memory'")
    }
    expect((await app.refusal('memry__read_graph', {})).message).toMatch(/^There is no tool/)
  })

  it('of one name in two scopes is asked for by id, and those that the caller sees are listed', async () => {
    const make = async (scope: string) => {
      const made = await app.ask<{ id: string }>('create_mcp_server', { name: 'Twice', command: 'x', scope })
      return made.id
    }
    const ids = [await make('personal'), await make('org')]
    const refused = await app.refusal('edit_mcp_config', { id: 'twice', command: 'y' })
    expect([refused.code, refused.message]).toEqual(['ERR_INVALID_INPUT', expect.stringContaining('Use the id of one')])
    expect(refused.message).toContain(`${ids[0]} (personal)`)
    expect(refused.message).toContain(`${ids[1]} (org)`)
    const other = await app.keyCaller({ name: 'second', role: 'editor' })
    expect((await app.refusal('edit_mcp_config', { id: 'twice', command: 'y' }, other)).message).not.toContain(ids[0])
  })

  it('has a specification for a cluster without an alias inside what it stands for', async () => {
    const deployment = 'apiVersion: apps/v1\nkind: Deployment\n'
    const aliases = ['spec: &a [*a]', 'spec: &a {b: &b [*a], c: *b}', 'spec: *a', 'kind: Deployment']
    const wrong = [`&a [${'*a,'.repeat(20_000)}]`, ...aliases.map((rest) => `${deployment}${rest}\n`)]
    for (const deploymentSpecYaml of wrong) {
      const { code, details } = await app.refusal('create_mcp_server', { name: 'W', command: 'x', deploymentSpecYaml })
      expect([code, details['field']]).toEqual(['ERR_INVALID_INPUT', 'deploymentSpecYaml'])
    }
    const rest = 'metadata: { labels: &l { app: x } }\nspec: { selector: { matchLabels: *l } }\n'
    await app.ask('create_mcp_server', {
      name: 'With labels',
      command: 'x',
      deploymentSpecYaml: `${deployment}${rest}`,
    })
  })

  it('is edited only with what has an effect, and keeps nothing of its former type', async () => {
    const { id } = await app.ask<{ id: string }>('create_mcp_server', {
      name: 'Turned',
      command: 'x',
      arguments: ['a'],
    })
    const edit = (config: Row) => ({ id, ...config })
    expect(await app.refusal('edit_mcp_config', edit({ serverUrl: upstream.url }))).toMatchObject({
      code: 'ERR_INVALID_INPUT',
      message: 'serverUrl: only a remote server has it, and this one is local; leave it out.',
    })
    expect((await app.refusal('edit_mcp_config', edit({ httpPath: '/x' }))).details['field']).toBe('httpPath')
    await app.ask('edit_mcp_config', edit({ httpPath: '/x', transportType: 'streamable-http' }))
    await app.ask('edit_mcp_config', edit({ serverUrl: null, requiresAuth: false, authFields: [] }))
    await app.ask('edit_mcp_config', edit({ serverType: 'remote', serverUrl: upstream.url }))
    expect((await app.refusal('edit_mcp_config', edit({ serverType: 'local' }))).details['field']).toBe('command')
    expect(await deploy(id)).toMatchObject({ status: 'success' })
  })

  it('takes only values that its fields accept', async () => {
    const userConfig = {
      retries: { type: 'number', min: 1, max: 5, headerName: 'X-Retries' },
      strict: { type: 'boolean', headerName: 'X-Strict' },
      ports: { type: 'number', multiple: true, headerName: 'X-Ports' },
    }
    const item = { name: 'Typed', serverUrl: upstream.url, userConfig }
    const { id } = await app.ask<{ id: string }>('create_mcp_server', item)
    const wrong = { retries: ['6', 'many', '', 6, true], strict: ['yes', 1], ports: ['1,b'] }
    for (const [name, values] of Object.entries(wrong)) {
      for (const value of values) {
        const refused = await app.refusal('deploy_mcp_server', { catalogId: id, values: { [name]: value } })
        expect([value, refused.code, refused.details['field']]).toEqual([value, 'ERR_INVALID_INPUT', name])
      }
    }
    for (const values of [
      { retries: '5', strict: 'true', ports: '1,2' },
      { retries: 5, strict: true, ports: 1 },
    ]) {
      expect(await app.ask('deploy_mcp_server', { catalogId: id, values })).toMatchObject({ status: 'success' })
    }
  })
})
