import { describe, expect, test } from 'vitest'
import { errorOf, openCliHome } from '../support/cli-home.ts'

/** The command that registers the servers of other clients. */
const { plain, write } = openCliHome()

describe('import', () => {
  test('shows the servers of a client’s configuration, without its secrets', async () => {
    const file = write(
      'mcp.json',
      JSON.stringify({
        mcpServers: {
          files: { command: 'npx', args: ['-y', 'server-files', '/srv'], env: { API_KEY: 'sk-secret' } },
          web: { url: 'https://mcp.example.com/mcp', headers: { Authorization: 'Bearer sk-secret' } },
          odd: { args: [] },
        },
      }),
    )
    const displayed = await plain(['import', file, '--dry-run'])
    expect([displayed.code, displayed.stderr]).toEqual([0, ''])
    expect(displayed.stdout).toMatch(
      /^2 servers\n {2}files +stdio +npx -y server-files \/srv .*\n {2}web +http .*\n1 problem\n.*\n$/,
    )
    expect(displayed.stdout).not.toContain('sk-secret')
    const { servers } = JSON.parse((await plain(['import', file, '--dry-run', '--json'])).stdout) as {
      servers: { name: string }[]
    }
    expect(servers.map(({ name }) => name)).toEqual(['files', 'web'])
  })

  test('fails clearly for what is not there, is not JSON, or holds no server', async () => {
    const missing = await plain(['import', 'none.json', '--json'])
    expect([missing.code, errorOf(missing).message]).toEqual([3, expect.stringContaining('none.json')])
    expect((await plain(['import', write('half.json', '{')])).code).toBe(2)
    expect((await plain(['import', write('empty.json', '{}')])).code).toBe(2)
  })
})
