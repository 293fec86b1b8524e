import { join } from 'node:path'
import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import { useConfigHome } from '../../test/support/config-home.ts'
import type { AppError } from '../contract/app-error.ts'
import { showConfig } from './config.ts'
import { configFields, configJsonSchema } from './config-schema.ts'
import { redactUrl, Secret } from './secret.ts'

const { path: at, load, write, refused } = useConfigHome()

describe('where values come from', () => {
  test('nothing given: defaults, and state below the home directory', async () => {
    const { config, file, warnings } = await load()
    expect(file).toBeUndefined()
    expect(warnings).toEqual([])
    expect(config).toMatchObject({ host: '127.0.0.1', port: 7433, mode: 'FULL', tools: 'default', log_level: 'info' })
    expect(config.data_dir).toBe(at('.local/share/castellan'))
    expect(config.skills.roots).toEqual([at(), config.data_dir])
    expect(config.rate_limits).toEqual({
      enabled: true,
      owner: { enabled: false },
      create: { per_minute: 5, burst: 3 },
      exec: { per_minute: 60, burst: 10 },
      default: { per_minute: 120, burst: 20 },
      message: { per_minute: 300, burst: 50 },
    })
  })

  test('flags win over the environment, which wins over the file', async () => {
    const configFile = write('port: 1\nhost: a\nlog_level: warn\nrate_limits:\n  create:\n    burst: 9\n')
    const env = { CASTELLAN_PORT: '2', CASTELLAN_HOST: 'b', CASTELLAN_RATE_LIMITS_CREATE_PER_MINUTE: '77' }
    const loaded = await load({ configFile, env, flags: { port: '3', mode: undefined } })
    expect(loaded.config).toMatchObject({ port: 3, host: 'b', log_level: 'warn' })
    expect(loaded.config.rate_limits.create).toEqual({ per_minute: 77, burst: 9 })
    const sources = Object.fromEntries(showConfig(loaded).map((row) => [row.field, row.source]))
    expect(sources).toMatchObject({
      port: 'flag',
      host: 'env',
      log_level: 'file',
      mode: 'default',
      'rate_limits.create.burst': 'file',
      'rate_limits.create.per_minute': 'env',
    })
  })

  test('the file is found by flag, variable, data directory and XDG directory, in this order', async () => {
    const xdg = at('xdg')
    const env = { XDG_CONFIG_HOME: xdg, XDG_DATA_HOME: at('share') }
    write('port: 4', join(xdg, 'castellan/castellan.yaml'))
    expect((await load({ env })).config.port).toBe(4)
    write('port: 3', at('share/castellan/castellan.yaml'))
    expect((await load({ env })).config.port).toBe(3)
    write('port: 2', at('named.yaml'))
    expect((await load({ env: { ...env, CASTELLAN_CONFIG: 'named.yaml' } })).config.port).toBe(2)
    const configFile = write('port: 1', at('flag.yaml'))
    expect((await load({ env: { ...env, CASTELLAN_CONFIG: 'named.yaml' }, configFile })).config.port).toBe(1)
    write('port: 5', at('own/castellan.yaml'))
    expect((await load({ env, flags: { data_dir: 'own' } })).config.port).toBe(5)
  })

  test('a named file that is missing is an error, an empty one is not', async () => {
    await expect(load({ configFile: 'none.yaml' })).rejects.toMatchObject({
      code: 'ERR_CONFIG_INVALID',
      message: expect.stringContaining('none.yaml cannot be read (ENOENT)'),
    })
    expect((await load({ configFile: write('# nothing yet\n') })).config.port).toBe(7433)
  })

  test('paths start at the file, or at the working directory, or at home', async () => {
    const configFile = write('data_dir: state\nskills:\n  roots: [./a, ~/b, /c]\n', at('etc/c.yaml'))
    const { config } = await load({ configFile })
    expect(config.data_dir).toBe(at('etc/state'))
    expect(config.skills.roots).toEqual([at('etc/a'), at('b'), '/c'])
    expect((await load({ env: { CASTELLAN_DATA_DIR: 'x' } })).config.data_dir).toBe(at('x'))
  })

  test('the vault is in the data directory or where it is said to be, but never around the data directory', async () => {
    const { config } = await load({ flags: { data_dir: 'state' } })
    expect(config.vault).toMatchObject({ enabled: true, path: at('state/vault'), extensions: ['md'] })
    expect((await load({ env: { CASTELLAN_VAULT_PATH: '~/notes' } })).config.vault.path).toBe(at('notes'))
    expect((await load({ flags: { data_dir: 'a/..b', 'vault.path': 'a/.' } }).catch((error) => error)).code).toBe(
      'ERR_CONFIG_INVALID',
    )
    for (const path of ['state', '.', '/', 'state/']) {
      await expect(load({ flags: { data_dir: 'state', 'vault.path': path } })).rejects.toMatchObject({
        code: 'ERR_CONFIG_INVALID',
        message: expect.stringContaining('vault.path must be a directory that does not contain the data directory'),
      })
    }
    expect((await load({ flags: { data_dir: 'state', 'vault.path': 'stat' } })).config.vault.path).toBe(at('stat'))
  })

  test('text of the environment becomes numbers, booleans and lists', async () => {
    const env = {
      CASTELLAN_RATE_LIMITS_ENABLED: '0',
      CASTELLAN_LEDGER_STRICT_PROJECTS: 'TRUE',
      CASTELLAN_TOOLS: 'ledger, meta',
      CASTELLAN_ALLOWED_HOSTS: 'a.example,b.example:8080',
      CASTELLAN_HOST: '',
    }
    const { config } = await load({ env })
    expect(config.rate_limits.enabled).toBe(false)
    expect(config.ledger.strict_projects).toBe(true)
    expect(config.tools).toEqual(['ledger', 'meta'])
    expect(config.allowed_hosts).toEqual(['a.example', 'b.example:8080'])
    expect(config.host).toBe('127.0.0.1')
    expect((await load({ env: { CASTELLAN_TOOLS: 'full' } })).config.tools).toBe('full')
  })

  test('a misspelt variable is remarked on', async () => {
    const { warnings } = await load({ env: { CASTELLAN_PROT: '1', CASTELLAN_SOMETHING_ELSE_ENTIRELY: '1' } })
    expect(warnings).toEqual([
      'The environment variable CASTELLAN_PROT is not known and was ignored. Did you mean CASTELLAN_PORT?',
    ])
  })
})

