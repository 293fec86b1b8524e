import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type CastellanClient, connectClient, launcher } from '../support/castellan-client.ts'
import { type RealServer, startRealServer } from '../support/real-server.ts'
import { homeEnvironment, runCastellan } from '../support/run-castellan.ts'

/** `castellan serve` and `castellan mcp` as processes: who may come in, how they end, and how they share a state. */
let home = ''
let dataDir = ''
let servers: RealServer[] = []
let clients: CastellanClient[] = []

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'castellan-serve-'))
  dataDir = join(home, 'state')
  mkdirSync(dataDir)
  servers = []
  clients = []
})

afterEach(async () => {
  for (const one of [...servers, ...clients]) one.kill('SIGKILL')
  await Promise.all([...servers, ...clients].map((one) => one.ended))
  rmSync(home, { recursive: true, force: true })
})

const COUNTING_LOADS = `
import { registerHooks } from 'node:module'
let count = 0
registerHooks({ load(url, context, next) {
  if (url.startsWith('file:')) count++
  return next(url, context)
} })
process.on('exit', () => process.stderr.write('loaded ' + count + '\\n'))
`

const run = (args: readonly string[], environment = {}) =>
  runCastellan([...args, '--data-dir', dataDir], { home, environment })

async function serve(args: readonly string[] = [], env: Record<string, string> = {}): Promise<RealServer> {
  const server = await startRealServer({ dataDir, args, env })
  servers.push(server)
  return server
}

async function mcp(args: readonly string[] = []): Promise<CastellanClient> {
  const all = ['mcp', '--data-dir', dataDir, ...args]
  const child = spawn(launcher, all, { stdio: ['pipe', 'pipe', 'pipe'], env: homeEnvironment(home) })
  const client = await connectClient(child)
  clients.push(client)
  // The handshake is answered before the state is open.
  await client.call('server_ping')
  return client
}

async function createKey(...args: string[]): Promise<string> {
  const { code, stdout } = await run(['keys', 'create', 'laptop', '--json', ...args])
  expect(code).toBe(0)
  return (JSON.parse(stdout) as { secret: string }).secret
}

type Reply = Readonly<{ status: number; body: Record<string, unknown> & { error?: { code: string } } }>
async function post(server: RealServer, tool: string, args: object, key?: string): Promise<Reply> {
  const headers = {
    'content-type': 'application/json',
    ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
  }
  const url = new URL(`/v1/tools/${tool}`, server.url)
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(args) })
  return { status: response.status, body: (await response.json()) as Reply['body'] }
}

async function storedTasks(): Promise<string[]> {
  const { stdout } = await run(['call', 'task_list', 'limit=500', '--json'])
  return (JSON.parse(stdout) as { tasks: { task_id: string }[] }).tasks.map((task) => task.task_id).toSorted()
}

describe('keys', () => {
  test('a key works over HTTP until it is revoked, and is listed without its secret', async () => {
    const key = await createKey('--role', 'editor', '--expires', '90d')
    const server = await serve()
    const created = await post(server, 'task_create', { title: 'by key', project: 'p' }, key)
    expect(created.status).toBe(200)
    expect((await post(server, 'api_key_list', {}, key)).body.error?.code).toBe('ERR_PERMISSION_DENIED')

    const listed = await run(['keys', 'list'])
    expect(listed.stdout).toMatch(/^ID +NAME +ROLE +TIER +STATUS/)
    expect(listed.stdout).toMatch(/laptop +editor +user +live/)
    expect(listed.stdout).not.toContain(key)

    const revoked = await run(['keys', 'revoke', 'laptop'])
    expect(revoked.stdout).toMatch(/^Revoked laptop \(.+\)\.\n$/)
    const refused = await post(server, 'task_list', {}, key)
    expect([refused.status, refused.body.error?.code]).toEqual([401, 'ERR_UNAUTHENTICATED'])
  })

  test('an address that others can reach is refused without a live key, and then demands one of everybody', async () => {
    const refused = await run(['serve', '--port', '0', '--host', '0.0.0.0', '--json'])
    expect(refused.code).toBe(2)
    expect(JSON.parse(refused.stderr)).toMatchObject({
      error: { code: 'ERR_CONFIG_INVALID', details: { field: 'host' } },
    })
    expect(refused.stdout).toBe('')

    const key = await createKey()
    const server = await serve(['--host', '0.0.0.0'])
    expect(server.url).toMatch(/^http:\/\/localhost:\d+\/mcp$/)
    expect((await post(server, 'server_ping', {})).status).toBe(401)
    expect((await post(server, 'server_ping', {}, key)).status).toBe(200)
  })

  test('require_keys takes the owner away from the loopback address, and needs a live key as well', async () => {
    const required = { CASTELLAN_REQUIRE_KEYS: 'true' }
    const refused = await run(['serve', '--port', '0'], required)
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringMatching(/'require_keys' is true, .*ERR_CONFIG_INVALID/s),
    ])
    const key = await createKey()
    const server = await serve([], required)
    expect((await post(server, 'server_ping', {})).body.error?.code).toBe('ERR_UNAUTHENTICATED')
    expect((await post(server, 'server_ping', {}, key)).status).toBe(200)
    const health = await fetch(new URL('/health', server.url))
    expect(health.status).toBe(200)
  })

  test('require_keys holds for the port, though another process owns the state', async () => {
    const key = await createKey()
    const owner = await mcp()
    const server = await serve([], { CASTELLAN_REQUIRE_KEYS: 'true' })
    expect(await owner.call('server_health')).toMatchObject({ answer: { owner_pid: owner.pid } })
    expect((await post(server, 'server_ping', {})).status).toBe(401)
    expect((await post(server, 'server_health', {}, key)).body).toMatchObject({ owner_pid: owner.pid })
  })
})

