import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { connectClient, launcher } from '../support/castellan-client.ts'
import { runCastellanHere } from '../support/castellan-here.ts'
import { openChromium } from '../support/chromium.ts'
import { castellanJson, newPerson } from '../support/people.ts'
import { newDataDir, type RealServer, startRealServer } from '../support/real-server.ts'
import { homeEnvironment, runCastellan } from '../support/run-castellan.ts'

/** `castellan login` and what uses it: the real program, a real browser, a real server. */
let server: RealServer
let browser: Awaited<ReturnType<typeof openChromium>>
let ada: Readonly<{ email: string; password: string }>
let origin = ''
let home = ''

beforeAll(async () => {
  const dataDir = newDataDir()
  await castellanJson({ dataDir }, ['users', 'create', 'first@example.com', '--admin'])
  server = await startRealServer({ env: { CASTELLAN_REQUIRE_KEYS: 'true' }, dataDir })
  origin = new URL(server.url).origin
  browser = await openChromium()
  ada = await newPerson(server, 'ada@example.com', ['--role', 'editor'])
})
afterAll(async () => {
  await browser[Symbol.asyncDispose]()
  await server.stop()
  rmSync(server.dataDir, { recursive: true, force: true })
})
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'castellan-login-'))
  return () => rmSync(home, { recursive: true, force: true })
})

type Decision = 'Allow' | 'Do not allow'

/** What a person does at the address that the program prints. */
async function decide(address: string, decision: Decision): Promise<string> {
  const page = await browser.context.newPage()
  await page.goto(address)
  if ((await page.title()).startsWith('Sign in')) {
    await page.getByLabel('E-mail address').fill(ada.email)
    await page.getByLabel('Password').fill(ada.password)
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.waitForLoadState()
  }
  if ((await page.title()).startsWith('Allow access?')) {
    await page.getByRole('button', { name: decision, exact: true }).click()
  }
  await page.waitForURL(/\/callback/)
  const heading = await page.getByRole('heading').textContent()
  await page.close()
  return heading ?? ''
}

async function login(decision: Decision = 'Allow', environment: Record<string, string> = {}) {
  const child = spawn(launcher, ['login', '--url', origin], { cwd: home, env: homeEnvironment(home, environment) })
  let printed = ''
  const address = new Promise<string>((resolve) => {
    child.stderr.setEncoding('utf8').on('data', (piece: string) => {
      printed += piece
      const found = /^(http\S+)\n/m.exec(printed)?.[1]
      if (found !== undefined) resolve(found)
    })
  })
  const output = text(child.stdout)
  const ended = once(child, 'close')
  const heading = await decide(await address, decision)
  const [code] = await ended
  return { code: code as number, stdout: await output, stderr: printed, heading }
}

const there = (args: readonly string[], environment: Record<string, string> = {}) =>
  runCastellanHere([...args, '--url', origin], { home, environment })
/** In a process of its own. */
const apart = (args: readonly string[], environment: Record<string, string> = {}) =>
  runCastellan([...args, '--url', origin], { home, environment })

const loginFile = (): string => {
  const folder = join(home, '.local/state/castellan/logins')
  return join(folder, readdirSync(folder).find((name) => name.endsWith('.json'))!)
}
const stored = () => JSON.parse(readFileSync(loginFile(), 'utf8')) as Record<string, string | number>
const change = (fields: object) => writeFileSync(loginFile(), JSON.stringify({ ...stored(), ...fields }))

