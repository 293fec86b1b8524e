import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import { type ImportedServer, parseClientConfig, readClientConfig } from './import-config.ts'
import { importReport, importReportText } from './import-report.ts'
import { parseJsonc } from './jsonc.ts'

const parse = (config: unknown) => parseClientConfig(JSON.stringify(config))

describe('JSON with comments', () => {
  it('reads comments, trailing commas and a byte order mark', () => {
    const text = '\uFEFF// head\n{ /* a */ "a": [1, 2, // two\n ], "b": "x", /* last, */ }\n'
    expect(parseJsonc(text)).toEqual({ a: [1, 2], b: 'x' })
  })

  it('leaves strings alone', () => {
    const value = { url: 'https://x/y', glob: '/* no */ ,]', quote: 'a\\" // b', end: '\\' }
    expect(parseJsonc(JSON.stringify(value))).toEqual(value)
  })

  it.each([
    ['{"a": 1,, "b": 2}', 'line 1, column 9'],
    ['{\n  "a": /* x\n */ oops\n}', 'line 3, column 5'],
    ['{"a": 1 /* open', 'line 1'],
    ['{"a": 1, /*a*/ 2 /*b*/ ]', 'line 1, column 16'],
    ['', 'line 1, column 1'],
    ['[,1]', 'line 1, column 2'],
    ['[1,\n 2 3]', 'line 2, column 4'],
    ['{"a" 1}', 'line 1, column 6'],
    ['{a: 1}', 'line 1, column 2'],
    ['[1}', 'line 1, column 3'],
    ['{} {}', 'line 1, column 4'],
    ['["a\\x"]', 'line 1, column 2'],
  ])('says where %j is wrong, without quoting it', (text, location) => {
    try {
      parseJsonc(text)
      expect.unreachable()
    } catch (error) {
      expect(error).toBeInstanceOf(AppError)
      expect((error as AppError).message).toContain(`not valid JSON at ${location}`)
      expect((error as AppError).message).not.toContain('oops')
    }
  })

  it('finds a place for the mistake in any broken text', () => {
    const characters = fc.string({ unit: fc.constantFrom(...'[]{},:"1a \n\\/*-.e') })
    fc.assert(
      fc.property(characters, (text) => {
        try {
          parseJsonc(text)
        } catch (error) {
          expect((error as AppError).message).toMatch(/^the file is not valid JSON at line \d+, column \d+$/)
        }
      }),
    )
  })

  it('reads every JSON text as JSON does, with comments strewn between', () => {
    fc.assert(
      fc.property(fc.json(), fc.constantFrom(' ', '/* , ] " */', '// , } "\n', '\n\t'), (json, filler) => {
        const value = JSON.parse(json)
        expect(parseJsonc(json)).toEqual(value)
        expect(parseJsonc(filler + JSON.stringify([value]).replace(/\]$/, `,${filler}]${filler}`))).toEqual([value])
      }),
    )
  })
})