describe('errors', () => {
  test('an unknown field is shown at its place with the nearest accepted one', async () => {
    const error = await refused('port: 80\nrate_limits:\n  creat:\n    burst: 1\n')
    expect(error.code).toBe('ERR_CONFIG_INVALID')
    expect(error.message).toContain('castellan.yaml:3:3: rate_limits.creat is not a known field')
    expect(error.message).toContain('Did you mean create?')
    expect(error.details['problems']).toMatchObject([
      { field: 'rate_limits.creat', position: { line: 3, column: 3 }, nearest: 'create' },
    ])
  })

  test.each([
    ['workspaces:\n  mounts:\n    - /srv/data /mnt\n', 'workspaces.mounts.0 must be an object with mode'],
    ['workspaces:\n  mounts: { mode: ro }\n', 'workspaces.mounts must be a list of objects'],
    ['workspaces:\n  mounts:\n    - { path: /srv }\n', 'workspaces.mounts.0.mode must be ro or rw'],
    ['workspaces:\n  mounts:\n    - { mode: ro, path: srv }\n', 'workspaces.mounts.0.path must be an absolute path'],
    [
      'workspaces:\n  credentials:\n    - { host: a.example, header: X, value: secret }\n',
      'workspaces.credentials.0.value must be env:NAME',
    ],
    ['executions:\n  secrets:\n    - { name: a, value: b }\n', 'executions.secrets.0.value must be env:VARIABLE'],
    ['executions:\n  values:\n    - 1\n', 'executions.values.0 must be an object with name and value'],
    ['workflows:\n  images:\n    - { image: a }\n', 'workflows.images.0.workspace_image must be the name of an image'],
    ['allowed_hosts: [a.example, "*"]\n', 'castellan.yaml:1:28: allowed_hosts must be a list of host names'],
  ])('an entry of a list is told what it lacks itself: %j', async (text, expected) => {
    expect((await refused(text)).message).toContain(expected)
  })

  test('an entry of a list in a variable is named by its place', async () => {
    const env = { CASTELLAN_WORKSPACES_MOUNTS: 'ro /srv,rw srv' }
    const error = await load({ env }).catch((caught: AppError) => caught)
    expect(error).toMatchObject({
      message: expect.stringContaining('workspaces.mounts.1 must be an object with mode'),
    })
  })

  test.each([
    ['allowed_origins', '*', 'there are no wildcards'],
    ['allowed_origins', 'null', 'there are no wildcards, and no null'],
    ['allowed_origins', 'https://*.example', 'a list of origins'],
    ['allowed_origins', 'console.example', 'a list of origins such as https://console.example'],
    ['allowed_origins', 'https://console.example/page', 'a list of origins'],
    ['allowed_hosts', '*.example', 'there are no wildcards'],
    ['allowed_hosts', 'https://castle.example', 'a list of host names'],
  ])('an entry of %s that could match nothing, or too much, is refused: %s', async (field, entry, reason) => {
    const error = await refused(`${field}: ["${entry}"]\n`)
    expect(error.message).toContain(`${field}`)
    expect(error.message).toContain(reason)
  })

  test.each(['https://console.example', 'HTTP://localhost:5173/', 'vscode-webview://abc', 'http://[::1]:1'])(
    'an origin may be %s',
    async (origin) => {
      expect((await load({ configFile: write(`allowed_origins: ["${origin}"]\n`) })).config.allowed_origins).toEqual([
        origin,
      ])
    },
  )

  test('all problems are reported at once, from every source', async () => {
    const error = await refused('host: 5\naudit:\n  read_records: sometimes\nskills:\n  roots: [ok, 7]\n', {
      env: { CASTELLAN_PORT: 'http' },
      flags: { log_level: 'loud' },
    })
    expect(error.message.split('\n')).toEqual([
      expect.stringContaining('castellan.yaml:1:7: host must be a host name or address'),
      expect.stringContaining('castellan.yaml:3:17: audit.read_records must be one of batched, batched_own, strict'),
      expect.stringContaining('castellan.yaml:5:15: skills.roots.1 must be a directory path'),
      'CASTELLAN_PORT: port must be a whole number from 0 to 65535',
      '--log-level: log_level must be one of debug, info, warn, error',
    ])
  })

  test.each([
    ['port: [1', 1],
    ['port: 1\nport: 2\n', 2],
    ['a: 1\n---\nb: 2\n', 2],
    ['- a\n', 1],
  ])('what is not one YAML mapping is shown with its line: %j', async (text, lineNumber) => {
    const error = await refused(text)
    expect(error.message).toMatch(new RegExp(`castellan\\.yaml:${lineNumber}:\\d+: `))
  })

  test('an alias bomb is refused', async () => {
    const bomb = ['a: &a [x,x,x,x,x,x,x,x,x,x]']
    for (let depth = 1; depth < 9; depth++) {
      const name = String.fromCharCode(97 + depth)
      const before = String.fromCharCode(96 + depth)
      bomb.push(`${name}: &${name} [${Array(10).fill(`*${before}`).join(',')}]`)
    }
    expect((await refused(bomb.join('\n'))).code).toBe('ERR_CONFIG_INVALID')
  })

  test.each([
    ['mode: NORMAL\n', {}],
    ['', { env: { CASTELLAN_MODE: 'full' } }],
    ['', { flags: { mode: 'X' } }],
  ])('an unknown mode has its own code: %j %j', async (text, options) => {
    const error = await refused(text, options)
    expect(error.code).toBe('ERR_INVALID_MODE')
    expect(error.message).toContain('mode must be one of FULL, READONLY, TEST, MINIMAL')
  })
})

