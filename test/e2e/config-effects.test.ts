import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { afterAll, afterEach, expect, test } from 'vitest'
import { configFields } from '../../src/app/config-schema.ts'
import { loadAllTools } from '../../src/tools/index.ts'
import { agentToolEffects } from '../support/agent-tool-effects.ts'
import { approvalEffects } from '../support/approval-effects.ts'
import { runCastellanHere } from '../support/castellan-here.ts'
import { executionEffects } from '../support/execution-effects.ts'
import { agentYaml } from '../support/executions.ts'
import { governanceEffects } from '../support/governance-effects.ts'
import { listeningEffects } from '../support/listening-effects.ts'
import { isLongRun } from '../support/long-run.ts'
import { mcpServerEffects } from '../support/mcp-server-effects.ts'
import { startRealServer, writeSkills } from '../support/real-server.ts'
import { searchEffects } from '../support/search-effects.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'
import { teamEffects } from '../support/team-effects.ts'
import { workflowEffects } from '../support/workflow-effects.ts'
import { once, workspaceEffects } from '../support/workspace-effects.ts'

/**
 * Every setting, given to the program as it is started, changes what the program does. A setting that nothing reads would have no test
 * here, and the first test says so.
 */
let cleanups: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.toReversed()) await cleanup()
  cleanups = []
})

/** What several effects use. */
const lastCleanups: (() => Promise<unknown> | unknown)[] = []
afterAll(async () => {
  for (const cleanup of lastCleanups.toReversed()) await cleanup()
})

type Environment = Record<string, string>
type Effect = () => Promise<void>

async function serve(env: Environment = {}, dataDir?: string): Promise<ServerHere> {
  const server = await startServerHere({ env, ...(dataDir === undefined ? {} : { dataDir }) })
  cleanups.push(() => server.stop())
  return server
}

async function serveForAll(env: Environment): Promise<ServerHere> {
  const server = await startServerHere({ env })
  lastCleanups.push(() => server.stop())
  return server
}

function newHome(): string {
  const home = mkdtempSync(join(tmpdir(), 'castellan-effects-'))
  cleanups.push(() => rmSync(home, { recursive: true, force: true }))
  return home
}

type Reply = Readonly<{ status: number; body: Record<string, unknown> & Partial<Failure> }>
type Failure = Readonly<{ error: { code: string; details: Record<string, unknown> } }>

function send(server: ServerHere, path: string, args?: object, headers: Record<string, string> = {}): Promise<Reply> {
  const body = args === undefined ? undefined : JSON.stringify(args)
  const type = body === undefined ? {} : { 'content-type': 'application/json' }
  return new Promise((resolve, reject) => {
    const sent = request(new URL(path, server.url), {
      method: body === undefined ? 'GET' : 'POST',
      headers: { ...type, ...headers },
      agent: false,
    })
    sent.on('error', reject)
    sent.on('response', async (response) =>
      resolve({ status: response.statusCode!, body: (await json(response)) as Reply['body'] }),
    )
    sent.end(body)
  })
}

const call = (server: ServerHere, tool: string, args: object = {}) => send(server, `/v1/tools/${tool}`, args)
const codeOf = ({ body }: Reply): string | undefined => body.error?.code

async function freePort(): Promise<number> {
  const listener = createServer()
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  const { port } = listener.address() as { port: number }
  await new Promise((resolve) => listener.close(resolve))
  return port
}

const READ_RECORD_ROUNDS = isLongRun ? 5 : 2
const ownerLimited = { CASTELLAN_RATE_LIMITS_OWNER_ENABLED: 'true' }

