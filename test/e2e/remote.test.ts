import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runCastellanHere } from '../support/castellan-here.ts'
import { castellanJson } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'
import { makeTlsPair, type TlsPair } from '../support/tls-files.ts'

/** Commands as clients of a server elsewhere: over TLS of a private authority, with a key. */
let server: ServerHere
let pair: TlsPair
let home = ''
let key = ''
let origin = ''

beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'castellan-remote-'))
  pair = makeTlsPair(home, 'private')
  const dataDir = newDataDir()
  key = String(
    (await castellanJson({ dataDir }, ['keys', 'create', 'there', '--role', 'admin', '--tier', 'operator']))['secret'],
  )
  server = await startServerHere({
    dataDir,
    env: { CASTELLAN_REQUIRE_KEYS: 'true', CASTELLAN_RATE_LIMITS_ENABLED: 'false' },
    args: ['--tls-cert', pair.cert, '--tls-key', pair.key],
  })
  origin = new URL(server.url).origin
})
afterAll(async () => {
  await server.stop()
  rmSync(server.dataDir, { recursive: true, force: true })
  rmSync(home, { recursive: true, force: true })
})

/** As a user who has set up their shell for that server. */
const there = (args: readonly string[], environment: Record<string, string> = {}, input?: string) =>
  runCastellanHere(args, {
    home,
    environment: { CASTELLAN_URL: origin, CASTELLAN_CA: pair.cert, CASTELLAN_API_KEY: key, ...environment },
    ...(input === undefined ? {} : { input }),
  })

const answerOf = async (args: readonly string[]) => {
  const run = await there([...args, '--json'])
  expect(run.stderr).toBe('')
  expect(run.code).toBe(0)
  return JSON.parse(run.stdout) as Record<string, unknown>
}

describe('a command with the address of a gateway', () => {
  const through = (name: string) => ({ CASTELLAN_URL: `${origin}/mcp/${name}` })

  it('uses the tools of that gateway', async () => {
    await answerOf(['call', 'create_mcp_gateway', 'name=Remote'])
    const listed = await there(['tools', '--json'], through('remote'))
    expect([listed.stderr, listed.code]).toEqual(['', 0])
    expect(JSON.parse(listed.stdout)).toEqual(expect.anything())
    const unknown = await there(['call', 'task_create', 'title=x', 'project=p', '--json'], through('remote'))
    expect([unknown.code, unknown.stderr]).toEqual([3, expect.stringContaining('task_create')])
    expect((await there(['doctor'], through('remote'))).code).toBe(0)
  })

  it('says that there is no such gateway', async () => {
    const run = await there(['tools'], through('nowhere'))
    expect([run.code, run.stderr]).toEqual([3, expect.stringContaining('no gateway')])
  })
})

describe('a command with CASTELLAN_URL', () => {
  it('calls a tool there, and leaves no state here', async () => {
    const made = await answerOf(['call', 'task_create', 'title=from afar', 'project=p'])
    expect(made).toMatchObject({ task_id: 'T-0001', created_by: 'there' })
    const run = await runCastellanHere(['call', 'task_list', '--json', '--data-dir', join(home, 'here')], {
      home,
      environment: { CASTELLAN_URL: origin },
    })
    expect(JSON.parse(run.stdout)).toMatchObject({ tasks: [] })
  })

  it.each([
    ['keys', ['keys', 'list'], { keys: [expect.objectContaining({ name: 'there' })] }],
    ['users', ['users', 'create', 'eve@example.com'], { email: 'eve@example.com' }],
    ['teams', ['teams', 'create', 'design'], { name: 'design' }],
    ['invite', ['invite', 'create', 'bob@example.com'], { email: 'bob@example.com' }],
    ['clients', ['clients', 'list'], { clients: [] }],
    ['roles', ['roles', 'create', 'reader', '--permissions', 'task:read'], { name: 'reader', built_in: false }],
    ['secrets', ['secrets', 'list'], { secrets: [] }],
    ['doctor', ['doctor'], { healthy: true }],
  ])('%s', async (_name, args, expected) => expect(await answerOf(args)).toMatchObject(expected))

  it('prints links that begin with the address of that server', async () => {
    const { link } = await answerOf(['users', 'create', 'ann@example.com'])
    expect(link).toMatch(new RegExp(`^${origin}/invitation/`))
  })

  it('imports servers of a file of this machine', async () => {
    const file = join(home, 'mcp.json')
    const far = { url: 'https://203.0.113.9/mcp', headers: { Authorization: 'Bearer secret-0123456789' } }
    writeFileSync(file, JSON.stringify({ mcpServers: { notes: { command: 'notes-server' }, far } }))
    expect(await answerOf(['import', file, '--catalog-only'])).toMatchObject({
      servers: [
        { name: 'notes', outcome: 'registered', detail: '' },
        { name: 'far', outcome: 'registered', detail: expect.stringContaining('not stored: the values of header_') },
      ],
    })
  })

  it('lists the tools of that server, and shows one', async () => {
    const listed = (await answerOf(['tools'])) as unknown as { name: string }[]
    expect(listed.map(({ name }) => name)).toEqual(expect.arrayContaining(['task_create', 'api_key_create', 'exec']))
    expect((await there(['tools', 'task_create'])).stdout).toContain('Parameters:')
    expect(await there(['tools', 'task_creat'])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("Did you mean 'task_create'?"),
    })
  })

  it('exports the log, and verifies it here without believing the server', async () => {
    const { key: verifierKey } = await answerOf(['export', join(home, 'log.jsonl')])
    expect(readFileSync(join(home, 'log.jsonl'), 'utf8')).toContain('api_key_create')
    expect(await answerOf(['verify', '--key', String(verifierKey)])).toMatchObject({ ok: true, kind: 'export' })
    const dataDir = join(home, 'other')
    mkdirSync(dataDir)
    const { key: otherKey } = await castellanJson({ dataDir }, ['call', 'log_checkpoint'])
    expect((await there(['verify', '--key', String(otherKey)])).code).toBe(5)
  })

  it('completes with the tools of that server', async () => {
    const run = await there(['completion', 'words', '--', 'call', 'task_cre'])
    expect(run).toMatchObject({ code: 0, stdout: 'task_create\n' })
  })

  it('waits for what was piped in, and passes errors on as they are', async () => {
    const piped = await there(['call', 'task_get', '--args', '-', '--json'], {}, '{"task_id":"T-9999"}')
    expect(piped.code).toBe(3)
    expect(JSON.parse(piped.stderr)).toMatchObject({ error: { code: 'ERR_TASK_NOT_FOUND' } })
  })
})