describe('the announcement', () => {
  async function announced(args: readonly string[], environment = {}): Promise<string> {
    const child = spawn(launcher, ['serve', '--port', '0', '--data-dir', dataDir, ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
      cwd: home,
      env: homeEnvironment(home, environment),
    })
    const lines: string[] = []
    for await (const line of createInterface({ input: child.stdout })) {
      lines.push(line)
      if (line === 'End with Ctrl-C.') child.kill('SIGTERM')
    }
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    return lines.join('\n')
  }

  const jsonOf = (text: string, client: string): unknown =>
    JSON.parse(/(\{.*\})$/.exec(text.split('\n').find((line) => line.trimStart().startsWith(client))!)![1]!)

  test('says what to paste into each client, and how to start this very program over stdio', async () => {
    const text = await announced([])
    const url = /MCP +(http:\/\/127\.0\.0\.1:\d+\/mcp)/.exec(text)![1]
    expect(jsonOf(text, 'Cursor')).toEqual({ mcpServers: { castellan: { url } } })
    expect(jsonOf(text, 'VS Code')).toEqual({ servers: { castellan: { type: 'http', url } } })
    expect(text).not.toMatch(/Bearer|also at|listens|Warning/)
    expect(text).toContain(`over stdio    ${launcher} mcp --data-dir ${dataDir}`)
  })

  test('names addresses that work where it listens on all, and gives every client the header', async () => {
    await createKey()
    const text = await announced(['--host', '0.0.0.0'])
    const url = /MCP +(http:\/\/localhost:\d+\/mcp)/.exec(text)![1]
    expect(text).toMatch(/also at +http:\/\/\S+:\d+\/mcp/)
    expect(text).not.toContain('0.0.0.0')
    expect(text).toContain('Warning: this is plain HTTP, so others on the network can read keys')
    expect(text).toContain(`castellan ${url} --header "Authorization: Bearer $CASTELLAN_API_KEY"`)
    const cursor = { url, headers: { Authorization: `Bearer \${env:CASTELLAN_API_KEY}` } }
    expect(jsonOf(text, 'Cursor')).toEqual({ mcpServers: { castellan: cursor } })
    expect(jsonOf(text, 'VS Code')).toMatchObject({
      inputs: [{ id: 'castellan-key', type: 'promptString', password: true }],
      servers: { castellan: { headers: { Authorization: `Bearer \${input:castellan-key}` } } },
    })
  })

  test('a public address is the one for clients, and says once where the server listens', async () => {
    await createKey()
    const text = await announced(['--public-url', 'https://castellan.example'])
    expect(text).toMatch(/^ {2}MCP {6}https:\/\/castellan\.example\/mcp$/m)
    expect(text).toContain('castellan https://castellan.example/mcp --header')
    expect(text.match(/127\.0\.0\.1:\d+/g)).toHaveLength(1)
    expect(text).toMatch(/^ {2}listens {2}http:\/\/127\.0\.0\.1:\d+$/m)
    expect(text).not.toContain('Warning')
  })
})

describe('an orderly end', () => {
  const CALLS = 200

  test('serve answers what it has begun and ends with 0', async () => {
    const server = await serve()
    const answers = Array.from({ length: CALLS }, (_, index) =>
      post(server, 'task_create', { title: `task ${index}`, project: 'p' }).then(
        ({ status, body }) => ({ status, id: body['task_id'] }),
        () => ({ status: 0, id: undefined }),
      ),
    )
    await Promise.race(answers)
    server.kill('SIGTERM')
    const all = await Promise.all(answers)
    expect(await server.ended).toBe(0)
    const done = all.filter(({ status }) => status === 200)
    expect(all.filter(({ status }) => ![200, 503, 0].includes(status))).toEqual([])
    expect(await storedTasks()).toEqual(done.map(({ id }) => String(id)).toSorted())
  })

  test.each([
    ['owns the state', false],
    ['goes through another process', true],
  ])('mcp that %s answers what it has begun and ends with 0', async (_, hasOwner) => {
    const owner = hasOwner ? await mcp() : undefined
    const client = await mcp()
    const answers = Array.from({ length: CALLS }, (_, index) =>
      client.call('task_create', { title: `task ${index}`, project: 'p' }),
    )
    await Promise.race(answers)
    client.kill('SIGTERM')
    const all = await Promise.all(answers)
    expect(await client.ended).toBe(0)
    const done = all.flatMap((outcome) => (outcome.kind === 'done' ? [String(outcome.answer['task_id'])] : []))
    expect(done.length).toBeGreaterThan(0)
    expect(await storedTasks()).toEqual(done.toSorted())
    if (owner !== undefined) expect(await owner.call('server_ping')).toMatchObject({ kind: 'done' })
  })

  test('mcp whose client leaves ends with 0', async () => {
    const client = await mcp()
    client.endInput()
    expect(await client.ended).toBe(0)
  })
})