/** One call passes and the next must wait as long as the rate says. */
const bucketEffect = (
  category: 'CREATE' | 'DEFAULT' | 'EXEC',
  callOnce: (server: ServerHere, n: number) => Promise<Reply>,
): Effect =>
  once(async () => {
    const limited = {
      ...ownerLimited,
      [`CASTELLAN_RATE_LIMITS_${category}_BURST`]: '2',
      [`CASTELLAN_RATE_LIMITS_${category}_PER_MINUTE`]: '3',
    }
    const server = await serve(limited)
    const replies = [await callOnce(server, 1), await callOnce(server, 2), await callOnce(server, 3)]
    expect(replies.map((reply) => codeOf(reply) === 'ERR_RATE_LIMITED')).toEqual([false, false, true])
    const waitMs = Number(replies[2]!.body.error?.details['retry_after_ms'])
    expect(waitMs).toBeGreaterThan(1_000)
    expect(waitMs).toBeLessThanOrEqual(20_000)
  })

const createBucket = bucketEffect('CREATE', (server, n) => call(server, 'api_key_create', { name: `key-${n}` }))
const execBucket = bucketEffect('EXEC', (server) => call(server, 'exec', { workspace_id: 'none', command: 'true' }))
const defaultBucket = bucketEffect('DEFAULT', (server) => call(server, 'server_health'))

/** Nothing can show it: no tool is in the category. As soon as one is, this fails and the setting must be tried. */
const noToolYet =
  (category: string): Effect =>
  async () =>
    expect(
      Object.values(await loadAllTools())
        .flat()
        .filter((tool) => tool.rate === category),
    ).toEqual([])