describe('reading a client configuration', () => {
  it('reads Claude Desktop and Cursor', () => {
    const { servers, problems } = parse({
      mcpServers: {
        github: { command: 'npx', args: ['-y', 'server-github'], env: { GITHUB_TOKEN: 'ghp_x', PORT: 8080 } },
        plain: { command: '/opt/tool', disabled: true, cwd: '/srv' },
        remote: { url: 'https://mcp.example.com/mcp', headers: { Authorization: 'Bearer x' } },
        windsurf: { serverUrl: 'https://example.com/mcp' },
      },
    })
    expect(problems).toEqual([])
    expect(servers).toEqual<ImportedServer[]>([
      {
        name: 'github',
        enabled: true,
        transport: 'stdio',
        command: 'npx',
        args: ['-y', 'server-github'],
        env: { GITHUB_TOKEN: 'ghp_x', PORT: '8080' },
      },
      { name: 'plain', enabled: false, transport: 'stdio', command: '/opt/tool', args: [], env: {}, cwd: '/srv' },
      {
        name: 'remote',
        enabled: true,
        transport: 'http',
        url: 'https://mcp.example.com/mcp',
        headers: { Authorization: 'Bearer x' },
      },
      { name: 'windsurf', enabled: true, transport: 'http', url: 'https://example.com/mcp', headers: {} },
    ])
  })

  it('reads VS Code, with types and inputs', () => {
    const text = `{
      // servers of this workspace
      "inputs": [{ "type": "promptString", "id": "key", "password": true }],
      "servers": {
        "docs": { "type": "http", "url": "https://docs.example.com/mcp" },
        "db": { "type": "stdio", "command": "db", "env": { "KEY": "\${input:key}" }, "envFile": ".env", },
      },
    }`
    const { servers, problems } = parseClientConfig(text)
    expect(servers.map(({ name, transport }) => [name, transport])).toEqual([
      ['docs', 'http'],
      ['db', 'stdio'],
    ])
    expect(problems.map(({ path, severity }) => [path, severity])).toEqual([
      ['servers.db.envFile', 'note'],
      ['servers.db.env.KEY', 'note'],
    ])
    expect(parse({ mcp: { servers: { a: { command: 'a' } } } }).servers).toHaveLength(1)
  })

  it('reads the projects of Claude Code and takes the first of a name', () => {
    const { servers, problems } = parse({
      mcpServers: { a: { type: 'stdio', command: 'first' } },
      projects: { '/home/x': { mcpServers: { a: { command: 'second' }, b: { type: 'sse', url: 'http://h/sse' } } } },
    })
    expect(servers.map((server) => [server.name, server.transport === 'stdio' ? server.command : server.url])).toEqual([
      ['a', 'first'],
      ['b', 'http://h/sse'],
    ])
    expect(problems).toEqual([
      {
        path: 'projects["/home/x"].mcpServers.a',
        severity: 'error',
        message: 'an earlier server has this name; that one is used',
      },
      expect.objectContaining({ path: 'projects["/home/x"].mcpServers.b', severity: 'note' }),
    ])
  })

  it.each([
    [{ command: 5, args: 'x' }, '.args'],
    [{ command: '' }, '.command'],
    [{ command: {} }, '.command'],
    [{ command: 'a', args: ['x', null] }, '.args[1]'],
    [{ command: 'a', args: ['x\0'] }, '.args[0]'],
    [{ command: 'a', env: { 'A=B': 'x' } }, '.env["A=B"]'],
    [{ command: 'a', env: { A: {} } }, '.env.A'],
    [{ command: 'a', env: [] }, '.env'],
    [{ command: 'a', cwd: [] }, '.cwd'],
    [{ url: 'ftp://x' }, '.url'],
    [{ url: 'not an address' }, '.url'],
    [{ type: 'http' }, '.url'],
    [{ type: 'carrier-pigeon', url: 'http://x' }, '.type'],
    [{ type: 'stdio' }, '.command'],
    [{ command: 'a', url: 'http://x' }, ''],
    [{}, ''],
    ['text', ''],
    [null, ''],
  ])('leaves %j out and names the path', (entry, path) => {
    const { servers, problems } = parse({ mcpServers: { bad: entry, good: { command: 'x' } } })
    expect(servers.map(({ name }) => name)).toEqual(['good'])
    expect(problems).toEqual([
      { path: `mcpServers.bad${path}`, severity: 'error', message: expect.stringMatching(/./) },
    ])
  })

  it('says when there is nothing to import', () => {
    for (const config of [{}, [], null, 'x', { other: {} }]) {
      expect(parse(config)).toMatchObject({ servers: [], problems: [{ path: '$', severity: 'error' }] })
    }
    expect(parse({ mcpServers: 7 }).problems).toMatchObject([{ path: 'mcpServers', severity: 'error' }])
  })

  it('keeps odd names as data', () => {
    const { servers, problems } = parseClientConfig(
      '{"mcpServers": {"__proto__": {"command": "a", "env": {"__proto__": "x"}}, "\\u001b[31m": {"command": "b"}}}',
    )
    expect(servers.map(({ name }) => name)).toEqual(['__proto__'])
    expect(Object.keys((servers[0] as ImportedServer & { env: object }).env)).toEqual(['__proto__'])
    expect(problems).toMatchObject([{ path: 'mcpServers["\\u001b[31m"]', severity: 'error' }])
    expect(({} as { command?: string }).command).toBeUndefined()
  })

  it('answers for any JSON', () => {
    const entry = fc.dictionary(
      fc.constantFrom('command', 'args', 'env', 'url', 'headers', 'type', 'disabled', 'cwd', 'envFile'),
      fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.constantFrom('stdio', 'http', 'https://x/'), fc.array(fc.string())),
    )
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.oneof(entry, fc.jsonValue())), (mcpServers) => {
        const { servers, problems } = parse({ mcpServers })
        const errors = problems.filter(({ severity }) => severity === 'error')
        expect(servers.length + errors.length).toBe(Object.keys(mcpServers).length)
        expect(importReportText({ servers, problems })).not.toMatch(/[^\n\P{Cc}]/u)
      }),
    )
  })
})