describe('secrets', () => {
  const url = 'postgres://ann:hunter2@db.example:5432/castellan?password=hunter3'

  test('a reference is resolved and never printed', async () => {
    const configFile = write('database_url: env:DB_URL\n')
    const loaded = await load({ configFile, env: { DB_URL: url } })
    expect(loaded.config.database_url?.reveal()).toBe(url)
    const printed = [
      JSON.stringify(loaded),
      inspect(loaded, { depth: 9, showHidden: true }),
      `${loaded.config.database_url}`,
    ]
    const displayed = showConfig(loaded)
    expect(displayed.find((row) => row.field === 'database_url')).toEqual({
      field: 'database_url',
      value: 'postgres://[redacted]@db.example:5432/castellan?[redacted]',
      source: 'file',
      variable: 'CASTELLAN_DATABASE_URL',
    })
    for (const text of [...printed, JSON.stringify(displayed)]) expect(text).not.toMatch(/hunter/)
  })

  test('a missing variable is named with its field and place', async () => {
    expect((await refused('host: x\ndatabase_url: env:NO_SUCH\n')).message).toContain(
      'castellan.yaml:2:15: database_url refers to the environment variable NO_SUCH, which is not set',
    )
    const nested = await refused('', { flags: { database_url: 'env:A' }, env: { A: 'env:B', B: url } })
    expect(nested.message).toContain('--database-url: database_url refers to the environment variable A')
  })

  test('headers for a collector are held to their form, and to a collector', async () => {
    const refusedOtlp = async (otlp: string, env = {}) =>
      (await refused(`interactions: { otlp: { ${otlp} } }\n`, { env })).message
    const endpoint = 'endpoint: "http://127.0.0.1:4318"'
    expect(await refusedOtlp('headers: env:H', { H: 'a=b' })).toContain(
      'interactions.otlp.endpoint must be set, because',
    )
    for (const headers of ['hunter2', 'a=b,=hunter2', 'a b=hunter2', 'a=%hunter2', 'a=x%0Ahunter2']) {
      const message = await refusedOtlp(`${endpoint}, headers: env:H`, { H: headers })
      expect(message).toContain('interactions.otlp.headers must be an object of HTTP header names')
      expect(message).not.toContain('hunter2')
    }
    const split = `${endpoint}, headers: { authorization: env:H, x-team: a }`
    const loaded = await load({ configFile: write(`interactions: { otlp: { ${split} } }\n`), env: { H: 'hunter2' } })
    expect(loaded.config.interactions.otlp.headers?.['authorization']?.reveal()).toBe('hunter2')
    const headers = { authorization: '[redacted]', 'x-team': '[redacted]' }
    expect(showConfig(loaded)).toContainEqual(expect.objectContaining({ value: headers }))
    expect(await refusedOtlp(split)).toContain(
      'interactions.otlp.headers.authorization refers to the environment variable H, which is not set',
    )
    for (const address of ['ftp://collector', 'http://ann:b@collector', 'https://collector/?a=b', 'http://']) {
      expect(await refusedOtlp(`endpoint: "${address}"`)).toContain('interactions.otlp.endpoint must be an http://')
    }
  })

  test('an address at a port that no HTTP client connects to is refused', async () => {
    const at = 'http://127.0.0.1:6000'
    const oidc = { id: 'a', name: 'A', issuer: at, client_id: 'b' }
    for (const [field, config] of Object.entries({
      'interactions.otlp.endpoint': { interactions: { otlp: { endpoint: at } } },
      'search.embeddings.url': { search: { embeddings: { url: at } } },
      'oidc_providers.0.issuer': { oidc_providers: [oidc] },
    })) {
      const { message } = await refused(`${JSON.stringify(config)}\n`)
      expect(message).toContain(`${field} must have another port: HTTP clients refuse to connect to this one`)
    }
  })

  test('a wrong secret is not repeated in the message', async () => {
    const error = await refused('database_url: mysql://ann:hunter2@db/x\n')
    expect(error.message).toContain('database_url must be a postgres://')
    expect(JSON.stringify([error.message, error.details])).not.toContain('hunter2')
  })

  test('a URL that cannot be read is redacted whole', () => {
    expect(redactUrl('postgres://ann:hunter2@[bad/x')).toBe('[redacted]')
    expect(String(new Secret('x'))).toBe('[redacted]')
  })
})

describe('the published schema', () => {
  test('every field and group has a description, every field a unique variable, and defaults agree', async () => {
    const variables = configFields().map((field) => field.variable)
    expect(new Set(variables).size).toBe(variables.length)
    const schema = configJsonSchema() as { properties: Record<string, unknown>; additionalProperties: unknown }
    expect(schema.additionalProperties).toBe(false)
    const undocumented = (properties: Record<string, unknown>, path: string): string[] =>
      Object.entries(properties).flatMap(([key, value]) => {
        const member = value as { description?: string; properties?: Record<string, unknown> }
        const below = undocumented(member.properties ?? {}, `${path}${key}.`)
        return member.description ? below : [`${path}${key}`, ...below]
      })
    expect(undocumented(schema.properties, '')).toEqual([])
    const { config } = await load()
    const paths = ['data_dir', 'skills.roots', 'vault.path', 'workspaces.transfer_dir']
    for (const field of configFields()) {
      const effective = field.keys.reduce<unknown>((at, key) => (at as Record<string, unknown>)[key], config)
      if (!paths.includes(field.path)) expect(effective).toEqual(field.default)
    }
  })
})