const effects: Readonly<Record<string, Effect>> = {
  ...mcpServerEffects,
  ...approvalEffects,
  async host() {
    expect((await serve({ CASTELLAN_HOST: '127.0.0.2' })).url).toMatch(/^http:\/\/127\.0\.0\.2:/)
  },
  async port() {
    const home = newHome()
    const port = await freePort()
    const doctor = await runCastellanHere(['doctor'], { home, environment: { CASTELLAN_PORT: String(port) } })
    expect(doctor.stdout).toContain(`127.0.0.1:${port} is free`)
    const server = await startServerHere({ args: ['--port', String(port)] })
    cleanups.push(() => server.stop())
    expect(server.url).toBe(`http://127.0.0.1:${port}/mcp`)
  },
  async require_keys() {
    const refused = await runCastellanHere(['serve', '--port', '0', '--json'], {
      home: newHome(),
      environment: { CASTELLAN_REQUIRE_KEYS: 'true' },
    })
    expect(refused.stderr).toContain('require_keys')
  },
  async data_dir() {
    const home = newHome()
    const environment = { CASTELLAN_DATA_DIR: join(home, 'mine') }
    await runCastellanHere(['call', 'server_ping'], { home, environment })
    expect(existsSync(join(home, 'mine', 'castellan.db'))).toBe(true)
  },
  async database_url() {
    const home = newHome()
    const environment = { CASTELLAN_DATABASE_URL: `postgres://ann@127.0.0.1:${await freePort()}/castellan` }
    const { code } = await runCastellanHere(['call', 'task_list'], { home, environment })
    expect([code, existsSync(join(home, '.local/share/castellan/castellan.db'))]).toEqual([6, false])
  },
  async secret_key() {
    const home = newHome()
    const environment = { CASTELLAN_SECRET_KEY: 'too short' }
    const { code, stderr } = await runCastellanHere(['call', 'secret_list'], { home, environment })
    expect([code, stderr]).toEqual([
      expect.any(Number),
      expect.stringContaining('CASTELLAN_SECRET_KEY: must be 32 bytes'),
    ])
    expect(code).not.toBe(0)
  },
  async mode() {
    const server = await serve({ CASTELLAN_MODE: 'READONLY' })
    expect(codeOf(await call(server, 'task_create', { title: 'x', project: 'p' }))).toBe('ERR_MODE_REFUSED')
  },
  async tools() {
    const { body } = await send(await serve({ CASTELLAN_TOOLS: 'server' }), '/v1/tools')
    expect((body['tools'] as { name: string }[]).map(({ name }) => name)).toEqual(['server_health', 'server_ping'])
  },
  async zaru_mode() {
    const server = await serve({ CASTELLAN_ZARU_MODE: 'chat' })
    expect((await send(server, '/v1/tools')).body['tools']).toEqual([])
    expect(codeOf(await call(server, 'task_list'))).toBe('ERR_MODE_REFUSED')
  },
  async log_level() {
    const options = { home: newHome(), environment: { CASTELLAN_LOG_LEVEL: 'debug' } }
    expect((await runCastellanHere(['mcp'], options)).stderr).toContain('castellan debug: ')
    expect((await runCastellanHere(['mcp', '--log-level', 'info'], options)).stderr).not.toContain('castellan debug: ')
  },
  async 'rate_limits.enabled'() {
    const tight = { CASTELLAN_RATE_LIMITS_DEFAULT_BURST: '1', CASTELLAN_RATE_LIMITS_DEFAULT_PER_MINUTE: '1' }
    const server = await serve({ ...ownerLimited, ...tight, CASTELLAN_RATE_LIMITS_ENABLED: 'false' })
    for (let n = 0; n < 3; n++) expect((await call(server, 'server_health')).status).toBe(200)
  },
  async 'rate_limits.owner.enabled'() {
    const tight = { CASTELLAN_RATE_LIMITS_DEFAULT_BURST: '1', CASTELLAN_RATE_LIMITS_DEFAULT_PER_MINUTE: '1' }
    const [free, limited] = [await serve(tight), await serve({ ...tight, ...ownerLimited })]
    for (const server of [free, limited]) await call(server, 'server_health')
    expect(codeOf(await call(free, 'server_health'))).toBeUndefined()
    expect(codeOf(await call(limited, 'server_health'))).toBe('ERR_RATE_LIMITED')
  },
  'rate_limits.create.per_minute': createBucket,
  'rate_limits.create.burst': createBucket,
  'rate_limits.exec.per_minute': execBucket,
  'rate_limits.exec.burst': execBucket,
  'rate_limits.default.per_minute': defaultBucket,
  'rate_limits.default.burst': defaultBucket,
  'rate_limits.message.per_minute': noToolYet('message'),
  'rate_limits.message.burst': noToolYet('message'),
  async 'ledger.strict_projects'() {
    const server = await serve({ CASTELLAN_LEDGER_STRICT_PROJECTS: 'true' })
    expect(codeOf(await call(server, 'task_create', { title: 'x', project: 'none' }))).toBe('ERR_PROJECT_NOT_FOUND')
  },
  /** An answer means that the record is on disk: also if the machine ends at that moment. */
  async 'audit.read_records'() {
    const home = newHome()
    for (let round = 1; round <= READ_RECORD_ROUNDS; round++) {
      const server = await startRealServer({ env: { CASTELLAN_AUDIT_READ_RECORDS: 'strict' }, dataDir: home })
      cleanups.push(() => server.stop())
      await call(server, 'server_health')
      server.kill('SIGKILL')
      await server.ended
      const checked = await runCastellanHere(['verify', '--data-dir', home, '--json'], { home })
      const { tenants } = JSON.parse(checked.stdout) as { tenants: { entries: number }[] }
      expect(tenants[0]?.entries).toBe(round)
    }
  },
  /** The slow one began first: with the quick one's interval its checkpoint would be there first too. */
  async 'audit.checkpoint_interval_ms'() {
    const slow = await serve({ CASTELLAN_AUDIT_CHECKPOINT_INTERVAL_MS: '3600000' })
    await call(slow, 'task_create', { title: 'x', project: 'p' })
    const quick = await serve()
    await call(quick, 'task_create', { title: 'x', project: 'p' })
    const hasCheckpoint = ({ dataDir }: ServerHere) => existsSync(join(dataDir, 'checkpoints', 'local.checkpoint'))
    await expect.poll(() => hasCheckpoint(quick)).toBe(true)
    expect(hasCheckpoint(slow)).toBe(false)
  },
  async 'skills.roots'() {
    const root = newHome()
    writeSkills(root)
    const options = { home: newHome(), environment: { CASTELLAN_SKILLS_ROOTS: root } }
    const { stdout } = await runCastellanHere(['call', 'skill_list', '--json'], options)
    expect(stdout).toContain('"review-notes"')
  },
  async 'executions.schedule_floor_secs'() {
    const server = await serve({ CASTELLAN_EXECUTIONS_SCHEDULE_FLOOR_SECS: '100' })
    const deploy = (seconds: number) => {
      const schedule = `  schedule: { type: interval, seconds: ${seconds} }\n`
      const manifest_yaml = agentYaml(`beat-${seconds}`, `  task: { instruction: "Tick." }\n${schedule}`)
      return call(server, 'aegis.agent.create', { manifest_yaml })
    }
    expect([(await deploy(100)).status, codeOf(await deploy(99))]).toEqual([200, 'ERR_INVALID_INPUT'])
  },
  async 'vault.enabled'() {
    const server = await serve({ CASTELLAN_VAULT_ENABLED: 'false' })
    expect(codeOf(await call(server, 'vault', { action: 'list' }))).toBe('ERR_FEATURE_DISABLED')
  },
  async 'vault.path'() {
    const notes = newHome()
    const server = await serve({ CASTELLAN_VAULT_PATH: notes })
    await call(server, 'vault', { action: 'write', path: 'note.md', content: 'x' })
    expect(existsSync(join(notes, 'note.md'))).toBe(true)
  },
  async 'vault.extensions'() {
    const server = await serve({ CASTELLAN_VAULT_EXTENSIONS: 'txt' })
    const write = (path: string) => call(server, 'vault', { action: 'write', path, content: 'x' })
    expect([(await write('note.txt')).status, codeOf(await write('note.md'))]).toEqual([200, 'ERR_INVALID_INPUT'])
  },
  async 'vault.exclude_dirs'() {
    const server = await serve({ CASTELLAN_VAULT_EXCLUDE_DIRS: 'attic' })
    const write = (path: string) => call(server, 'vault', { action: 'write', path, content: 'x' })
    expect([(await write('.git/note.md')).status, codeOf(await write('attic/note.md'))]).toEqual([
      200,
      'ERR_INVALID_INPUT',
    ])
  },
  ...workspaceEffects({ serve, call, send, serveForAll, atTheEnd: (cleanup) => lastCleanups.push(cleanup) }),
  ...teamEffects({ serve, call }),
  ...agentToolEffects({ serve, call, send, newHome }),
  ...governanceEffects,
  ...searchEffects,
  ...listeningEffects({ serve, newHome, onEnd: (cleanup) => cleanups.push(cleanup) }),
  ...executionEffects,
  ...workflowEffects({ serve, call }),
  async allowed_hosts() {
    const headers = { host: 'castle.example' }
    const [plain, open] = [await serve(), await serve({ CASTELLAN_ALLOWED_HOSTS: 'castle.example' })]
    expect(codeOf(await send(plain, '/health', undefined, headers))).toBe('ERR_HOST_REFUSED')
    expect((await send(open, '/health', undefined, headers)).status).toBe(200)
  },
  async allowed_origins() {
    const headers = { origin: 'https://console.example' }
    const [plain, open] = [await serve(), await serve({ CASTELLAN_ALLOWED_ORIGINS: 'https://console.example' })]
    expect(codeOf(await send(plain, '/health', undefined, headers))).toBe('ERR_ORIGIN_REFUSED')
    expect((await send(open, '/health', undefined, headers)).status).toBe(200)
  },
}

test('every setting is tried here', () => {
  expect(Object.keys(effects).toSorted()).toEqual(
    configFields()
      .map(({ path }) => path)
      .toSorted(),
  )
})

test.each(Object.entries(effects))('%s', async (_, effect) => {
  await effect()
})
