import { describe, expect, test } from 'vitest'
import { useConfigHome } from '../../test/support/config-home.ts'
import type { LoadedConfig } from './config.ts'

const { path: at, load, write, refused } = useConfigHome()

describe('entries that are objects', () => {
  const objects = `workspaces:
  mounts: [{ mode: ro, path: /srv/data }, { mode: rw, path: /srv/a b, tenant: acme }]
  credentials: [{ host: api.example.org, header: Authorization, value: 'env:TOKEN' }]
executions:
  secrets: [{ name: token, value: 'env:TOKEN' }]
  values: [{ name: region, value: 'a=b c' }, { name: empty, value: '' }]
workflows:
  images: [{ image: 'alpine:3', workspace_image: host }]
`
  const lines = `workspaces:
  mounts: [ro /srv/data, rw /srv/a b tenant=acme]
  credentials: ['api.example.org Authorization env:TOKEN']
executions:
  secrets: ['token env:TOKEN']
  values: [region=a=b c, 'empty=']
workflows:
  images: ['alpine:3=host']
`
  const entries = ({ config: { workspaces, executions, workflows } }: LoadedConfig) => [
    workspaces.mounts,
    workspaces.credentials,
    executions.secrets,
    executions.values,
    workflows.images,
  ]

  test('may be lines of text in a file, which is told', async () => {
    const written = await load({ configFile: write(objects) })
    expect(written.warnings).toEqual([])
    expect(entries(written)).toEqual([
      [
        { mode: 'ro', path: '/srv/data' },
        { mode: 'rw', path: '/srv/a b', tenant: 'acme' },
      ],
      [{ host: 'api.example.org', header: 'Authorization', value: 'env:TOKEN' }],
      [{ name: 'token', value: 'env:TOKEN' }],
      [
        { name: 'region', value: 'a=b c' },
        { name: 'empty', value: '' },
      ],
      [{ image: 'alpine:3', workspace_image: 'host' }],
    ])
    const short = await load({ configFile: write(lines) })
    expect(entries(short)).toEqual(entries(written))
    expect(short.warnings).toHaveLength(5)
    expect(short.warnings).toContainEqual(
      expect.stringContaining(
        'castellan.yaml: workspaces.mounts is in the old text form (MODE PATH, perhaps with tenant=NAME). Write each entry as an object, such as { mode: ro, path: /srv/data }.',
      ),
    )
  })

  test('are lines in a variable', async () => {
    const { config, warnings } = await load({ env: { CASTELLAN_WORKSPACES_MOUNTS: 'ro /a, rw /b tenant=acme' } })
    expect(config.workspaces.mounts).toEqual([
      { mode: 'ro', path: '/a' },
      { mode: 'rw', path: '/b', tenant: 'acme' },
    ])
    expect(warnings).toEqual([])
  })

  test.each([
    ['workspaces', '{ forward_ports: { from: 20500, to: 20600 } }', '{ forward_ports: 20500-20600 }'],
    [
      'interactions',
      '{ otlp: { endpoint: "http://127.0.0.1:4318", headers: { authorization: Bearer a, x-team: "a,b" } } }',
      '{ otlp: { endpoint: "http://127.0.0.1:4318", headers: "authorization=Bearer a, x-team=a%2Cb" } }',
    ],
    [
      'model_proxy',
      '{ rules: [{ name: a, when: { has_tools: true, between: { from: "22:00", to: "06:00" } }, use: { provider: p, model: "m:8b" } }, { name: b, fall_back: [{ provider: p, model: m }] }] }',
      '{ rules: [{ name: a, when: { has_tools: true, between: "22:00-06:00" }, use: "p:m:8b" }, { name: b, fall_back: ["p:m", { provider: p, model: m }] }] }',
    ],
  ] as const)('may be one text in a file, which is told: %s', async (section, objects, text) => {
    const written = await load({ configFile: write(`${section}: ${objects}\n`) })
    expect(written.warnings).toEqual([])
    const short = await load({ configFile: write(`${section}: ${text}\n`) })
    const plain = (loaded: LoadedConfig) =>
      JSON.parse(JSON.stringify(loaded.config[section]), (key, value) => (key === 'fall_back' ? value[0] : value))
    expect(plain(short)).toEqual(plain(written))
    expect(short.warnings).toEqual([expect.stringContaining('is in the old text form')])
  })

  test('name the form to write in the warning, and in the error of a variable', async () => {
    const { warnings } = await load({ configFile: write('workspaces: { forward_ports: 20500-20600 }\n') })
    expect(warnings).toEqual([
      `${at('castellan.yaml')}: workspaces.forward_ports is in the old text form (FROM-TO). Write { from: 20000, to: 31999 }.`,
    ])
    const env = { CASTELLAN_WORKSPACES_FORWARD_PORTS: '20500' }
    expect((await refused('', { env })).message).toBe(
      'CASTELLAN_WORKSPACES_FORWARD_PORTS: workspaces.forward_ports must be an object with from and to: two ports from 1024 to 65535, the smaller first. Here, write it as FROM-TO, such as 20000-31999',
    )
  })

  test('a list of keys, or the keys in one text, are the same secret', async () => {
    const env = { NEW_KEY: 'a', OLD_KEY: 'b', KEYS: 'a,b' }
    const list = await load({ configFile: write('secret_key: [env:NEW_KEY, env:OLD_KEY]\n'), env })
    const text = await load({ configFile: write('secret_key: env:KEYS\n'), env })
    expect([list, text].map(({ config }) => config.secret_key?.reveal())).toEqual(['a,b', 'a,b'])
    expect([list, text].map(({ warnings }) => warnings.length)).toEqual([0, 1])
    const missing = await refused('secret_key: [env:NEW_KEY, env:NONE]\n', { env })
    expect(missing.message).toContain('castellan.yaml:1:27: secret_key.1 refers to the environment variable NONE')
  })

  test.each([
    ['workspaces: { forward_ports: { from: 80, to: 90 } }', 'workspaces.forward_ports.from'],
    ['workspaces: { forward_ports: { from: 30000, to: 20000 } }', 'workspaces.forward_ports'],
    ['workspaces: { forward_ports: { from: 30000 } }', 'workspaces.forward_ports.to'],
    ['workspaces: { forward_ports: 30000 - 31000 }', 'workspaces.forward_ports'],
    ['interactions: { otlp: { headers: { a: "1", A: "2" } } }', 'interactions.otlp.headers'],
    ['interactions: { otlp: { headers: { "a b": "1" } } }', 'interactions.otlp.headers'],
    ['interactions: { otlp: { headers: { a: 1 } } }', 'interactions.otlp.headers.a'],
    ['model_proxy: { rules: [{ name: a, use: haiku }] }', 'model_proxy.rules.0.use'],
    ['model_proxy: { rules: [{ name: a, use: { provider: p } }] }', 'model_proxy.rules.0.use.model'],
    ['model_proxy: { rules: [{ name: a, when: { between: "22:00" } }] }', 'model_proxy.rules.0.when.between'],
    ['workspaces:\n  mounts: [ro data]', 'workspaces.mounts.0'],
    ['workspaces:\n  mounts: [{ mode: ro, path: data }]', 'workspaces.mounts.0.path'],
    ['workspaces:\n  mounts: [rw /a tenant=No]', 'workspaces.mounts.0.tenant'],
    ['executions:\n  secrets: [token secret]', 'executions.secrets.0'],
    ['executions:\n  values: [region]', 'executions.values.0'],
    ['workflows:\n  images: [alpine]', 'workflows.images.0'],
  ])('are refused at their place when they are neither: %s', async (text, field) => {
    expect(await refused(text)).toMatchObject({ details: { field } })
  })
})
