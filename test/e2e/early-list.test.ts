import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { launcher } from '../support/castellan-client.ts'
import { homeEnvironment } from '../support/run-castellan.ts'

/** The list that a client gets before the program is loaded must be the one that it gets afterwards. */
let home = ''
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), 'castellan-early-'))
})
afterAll(() => rmSync(home, { recursive: true, force: true }))

const initialize = (name: string) => ({
  jsonrpc: '2.0',
  id: 'hello',
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name, version: '1' } },
})
const list = (id: string) => ({ jsonrpc: '2.0', id, method: 'tools/list', params: {} })

type Reply = Readonly<{ id: string; result?: { tools?: { name: string }[] } }>

function connect(args: readonly string[], dataDir: string, environment: Record<string, string> = {}) {
  const child = spawn(launcher, ['mcp', '--data-dir', dataDir, ...args], {
    stdio: ['pipe', 'pipe', 'ignore'],
    cwd: home,
    env: homeEnvironment(home, environment),
  })
  child.stdin.on('error', () => {})
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    say: (message: object) => void child.stdin.write(`${JSON.stringify(message)}\n`),
    next: async () => {
      const { value } = (await lines.next()) as { value: string | undefined }
      return value === undefined ? undefined : (JSON.parse(value) as Reply)
    },
    async leave() {
      child.stdin.end()
      if (child.exitCode === null) await once(child, 'exit')
      return child.exitCode
    },
  }
}

async function bothLists(args: readonly string[], dataDir: string, clientName = 'early-test') {
  const client = connect(args, dataDir)
  client.say(initialize(clientName))
  await client.next()
  client.say(list('early'))
  const early = await client.next()
  client.say({ jsonrpc: '2.0', method: 'notifications/initialized' })
  // An answer that only the loaded program can give: what is listed after it comes from there.
  client.say({ jsonrpc: '2.0', id: 'loaded', method: 'ping' })
  expect(await client.next()).toMatchObject({ id: 'loaded' })
  client.say(list('late'))
  const late = await client.next()
  await client.leave()
  return { early, late }
}

describe('tools/list', () => {
  test.each([
    ['the default list', [], 'early-test'],
    ['every tool', ['--tools', 'full'], 'early-test'],
    ['a toolset and a tool', ['--tools', 'ledger,exec'], 'early-test'],
    ['safe names by flag', ['--tools', 'full', '--names', 'safe'], 'early-test'],
    ['safe names by client', ['--tools', 'full'], 'claude-code'],
    ['documented names by flag', ['--tools', 'full', '--names', 'documented'], 'early-test'],
    ['documented names by client', ['--tools', 'full'], 'contract-check'],
  ])('is the same early and late: %s', async (_what, args, clientName) => {
    const { early, late } = await bothLists(args, join(home, 'alone'), clientName)
    expect(early?.result?.tools?.length).toBeGreaterThan(5)
    expect(early?.result).toEqual(late?.result)
  })

  test.each([
    ['with nothing configured', undefined, {}],
    ['with models', 'models:\n  providers:\n    - { name: m, type: ollama, models: [{ alias: a, model: b }] }\n', {}],
    ['with variables', undefined, { CASTELLAN_LOG_LEVEL: 'error' }],
    ['with tools of its own', 'tools: full\n', {}],
  ])('comes before the state is opened, %s', async (_what, config, environment) => {
    const file = join(home, 'no-directory')
    writeFileSync(file, '')
    const configFile = join(home, 'early.yaml')
    if (config !== undefined) writeFileSync(configFile, config)
    const client = connect(config === undefined ? [] : ['--config', configFile], file, environment)
    client.say(initialize('early-test'))
    client.say(list('early'))
    expect(await client.next()).toMatchObject({ id: 'hello' })
    expect(await client.next()).toMatchObject({ id: 'early', result: { tools: expect.any(Array) } })
    expect(await client.leave()).not.toBe(0)
  })

  test('is that of the process that owns the state', async () => {
    const dataDir = join(home, 'owned')
    const owner = connect(['--mode', 'READONLY'], dataDir)
    owner.say(initialize('owner'))
    owner.say(list('owner'))
    await owner.next()
    const owned = await owner.next()
    const { early, late } = await bothLists([], dataDir)
    expect(early?.result).toEqual(owned?.result)
    expect(late?.result).toEqual(owned?.result)
    expect(early?.result?.tools?.some(({ name }) => name === 'task_create')).toBe(false)
    await owner.leave()
  })

  test.each([
    ['early-test', ['fs.create_dir']],
    ['contract-check', ['fs.create_dir', 'fs.create.dir']],
    ['claude-code', ['fs_create_dir']],
  ])('has the names for %s through the process that owns the state', async (clientName, expected) => {
    const dataDir = join(home, 'owned-names')
    const owner = connect([], dataDir)
    owner.say(initialize('owner'))
    owner.say({ jsonrpc: '2.0', id: 'loaded', method: 'ping' })
    await owner.next()
    await owner.next()
    const { early, late } = await bothLists(['--tools', 'full'], dataDir, clientName)
    const folders = early?.result?.tools?.map(({ name }) => name).filter((name) => /create.dir/.test(name))
    expect(folders?.sort()).toEqual([...expected].sort())
    expect(early?.result).toEqual(late?.result)
    await owner.leave()
  })

  test('follows a configuration file', async () => {
    const dataDir = join(home, 'configured')
    const file = join(home, 'configured.yaml')
    writeFileSync(file, 'tools: [server]\n')
    const { early, late } = await bothLists(['--config', file], dataDir)
    expect(early?.result?.tools?.map(({ name }) => name).sort()).toEqual(['server_health', 'server_ping'])
    expect(early?.result).toEqual(late?.result)
  })
})
