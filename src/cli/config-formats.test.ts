import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type ImportedServer, parseClientConfig, readClientConfig } from './import-config.ts'

describe('reading the formats of other clients', () => {
  it('reads the TOML of Codex', () => {
    const text = `
model = "gpt-x"
[mcp_servers.files]
command = "/opt/files"
args = ["--root", "/srv"]
cwd = "/srv"
startup_timeout_sec = 10
[mcp_servers.files.env]
TOKEN = "secret"
[mcp_servers."far away"]
url = "https://mcp.example.com/mcp"
http_headers = { "X-Team" = "a" }
bearer_token_env_var = "FAR_TOKEN"
enabled = false
`
    const { servers, problems } = parseClientConfig(text, 'toml')
    expect(servers).toEqual<ImportedServer[]>([
      {
        name: 'files',
        enabled: true,
        transport: 'stdio',
        command: '/opt/files',
        args: ['--root', '/srv'],
        env: { TOKEN: 'secret' },
        cwd: '/srv',
      },
      {
        name: 'far away',
        enabled: false,
        transport: 'http',
        url: 'https://mcp.example.com/mcp',
        headers: { 'X-Team': 'a' },
      },
    ])
    expect(problems).toEqual([
      { path: 'mcp_servers["far away"].bearer_token_env_var', severity: 'note', message: expect.any(String) },
    ])
  })

  it('reads opencode and Kilo', () => {
    const { servers, problems } = parseClientConfig(
      JSON.stringify({
        mcp: {
          files: { type: 'local', command: ['/opt/files', '--root', '/srv'], environment: { A: '{env:A}' } },
          far: { type: 'remote', url: 'https://mcp.example.com/mcp', headers: { H: 'x' }, enabled: false },
          empty: { type: 'local', command: [] },
        },
      }),
    )
    expect(servers).toEqual<ImportedServer[]>([
      {
        name: 'files',
        enabled: true,
        transport: 'stdio',
        command: '/opt/files',
        args: ['--root', '/srv'],
        env: { A: '{env:A}' },
      },
      { name: 'far', enabled: false, transport: 'http', url: 'https://mcp.example.com/mcp', headers: { H: 'x' } },
    ])
    expect(problems.map(({ path, severity }) => [path, severity])).toEqual([
      ['mcp.files.env.A', 'note'],
      ['mcp.empty.command', 'error'],
    ])
  })

  it('reads the YAML of Continue', () => {
    const text = `
name: mine
mcpServers:
  - name: files
    command: /opt/files
    args: [--root, /srv]
    env: { TOKEN: "\${{ secrets.TOKEN }}" }
  - name: far
    type: streamable-http
    url: https://mcp.example.com/mcp
    requestOptions: { headers: { H: x } }
  - command: /opt/nameless
`
    const { servers, problems } = parseClientConfig(text, 'yaml')
    expect(servers).toEqual<ImportedServer[]>([
      {
        name: 'files',
        enabled: true,
        transport: 'stdio',
        command: '/opt/files',
        args: ['--root', '/srv'],
        env: { TOKEN: '\u0024{{ secrets.TOKEN }}' },
      },
      { name: 'far', enabled: true, transport: 'http', url: 'https://mcp.example.com/mcp', headers: { H: 'x' } },
    ])
    expect(problems.map(({ path, severity }) => [path, severity])).toEqual([
      ['mcpServers[0].env.TOKEN', 'note'],
      ['mcpServers[2]', 'error'],
    ])
  })

  it.each([
    ['toml', 'a = 1\nsecret-word = = 2\n', /^the file is not valid TOML at line 2, column \d+$/],
    ['yaml', 'a: 1\nb: [secret-word\n', /^the file is not valid YAML at line \d, column \d+$/],
    ['yaml', 'a: *gone', /^the file is not valid YAML/],
  ] as const)('says where %s is wrong, without quoting it', (format, text, message) => {
    expect(() => parseClientConfig(text, format)).toThrow(message)
  })

  it('takes the format from the name of the file', async () => {
    const files = {
      'config.toml': '[mcp_servers.a]\ncommand = "x"\n',
      'config.yml': 'mcpServers: [{name: a, command: x}]\n',
    }
    const folder = await mkdtemp(join(tmpdir(), 'castellan-import-'))
    try {
      for (const [name, text] of Object.entries(files)) {
        await writeFile(join(folder, name), text)
        expect((await readClientConfig(join(folder, name))).servers).toMatchObject([{ name: 'a', command: 'x' }])
      }
    } finally {
      await rm(folder, { recursive: true })
    }
  })
})