describe('showing an import', () => {
  const SECRET = 'S3cr3tS3cr3tS3cr3tS3cr3t'
  const result = parse({
    mcpServers: {
      stdio: {
        command: 'docker',
        args: [
          'run',
          '--api-key',
          SECRET,
          `--token=${SECRET}`,
          '-e',
          `GITHUB_TOKEN=${SECRET}`,
          '--header',
          `Authorization: Bearer ${SECRET}`,
          `postgres://user:${SECRET}@db:5432/main`,
          `--url=https://h/x?key=${SECRET}`,
          `ghp_${SECRET}`,
          '--verbose',
          'image:latest',
        ],
        env: { KEY: SECRET, REFERENCE: `\${KEY}`, OTHER: 'env:KEY', EMPTY: '' },
      },
      http: {
        url: `https://${SECRET}:${SECRET}@mcp.example.com/s/${SECRET}/mcp?token=${SECRET}#${SECRET}`,
        headers: { Authorization: `Bearer ${SECRET}`, 'X-Plain': SECRET },
      },
    },
  })

  it('shows no secret, in text or in JSON, and what is harmless', () => {
    const text = importReportText(result)
    const json = JSON.stringify(importReport(result))
    for (const displayed of [text, json]) {
      expect(displayed).not.toContain(SECRET)
      for (const retained of [
        'docker',
        '--api-key',
        'image:latest',
        'db:5432/main',
        'mcp.example.com',
        `\${KEY}`,
        'env:KEY',
      ]) {
        expect(displayed).toContain(retained)
      }
    }
    expect(JSON.stringify(result)).toContain(SECRET)
  })

  it('prints a line for each server and each problem', () => {
    const displayed = importReportText(
      parse({ mcpServers: { a: { command: 'x', args: ['two words'] }, long: { url: 'http://h/mcp' }, bad: {} } }),
    )
    expect(displayed.split('\n')).toEqual([
      '2 servers',
      "  a     stdio  x 'two words'",
      '  long  http   http://h/mcp',
      '1 problem',
      '  error  mcpServers.bad: needs a command (stdio) or a url (http)',
      '',
    ])
  })

  it('lets no control character through to the terminal', () => {
    const displayed = importReportText(parse({ mcpServers: { a: { command: 'x\u001b[2J\u202e' } } }))
    expect(displayed).toContain("'x\\u001b[2J\\u202e'")
    expect(displayed).not.toContain('\u001b')
  })
})

describe('reading the file', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'castellan-import-'))
  })
  afterAll(() => rm(folder, { recursive: true }))

  it('reads it, and refuses one that is missing, too large or not JSON', async () => {
    const file = join(folder, 'mcp.json')
    await writeFile(file, '{"mcpServers":{"a":{"command":"x"}}}')
    expect((await readClientConfig(file)).servers).toHaveLength(1)
    await expect(readClientConfig(join(folder, 'none.json'))).rejects.toMatchObject({ code: 'ERR_NOT_FOUND' })
    await writeFile(file, '{')
    await expect(readClientConfig(file)).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT' })
    await writeFile(file, ' '.repeat(limits.importFileBytesMax + 1))
    await expect(readClientConfig(file)).rejects.toMatchObject({ code: 'ERR_TOO_LARGE' })
    await expect(readClientConfig(folder)).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT' })
  })
})