describe('castellan login', () => {
  it('signs a person in through the browser, and every command then acts as that person', async () => {
    expect(await login()).toMatchObject({
      code: 0,
      stdout: `Signed in to ${origin} as ada@example.com.\n`,
      heading: 'Signed in',
    })
    expect(statSync(loginFile()).mode & 0o777).toBe(0o600)
    expect(statSync(join(loginFile(), '..')).mode & 0o777).toBe(0o700)
    const made = await there(['call', 'task_create', 'title=x', 'project=p', '--json'])
    expect(JSON.parse(made.stdout)).toMatchObject({ created_by: 'ada@example.com' })
    expect((await there(['doctor'])).stdout).toMatch(/identity +ok +ada@example.com/)
  })

  it('lets the person answer approvals and change rules, but not a program that uses the same sign-in', async () => {
    await login()
    const policy = ['toolId=task_create', 'conditions=[]', 'action=require_approval']
    const made = await there(['call', 'create_tool_invocation_policy', ...policy, '--json'])
    const { id } = (JSON.parse(made.stdout) as { policy: { id: string } }).policy
    const { code, stderr } = await there(['call', 'task_create', 'title=y', 'project=p', '--json'])
    expect(code).not.toBe(0)
    const approval = (JSON.parse(stderr) as { error: { details: { approval_id: string } } }).error.details.approval_id
    const env = homeEnvironment(home)
    const child = spawn(launcher, ['mcp', '--tools', 'full', '--url', origin], { stdio: 'pipe', env })
    const program = await connectClient(child)
    const answer = await program.call('approval_answer', { id: approval, decision: 'approve' })
    expect(answer).toMatchObject({ kind: 'failed', code: 'ERR_PERMISSION_DENIED' })
    await program.leave()
    const listed = await there(['approvals', 'list', '--json'])
    expect(listed.stdout).toContain(approval)
    expect(await there(['approvals', 'approve', approval])).toMatchObject({ code: 0 })
    expect(await there(['call', 'delete_tool_invocation_policy', `id=${id}`])).toMatchObject({ code: 0 })
  })

  it('says so when the person does not allow it, and keeps nothing', async () => {
    expect(await login('Do not allow')).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('You did not allow Castellan to act for you'),
      heading: 'Not signed in',
    })
    expect(existsSync(join(home, '.local/state/castellan'))).toBe(false)
  })

  it('asks the desktop to open the address', async () => {
    const folder = join(home, 'bin')
    mkdirSync(folder)
    writeFileSync(join(folder, 'xdg-open'), `#!/bin/sh\nprintf %s "$1" > ${join(home, 'opened')}\n`)
    chmodSync(join(folder, 'xdg-open'), 0o755)
    const { code, stderr } = await login('Allow', { DISPLAY: ':0', PATH: `${folder}:${process.env['PATH']}` })
    expect(code).toBe(0)
    expect(stderr).toContain(readFileSync(join(home, 'opened'), 'utf8'))
  })

  it('is not misled by an answer that is not the one to its request', async () => {
    const child = spawn(launcher, ['login', '--url', origin, '--no-browser'], { env: homeEnvironment(home) })
    const [piece] = await once(child.stderr.setEncoding('utf8'), 'data')
    const redirect = new URL(/^(http\S+)$/m.exec(String(piece))![1]!).searchParams.get('redirect_uri')!
    expect((await fetch(`${redirect}?code=stolen&state=other`)).status).toBe(404)
    expect((await fetch(redirect, { method: 'POST' })).status).toBe(404)
    child.kill('SIGINT')
    const [code] = await once(child, 'close')
    expect(code).toBe(130)
  })

  it('needs an address', async () => {
    const none = await runCastellanHere(['login'], { home })
    expect(none).toMatchObject({ code: 2, stderr: expect.stringContaining('--url is missing') })
  })

  it.each([
    ['offers no sign-in', {}, 'offers no sign-in'],
    ['is known under another address', { resource: 'https://elsewhere.example/mcp' }, 'has another public address'],
    [
      'has people sign in at another host',
      { authorization_servers: ['https://evil.example/auth'] },
      'cannot be trusted',
    ],
    ['sends tokens to another host', { token_endpoint: 'https://evil.example/token' }, 'cannot be trusted'],
  ])('refuses a server that %s', async (_what, changed, expected) => {
    await using fake = await startFake(changed)
    const run = await runCastellanHere(['login', '--url', fake.origin], { home })
    expect(run.stderr).toContain(expected)
    expect(run.code).not.toBe(0)
    expect(fake.registrations()).toBe(0)
  })
})

