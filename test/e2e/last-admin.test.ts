import { rmSync } from 'node:fs'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startProgramHere } from '../support/castellan-here.ts'
import { castellanJson, newPerson, PASSWORD, signIn } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { homeEnvironment } from '../support/run-castellan.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** The only administrator who can sign in, at a terminal, in a script and in a session of their own. */
let server: ServerHere
let cookie: string
beforeAll(async () => {
  server = await startServerHere({ dataDir: newDataDir() })
  cookie = await signIn(server, await newPerson(server, 'ada@example.com', ['--admin']))
  await castellanJson(server, ['users', 'create', 'new@example.com', '--admin'])
})
afterAll(async () => {
  await server.stop()
  rmSync(server.dataDir, { recursive: true, force: true })
})

/** A command of a person at a terminal, who types this. */
async function atTerminal(args: readonly string[], typed: string) {
  const stdin = Object.assign(Readable.from([Buffer.from(typed)]), { isTTY: true })
  const all = [...args, '--data-dir', server.dataDir]
  const program = startProgramHere(all, {
    env: homeEnvironment(server.dataDir),
    workingDirectory: server.dataDir,
    stdin,
  })
  const [, stderr, code] = await Promise.all([text(program.stdout), text(program.stderr), program.ended])
  return { code, stderr }
}

const NOTICE = 'Nobody else can sign in as an administrator'
const roleOfAda = async () => {
  const { users } = await castellanJson(server, ['users', 'list'])
  return (users as { email: string; role: string }[]).find(({ email }) => email === 'ada@example.com')?.role
}

it('is told at a terminal before they go, and stays unless the person agrees', async () => {
  for (const args of [
    ['users', 'delete', 'ada@example.com'],
    ['users', 'update', 'ada@example.com', '--role', 'editor'],
  ]) {
    const { code, stderr } = await atTerminal(args, 'n\n')
    expect([args, code, stderr]).toEqual([args, expect.any(Number), expect.stringContaining(NOTICE)])
    expect(code).not.toBe(0)
  }
  expect(await roleOfAda()).toBe('admin')
})

it('is not asked about for a change that takes nothing, nor is another user', async () => {
  const renamed = await atTerminal(['users', 'update', 'ada@example.com', '--name', 'Ada'], '')
  expect([renamed.code, renamed.stderr]).toEqual([0, ''])
  const other = await atTerminal(['users', 'update', 'new@example.com', '--role', 'member'], '')
  expect([other.code, other.stderr]).toEqual([0, ''])
  const removed = await atTerminal(['users', 'delete', 'new@example.com'], 'n\n')
  expect(removed.stderr).not.toContain(NOTICE)
})

it('cannot go by their own call, and can by one of the owner, who is warned', async () => {
  const own = await fetch(new URL('/v1/tools/user_delete', server.url), {
    method: 'POST',
    headers: { cookie, 'content-type': 'application/json' },
    body: JSON.stringify({ user: 'ada@example.com' }),
  })
  expect([own.status, await own.json()]).toMatchObject([409, { error: { code: 'ERR_LAST_ADMIN' } }])
  const { code, stderr } = await atTerminal(['users', 'update', 'ada@example.com', '--role', 'member'], 'y\n')
  expect([code, stderr]).toEqual([0, expect.stringContaining('castellan users create EMAIL --admin')])
  expect(await roleOfAda()).toBe('member')
})

it('cannot go by a key of their own, nor take a tier from themselves that nobody could give back', async () => {
  const call = async (tool: string, args: object, headers: Record<string, string>) => {
    const response = await fetch(new URL(`/v1/tools/${tool}`, server.url), {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(args),
    })
    return (await response.json()) as { secret?: string; error?: { code: string } }
  }
  const { email } = await newPerson(server, 'sole@example.com', ['--admin', '--tenant', 'sole'])
  const own = { cookie: await signIn(server, { email, password: PASSWORD }) }
  const { secret } = await call('api_key_create', { name: 'own', role: 'admin', tier: 'operator' }, own)
  const key = { authorization: `Bearer ${secret}` }
  for (const [tool, args, headers] of [
    ['user_update', { user: email, tier: 'user' }, own],
    ['user_update', { user: email, role: 'member' }, key],
    ['user_delete', { user: email }, key],
  ] as const) {
    expect([tool, args, await call(tool, args, headers)]).toMatchObject([
      tool,
      args,
      { error: { code: 'ERR_LAST_ADMIN' } },
    ])
  }
  await newPerson(server, 'second@example.com', ['--admin', '--tenant', 'sole'])
  expect(await call('user_update', { user: email, tier: 'user' }, own)).toMatchObject({ tier: 'user' })
})