describe('one state', () => {
  test('a server and two clients show the same owner', async () => {
    const server = await serve()
    const health = [
      (await post(server, 'server_health', {})).body,
      ...(await Promise.all((await Promise.all([mcp(), mcp()])).map((client) => client.call('server_health')))).map(
        (outcome) => (outcome.kind === 'done' ? outcome.answer : outcome),
      ),
    ]
    expect(health).toEqual(Array(3).fill(expect.objectContaining({ owner_pid: server.pid })))
    const doctor = await run(['doctor'])
    expect(doctor.stdout).toMatch(new RegExp(`owner +ok +process ${server.pid}, castellan`))
    const onItsPort = await run(['doctor', '--port', new URL(server.url).port])
    expect(onItsPort.stdout).toMatch(/port +ok +127\.0\.0\.1:\d+ is served by castellan [\d.]+, mode FULL, ready/)

    // The way to a running server must stay short: everything else is loaded there already.
    const configured = join(dataDir, 'castellan.yaml')
    writeFileSync(
      configured,
      'models:\n  providers:\n    - { name: m, type: ollama, models: [{ alias: a, model: b }] }\n',
    )
    const outdated = await run(['doctor', '--config', configured])
    expect(onItsPort.stdout).not.toContain('other settings')
    expect(outdated.stdout).toMatch(
      /configuration +note +the running server was started with other settings: models\. Restart it/,
    )
    expect(outdated.stdout).toMatch(/models +note +the running server was started with other settings/)
    const counting = join(home, 'counting.mjs')
    writeFileSync(counting, COUNTING_LOADS)
    const environment = { NODE_OPTIONS: `--import=${counting}`, CASTELLAN_API_KEY: 'cst_of_another' }
    const called = await run(['call', 'task_list', 'project=p', '--json'], environment)
    expect(called.stdout).toContain('"total_count":0')
    expect(Number(/^loaded (\d+)$/m.exec(called.stderr)?.[1])).toBeLessThan(60)
  })

  test('a port lists the tools that its own process was told to, whichever process owns the state', async () => {
    await mcp()
    const server = await serve(['--tools', 'server'])
    const response = await fetch(new URL('/v1/tools', server.url))
    const { tools } = (await response.json()) as { tools: { name: string }[] }
    expect(tools.map((tool) => tool.name).toSorted()).toEqual(['server_health', 'server_ping'])
  })

  test.each([
    ['a flag', ['--mode', 'READONLY'], {}, ''],
    ['a variable', [], { CASTELLAN_MODE: 'READONLY' }, ''],
    ['a file', [], {}, 'mode: READONLY\n'],
  ])('a mode chosen by %s that is not the owner’s is refused', async (_, args, environment, file) => {
    const owner = await mcp()
    if (file !== '') writeFileSync(join(dataDir, 'castellan.yaml'), file)
    const refused = await run(['call', 'server_ping', '--json', ...args], environment)
    expect(refused.code).toBe(4)
    const { error } = JSON.parse(refused.stderr) as { error: { code: string; message: string; details: object } }
    expect(error).toMatchObject({
      code: 'ERR_MODE_REFUSED',
      details: { owner_pid: owner.pid, owner_mode: 'FULL', mode: 'READONLY' },
    })
    expect(error.message).toContain(`process ${owner.pid} owns`)
    const started = await run(['serve', '--port', '0', ...args], environment)
    expect([started.code, started.stderr]).toEqual([4, expect.stringContaining('ERR_MODE_REFUSED')])
  })

  test('the same mode, or none at all, joins the owner', async () => {
    await mcp(['--mode', 'READONLY'])
    expect((await run(['call', 'server_ping', '--mode', 'READONLY'])).code).toBe(0)
    expect((await run(['call', 'server_ping'])).code).toBe(0)
    const write = await run(['call', 'task_create', 'title=x', 'project=p', '--json'])
    expect([write.code, JSON.parse(write.stderr)]).toEqual([
      4,
      { error: expect.objectContaining({ code: 'ERR_MODE_REFUSED' }) },
    ])
    const alone = await run(['call', 'task_create', 'title=x', 'project=p', '--mode', 'TEST'])
    expect(alone.code).toBe(0)
  })

  test('a port that is taken is told, with exit code 6', async () => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    const { port } = taken.address() as { port: number }
    const refused = await run(['serve', '--port', String(port)])
    taken.close()
    expect([refused.code, refused.stderr]).toEqual([6, expect.stringContaining(`127.0.0.1:${port}`)])
  })
})
