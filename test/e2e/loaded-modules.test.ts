import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { agentYaml } from '../support/executions.ts'
import { startRealServer } from '../support/real-server.ts'
import { runCastellan } from '../support/run-castellan.ts'

let home = ''

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'castellan-modules-'))
  writeFileSync(
    join(home, 'list-modules.mjs'),
    `import { registerHooks } from 'node:module'
import { appendFileSync } from 'node:fs'
registerHooks({ load(url, context, next) { appendFileSync(${JSON.stringify(join(home, 'modules'))}, url + '\\n'); return next(url, context) } })
`,
  )
})
afterEach(() => rmSync(home, { recursive: true, force: true }))

/** What a call without a running server loads: files of our own source, modules of Node, and packages. */
const loadedBy = (tool: string, ...args: readonly string[]): Promise<ReadonlySet<string>> =>
  loadedByCall(tool, ...args, '--data-dir', join(home, 'data'))

async function loadedByCall(...args: readonly string[]): Promise<ReadonlySet<string>> {
  writeFileSync(join(home, 'modules'), '')
  const run = await runCastellan(['call', ...args], {
    home,
    environment: { NODE_OPTIONS: `--import=${join(home, 'list-modules.mjs')}` },
  })
  // The state may be new.
  expect(run.stderr).toMatch(/^(There was no state in .*\n)?$/)
  expect(run.code).toBe(0)
  const parts = readFileSync(join(home, 'modules'), 'utf8').matchAll(
    /src\/.+\.(?:ts|json)|node_modules\/[^/]+|node:\w+/g,
  )
  return new Set([...parts].map(([part]) => part))
}

const WORKSPACES = ['src/domains/workspaces/service.ts', 'src/domains/git/service.ts', 'src/domains/teams/service.ts']
const AGENTS = ['src/domains/agents/service.ts', 'src/domains/workflows/service.ts', 'src/engine/engine.ts']

test('a call loads the domain that it is about, and no other', async () => {
  const pinged = await loadedBy('server_ping')
  const others = ['src/tools/tasks/index.ts', 'src/tools/workspaces/index.ts', 'node_modules/kysely']
  for (const part of [...WORKSPACES, ...AGENTS, ...others]) expect(pinged).not.toContain(part)
  const modules = readFileSync(join(home, 'modules'), 'utf8')
  expect(modules).toContain('/zod/v4/locales/en.js')
  expect(modules).not.toContain('/zod/v4/locales/fr.js')
  const listed = await loadedBy('workspace_list')
  for (const part of WORKSPACES) expect(listed).toContain(part)
  for (const part of [...AGENTS, 'src/tools/agents/index.ts']) expect(listed).not.toContain(part)
  const workflows = await loadedBy('aegis.workflow.list')
  for (const part of AGENTS) expect(workflows).toContain(part)
})

test('a call runs statements that were compiled beforehand, without what compiles them', async () => {
  for (const tool of ['user_list', 'secret_list', 'list_mcp_gateways', 'get_mcp_servers']) {
    expect(await loadedBy(tool), tool).not.toContain('node_modules/kysely')
  }
})

const REMOTE = /^src\/app\/remote\//

test('a call of a server elsewhere loads what speaks to it, and nothing of a server', async () => {
  const server = await startRealServer()
  const there = await loadedByCall('server_ping', '--url', new URL(server.url).origin)
  await server.stop()
  expect(there).toContain('src/app/remote/remote-lines.ts')
  const parts = [...there]
  expect(parts.filter((part) => part.startsWith('node_modules/'))).toEqual([])
  expect(parts.filter((part) => /^src\/(domains|stores|tools\/(?!runtime\/)|accounts)/.test(part))).toEqual([])
  expect(parts).not.toContain('src/app/config.ts')
  expect([...(await loadedBy('server_ping'))].filter((part) => REMOTE.test(part))).toEqual([])
})

test('a call of a server that runs here loads what its socket takes', async () => {
  const server = await startRealServer()
  const here = [...(await loadedByCall('task_list', 'project=p', '--data-dir', server.dataDir))]
  await server.stop()
  expect(here).toContain('src/app/ownership/connect-owner.ts')
  // The list of all tools and the functions of crypto each take a fifth of what Node itself takes to start.
  const costly =
    /^(node_modules|node:crypto|src\/(domains|stores|accounts|tools\/(?!runtime\/)|tools\/runtime\/prepared-tools\.json))/
  expect(here.filter((part) => costly.test(part))).toEqual([])
  expect(here.length).toBeLessThan(70)
})

test('a start loads what the store has work for', async () => {
  const schedule = '  task: { instruction: "Tick." }\n  schedule: { type: interval, seconds: 86400 }\n'
  const create = ['call', 'aegis.agent.create', `manifest_yaml=${agentYaml('ticker', schedule)}`]
  expect((await runCastellan([...create, '--data-dir', join(home, 'data')], { home })).code).toBe(0)
  const pinged = await loadedBy('server_ping')
  for (const part of [...WORKSPACES, ...AGENTS]) expect(pinged).toContain(part)
})
