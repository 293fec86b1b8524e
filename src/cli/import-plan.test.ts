import { describe, expect, it } from 'vitest'
import { parseClientConfig } from './import-config.ts'
import { planOf } from './import-plan.ts'
import { isRegistryServer, planOfRegistryServer } from './import-registry.ts'

const SECRET = 'ghp_0123456789abcdef'
const plan = (server: object) => planOf(parseClientConfig(JSON.stringify({ mcpServers: { it: server } })).servers[0]!)

describe('a server of a client’s configuration', () => {
  it('that is run keeps its command, and its secrets are marked as such', () => {
    const { create, values, notes } = plan({
      command: 'npx',
      args: ['-y', 'server-x', '--token', SECRET, '/srv/data'],
      env: { API_KEY: SECRET, LEVEL: 'debug', FROM_ENV: `\${env:MY_TOKEN}`, PLAIN: SECRET },
      cwd: '/srv',
    })
    expect(create).toMatchObject({
      name: 'it',
      serverType: 'local',
      command: 'npx',
      arguments: ['-y', 'server-x', '--token', `\${user_config.argument_4}`, '/srv/data'],
      userConfig: { argument_4: { sensitive: true, required: true } },
    })
    expect(create['environment']).toEqual([
      { key: 'API_KEY', type: 'secret', value: SECRET, promptOnInstallation: false },
      { key: 'LEVEL', type: 'plain_text', value: 'debug', promptOnInstallation: false },
      { key: 'FROM_ENV', type: 'secret', value: 'env:MY_TOKEN', promptOnInstallation: false },
      { key: 'PLAIN', type: 'secret', value: SECRET, promptOnInstallation: false },
    ])
    expect(values).toEqual({ argument_4: SECRET })
    expect(notes.join()).toMatch(/mounts.*cwd/)
  })

  it('that is reached keeps its address without secrets, which are values of the deployment', () => {
    const { create, values } = plan({
      url: `https://mcp.example/mcp?api_key=${SECRET}&team=a`,
      headers: { Authorization: `Bearer ${SECRET}`, 'X-Org': '$ORG' },
    })
    expect(create).toMatchObject({
      serverUrl: 'https://mcp.example/mcp?team=a',
      authFields: [{ name: 'api_key', type: 'query', secret: true }],
      userConfig: { header_authorization: { headerName: 'Authorization', valuePrefix: 'Bearer ', sensitive: true } },
    })
    expect(JSON.stringify(create)).not.toContain(SECRET)
    expect(values).toEqual({ header_authorization: SECRET, header_x_org: 'env:ORG', api_key: SECRET })
  })
})

describe('a server.json of the registry', () => {
  const document = {
    name: 'io.example/weather',
    title: 'Weather',
    description: 'Tells the weather.',
    version: '1.2.0',
    repository: { url: 'https://example.org/weather', source: 'github' },
    packages: [
      { registryType: 'oci', identifier: 'x/weather' },
      {
        registryType: 'npm',
        identifier: '@example/weather',
        version: '1.2.0',
        transport: { type: 'stdio' },
        packageArguments: [
          { type: 'positional', value: 'serve' },
          { type: 'named', name: '--units', default: 'metric' },
        ],
        environmentVariables: [{ name: 'KEY', isRequired: true, isSecret: true, description: 'Your key.' }],
      },
    ],
    remotes: [
      {
        type: 'streamable-http',
        url: 'https://weather.example/mcp',
        headers: [{ name: 'X-Key', isSecret: true, isRequired: true }],
      },
    ],
  }

  it('is a package that is run, and asks for what it needs', () => {
    expect(isRegistryServer(document)).toBe(true)
    expect(isRegistryServer({ mcpServers: {} })).toBe(false)
    expect(planOfRegistryServer(document).create).toMatchObject({
      name: 'Weather',
      version: '1.2.0',
      repository: 'https://example.org/weather',
      command: 'npx',
      arguments: ['-y', '@example/weather@1.2.0', 'serve', '--units', 'metric'],
      environment: [
        { key: 'KEY', type: 'secret', promptOnInstallation: true, required: true, description: 'Your key.' },
      ],
    })
  })

  it('is an address where nothing can be run', () => {
    const { packages: _, ...remote } = document
    expect(planOfRegistryServer(remote).create).toMatchObject({
      serverUrl: 'https://weather.example/mcp',
      userConfig: { header_x_key: { headerName: 'X-Key', sensitive: true, required: true } },
    })
    expect(() => planOfRegistryServer({ name: 'x', packages: [] })).toThrow('cannot run here')
  })
})