describe('what cannot work is refused with the reason', () => {
  it.each<[string, readonly string[], number, string]>([
    ['a key that is none', ['call', 'server_ping', '--key', 'cst_no'], 4, 'does not accept this API key'],
    [
      'an address with another path',
      ['call', 'server_ping', '--url', 'https://x.example/v1'],
      2,
      'without another path',
    ],
    ['an address with a password', ['call', 'server_ping', '--url', 'https://a:b@x.example'], 2, 'without a user'],
    ['plain HTTP to elsewhere', ['call', 'server_ping', '--url', 'http://x.example'], 2, '--allow-plain-http'],
    [
      'two states',
      ['call', 'server_ping', '--url', 'https://x.example', '--data-dir', '/x'],
      2,
      'Leave one of them out',
    ],
    ['no authority', ['call', 'server_ping', '--ca', '/nowhere.pem'], 2, 'cannot be read'],
    [
      'a file and a server',
      ['verify', 'x.jsonl', '--url', 'https://x.example'],
      2,
      'FILE and --url cannot be combined',
    ],
    ['images', ['image', 'list'], 2, 'Run castellan image on that machine'],
    ['images with --url', ['image', 'list', '--url', 'https://x.example'], 2, 'Run castellan image on that machine'],
    ['a server', ['serve', '--url', 'https://x.example'], 2, 'serve starts a server on this machine'],
    ['configuration', ['config', 'show', '--url', 'https://x.example'], 2, 'Run it on the machine of the server'],
  ])('%s', async (_what, args, code, text) => {
    expect(await there(args)).toMatchObject({ code, stderr: expect.stringContaining(text) })
  })

  it('a certificate of an authority that is not trusted', async () => {
    expect(await there(['call', 'server_ping'], { CASTELLAN_CA: '' })).toMatchObject({
      code: 6,
      stderr: expect.stringContaining('pass the certificate of that authority with --ca FILE'),
    })
  })

  it('a caller without a key', async () => {
    expect(await there(['call', 'server_ping'], { CASTELLAN_API_KEY: '' })).toMatchObject({
      code: 4,
      stderr: expect.stringContaining(`${origin} requires authentication`),
    })
    expect((await there(['doctor'], { CASTELLAN_API_KEY: '' })).stdout).toMatch(/identity +bad/)
  })

  it('a flag for a server elsewhere without one', async () => {
    expect(await there(['call', 'server_ping', '--key', key], { CASTELLAN_URL: '' })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Name it with --url'),
    })
  })
})

it('a remote call is the same each time: a person approves it, and then it is made once', async () => {
  const policy = ['toolId=task_create', 'conditions=[{"key":"title","operator":"equal","value":"asked"}]']
  await castellanJson(server, ['call', 'create_tool_invocation_policy', ...policy, 'action=require_approval'])
  const create = () => there(['call', 'task_create', 'project=p', 'title=asked'])
  const requested = async () => /the request is ([0-9a-f-]{36})/.exec((await create()).stderr)?.[1] ?? ''
  const id = await requested()
  expect(await requested()).toBe(id)
  await castellanJson(server, ['approvals', 'approve', id])
  const made = await create()
  expect([made.stderr, made.code]).toEqual(['', 0])
  const next = await requested()
  expect(next).not.toBe(id)
  await castellanJson(server, ['approvals', 'deny', next])
  expect((await create()).stderr).toContain('a person denied this call')
})