/** A server that describes its sign-in in its own way; without anything changed it has none. */
async function startFake(changed: object) {
  let registrations = 0
  const fake = createServer((req, res) => {
    if (req.method === 'POST') registrations++
    const metadata = {
      resource: `${own()}/mcp`,
      authorization_servers: [`${own()}/auth`],
      issuer: `${own()}/auth`,
      authorization_endpoint: `${own()}/auth/authorize`,
      token_endpoint: `${own()}/auth/token`,
      registration_endpoint: `${own()}/auth/register`,
      revocation_endpoint: `${own()}/auth/revoke`,
      ...changed,
    }
    const isThere = req.url!.startsWith('/.well-known/') && Object.keys(changed).length > 0
    res
      .writeHead(isThere ? 200 : 404, { 'content-type': 'application/json' })
      .end(isThere ? JSON.stringify(metadata) : '')
  })
  await new Promise<void>((resolve) => fake.listen(0, '127.0.0.1', resolve))
  const own = () => `http://127.0.0.1:${(fake.address() as AddressInfo).port}`
  return {
    origin: own(),
    registrations: () => registrations,
    async [Symbol.asyncDispose]() {
      fake.close()
      fake.closeAllConnections()
    },
  }
}

describe('what was stored', () => {
  beforeEach(async () => {
    expect((await login()).code).toBe(0)
  })

  it('is renewed before its end, by one of several commands at once, for all of them', async () => {
    const before = stored()
    change({ expiresAtMs: 0 })
    const runs = await Promise.all([1, 2, 3].map(() => apart(['call', 'server_ping'])))
    expect(runs.map(({ code, stderr }) => ({ code, stderr }))).toEqual(runs.map(() => ({ code: 0, stderr: '' })))
    const after = stored()
    expect(after['refreshToken']).not.toBe(before['refreshToken'])
    expect(Number(after['expiresAtMs'])).toBeGreaterThan(Number(before['expiresAtMs']) - 3_600_000)
    expect((await apart(['call', 'server_ping'])).code).toBe(0)
  })

  it('is renewed when the server refuses the token', async () => {
    change({ accessToken: 'csa_none' })
    expect((await there(['call', 'server_ping'])).code).toBe(0)
    expect(stored()['accessToken']).not.toBe('csa_none')
  })

  it('survives a kill in the middle of its replacement', async () => {
    change({ expiresAtMs: 0 })
    const killed = await apart(['call', 'server_ping'], { CASTELLAN_FAULT: 'file.replace:kill:1' })
    expect(killed.code).toBeNull()
    // The server has taken the old token for the new one, which is lost: the person is told to sign in again.
    const next = await there(['call', 'server_ping'])
    expect(next).toMatchObject({ code: 4, stderr: expect.stringContaining('Sign in again with: castellan login') })
    expect((await login()).code).toBe(0)
    expect((await there(['call', 'server_ping'])).code).toBe(0)
  })

  it('gives way to a key', async () => {
    const wrong = await there(['call', 'server_ping'], { CASTELLAN_API_KEY: 'cst_wrong' })
    expect(wrong).toMatchObject({ code: 4, stderr: expect.stringContaining('does not accept this API key') })
  })

  it('is not used when others can read it', async () => {
    chmodSync(loginFile(), 0o644)
    expect(await there(['call', 'server_ping'])).toMatchObject({
      code: 6,
      stderr: expect.stringContaining('can be read by others'),
    })
  })

  it('ends with logout, there and here', async () => {
    const { accessToken } = stored()
    expect(await runCastellanHere(['logout'], { home })).toMatchObject({
      code: 0,
      stdout: `Signed out of ${server.url}.\n`,
    })
    expect(await there(['call', 'server_ping'])).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('castellan login'),
    })
    const shown = await there(['call', 'server_ping', '--key', String(accessToken)])
    expect(shown.code).toBe(4)
    expect((await runCastellanHere(['logout'], { home })).code).toBe(3)
  })

  it('ends when an administrator revokes it', async () => {
    const { sessions } = (await castellanJson(server, ['users', 'sessions', ada.email])) as {
      sessions: { id: string; kind: string; name: string }[]
    }
    for (const { id, kind } of sessions) {
      if (kind === 'client') await castellanJson(server, ['users', 'revoke', ada.email, id])
    }
    expect(await there(['call', 'server_ping'])).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('has ended. Sign in again'),
    })
  })
})
