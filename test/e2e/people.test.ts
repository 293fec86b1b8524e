import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { openChromium } from '../support/chromium.ts'
import { castellanJson, newPerson, PASSWORD, postForm, type Row, signIn } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { runCastellan } from '../support/run-castellan.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** People of a server: made on the command line, let in by pages in a real browser, and gone when they are taken away. */
let server: ServerHere
let browser: Awaited<ReturnType<typeof openChromium>>
const pages: Page[] = []

beforeAll(async () => {
  const dataDir = newDataDir()
  await castellanJson({ dataDir }, ['users', 'create', 'first@example.com', '--admin'])
  server = await startServerHere({ dataDir, env: { CASTELLAN_REQUIRE_KEYS: 'true' } })
  browser = await openChromium()
})
afterEach(async () => {
  for (const page of pages.splice(0)) await page.close()
  await browser.context.clearCookies()
})
afterAll(async () => {
  await browser[Symbol.asyncDispose]()
  await server.stop()
  rmSync(server.dataDir, { recursive: true, force: true })
})

/** A telephone; a page that needs more room has to be moved to and fro to be read. */
async function telephone(): Promise<Page> {
  const page = await browser.context.newPage()
  await page.setViewportSize({ width: 390, height: 800 })
  pages.push(page)
  return page
}

const at = (path: string): string => new URL(path, server.url).href
const cli = (...args: string[]) => castellanJson(server, args)
const fitsWidth = (page: Page) => page.evaluate('document.documentElement.scrollWidth <= 390')
const callAs = (cookie: string, tool: string, args: object = {}) =>
  fetch(at(`/v1/tools/${tool}`), {
    method: 'POST',
    headers: { cookie, 'content-type': 'application/json' },
    body: JSON.stringify(args),
  })

describe('a person who is invited', () => {
  it('joins, signs in and signs out by pages that a telephone shows', async () => {
    await cli('teams', 'create', 'design')
    const { link } = await cli('invite', 'create', 'bob@example.com', '--role', 'editor', '--teams', 'design')
    const page = await telephone()
    const refused: string[] = []
    page.on('console', (message) => message.type() === 'error' && refused.push(message.text()))
    await page.goto(at(new URL(String(link)).pathname))
    expect(await fitsWidth(page)).toBe(true)
    await page.getByLabel('Your name').fill('Bob <b>')
    await page.locator('[name=password]').fill(PASSWORD)
    await page.locator('[name=again]').fill(PASSWORD)
    await page.getByRole('button', { name: 'Join' }).click()
    await page.getByRole('link', { name: 'Sign in', exact: true }).click()
    await page.getByLabel('E-mail address').fill('bob@example.com')
    await page.getByLabel('Password').fill('not the password')
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    expect(await page.getByRole('alert').textContent()).toContain('is wrong')
    await page.getByLabel('Password').fill(PASSWORD)
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.waitForURL('**/account')
    expect(await page.textContent('main')).toContain('bob@example.com')
    expect(await fitsWidth(page)).toBe(true)
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.waitForURL('**/sign-in')
    await page.goto(at('/account'))
    expect(page.url()).toBe(at('/sign-in'))
    // The refused sign-in is the one thing that a browser reports.
    expect(refused.filter((text) => !text.includes('401'))).toEqual([])
    const [bob] = ((await cli('users', 'list'))['users'] as Row[]).filter(({ email }) => email === 'bob@example.com')
    expect(bob).toMatchObject({ name: 'Bob <b>', role: 'editor', tier: 'system' })
    expect(bob!['teams']).toHaveLength(1)
  })

  it('can use the link once, and not after it is cancelled', async () => {
    const { link } = await cli('invite', 'create', 'eve@example.com')
    const url = new URL(new URL(String(link)).pathname, server.url)
    const form = { name: 'Eve', password: PASSWORD, again: PASSWORD }
    const both = await Promise.all([postForm(url, form), postForm(url, form)])
    expect(both.map(({ status }) => status).sort()).toEqual([200, 404])
    const other = await cli('invite', 'create', 'mallory@example.com')
    await cli('invite', 'cancel', String(other['id']))
    const cancelled = new URL(new URL(String(other['link'])).pathname, server.url)
    expect((await fetch(cancelled)).status).toBe(404)
    expect((await postForm(cancelled, form)).status).toBe(404)
  })

  it('needs a password of some length, twice', async () => {
    const { link } = await cli('invite', 'create', 'short@example.com')
    const url = new URL(new URL(String(link)).pathname, server.url)
    expect(await (await postForm(url, { password: 'short', again: 'short' })).text()).toContain('use 12 to 256')
    expect(await (await postForm(url, { password: PASSWORD, again: 'other' })).text()).toContain('not the same')
  })
})

describe('a signed-in user', () => {
  it('is the actor of their calls, with the rights of their role', async () => {
    const cookie = await signIn(server, await newPerson(server, 'member@example.com'))
    const made = (await (await callAs(cookie, 'task_create', { title: 'x', project: 'p' })).json()) as Row
    expect(made['created_by']).toBe('member@example.com')
    expect((await callAs(cookie, 'user_list')).status).toBe(403)
    const whole = await callAs(cookie, 'user_create', { email: 'more@example.com', role: 'admin' })
    expect(whole.status).toBe(403)
  })

  it('sees and ends their own sessions, and no others', async () => {
    const [one, other] = [await newPerson(server, 'own@example.com'), await newPerson(server, 'not-own@example.com')]
    const [first, second, foreign] = [await signIn(server, one), await signIn(server, one), await signIn(server, other)]
    const sessionsOf = async (cookie: string): Promise<Row[]> =>
      ((await (await callAs(cookie, 'user_session_list')).json()) as { sessions: Row[] }).sessions
    const listed = await sessionsOf(first)
    expect(listed.map(({ user }) => user)).toEqual(['own@example.com', 'own@example.com'])
    const [theirs] = await sessionsOf(foreign)
    const end = async (args: object) => {
      const response = await callAs(first, 'user_session_revoke', args)
      return { status: response.status, text: (await response.text()).replace(/sess[\w-]*|"session":"[^"]*"/g, '#') }
    }
    const [foreignSession, noSession] = [await end({ session: theirs!['id'] }), await end({ session: 'none' })]
    expect(foreignSession.status).toBe(404)
    expect(foreignSession).toEqual(noSession)
    for (const user of ['not-own@example.com', 'nobody@example.com']) {
      expect((await callAs(first, 'user_session_list', { user })).status).toBe(403)
      expect((await end({ user, session: 'none' })).status).toBe(403)
    }
    const page = async (cookie: string) => await (await fetch(at('/account'), { headers: { cookie } })).text()
    expect(await page(first)).toContain(String(listed[1]!['id']))
    const newest = String(listed[0]!['id'])
    const ended = await postForm(new URL(at('/account/sessions')), { id: newest }, { cookie: first })
    expect([ended.status, ended.headers.get('location')]).toEqual([303, '/account'])
    const left = await Promise.all([first, second].map(async (cookie) => (await callAs(cookie, 'server_ping')).status))
    expect(left.toSorted()).toEqual([200, 401])
    expect((await callAs(foreign, 'server_ping')).status).toBe(200)
  })

  it('can sign out where a limit refuses the list of their sessions', async () => {
    const cookie = await signIn(server, await newPerson(server, 'limited@example.com'))
    const show = async () => {
      const response = await fetch(at('/account'), { headers: { cookie } })
      return { status: response.status, text: await response.text() }
    }
    expect((await show()).text).toContain('End this session')
    const limit = { entity_type: 'user', entity_id: 'limited@example.com', limit_type: 'mcp_server_calls' }
    const args = JSON.stringify({ ...limit, mcp_server_name: 'castellan', limit_value: 0 })
    await cli('call', 'create_limit', '--args', args)
    expect((await callAs(cookie, 'whoami')).status).toBe(402)
    const { status, text } = await show()
    expect([status, text]).toEqual([200, expect.stringMatching(/limit.*Sign out/s)])
    expect(text).not.toContain('End this session')
  })

  it('has nothing any more when they are removed', async () => {
    const cookie = await signIn(server, await newPerson(server, 'gone@example.com', ['--role', 'editor']))
    expect((await callAs(cookie, 'server_ping')).status).toBe(200)
    expect((await callAs(cookie, 'workspace_create', { name: 'left-behind' })).status).toBe(200)
    await cli('users', 'delete', 'gone@example.com')
    expect((await callAs(cookie, 'server_ping')).status).toBe(401)
    const state = async () => {
      const { workspaces } = await cli('call', 'workspace_list')
      return (workspaces as Row[]).find(({ name }) => name === 'left-behind')?.['state']
    }
    await expect.poll(state).toBe('stopped')
  })

  it('has what their role has now', async () => {
    const cookie = await signIn(server, await newPerson(server, 'lowered@example.com', ['--admin']))
    expect((await callAs(cookie, 'user_list')).status).toBe(200)
    await cli('users', 'update', 'lowered@example.com', '--role', 'member')
    expect((await callAs(cookie, 'user_list')).status).toBe(403)
  })

  it('is not asked for by a page of another origin', async () => {
    const cookie = await signIn(server, await newPerson(server, 'visited@example.com'))
    const foreign = await fetch(at('/v1/tools/server_ping'), {
      method: 'POST',
      headers: { cookie, 'content-type': 'application/json', origin: 'http://127.0.0.1:20001' },
      body: '{}',
    })
    expect(foreign.status).toBe(403)
    const form = await postForm(new URL('/sign-out', server.url), {}, { cookie, origin: 'http://127.0.0.1:20001' })
    expect(form.status).toBe(403)
    expect((await callAs(cookie, 'server_ping')).status).toBe(200)
  })

  it('can be signed out by an administrator', async () => {
    const cookie = await signIn(server, await newPerson(server, 'stolen@example.com'))
    const { sessions } = await cli('users', 'sessions', 'stolen@example.com')
    await cli('users', 'revoke', 'stolen@example.com', String((sessions as Row[])[0]!['id']))
    expect((await callAs(cookie, 'server_ping')).status).toBe(401)
  })

  it('keeps their session when the server starts again', async () => {
    const person = await newPerson(server, 'lasting@example.com')
    const cookie = await signIn(server, person)
    const { dataDir } = server
    await server.stop()
    server = await startServerHere({ dataDir, env: { CASTELLAN_REQUIRE_KEYS: 'true' } })
    expect((await callAs(cookie, 'server_ping')).status).toBe(200)
  })
})

describe('attempts to sign in', () => {
  it('are slowed after several failures, for an address that is there and for one that is not', async () => {
    await newPerson(server, 'guessed@example.com')
    for (const email of ['guessed@example.com', 'nobody@example.com']) {
      const answers: number[] = []
      for (let count = 0; count < 6; count++) {
        answers.push((await postForm(new URL('/sign-in', server.url), { email, password: `guess ${count}` })).status)
      }
      expect(answers).toEqual([401, 401, 401, 401, 401, 429])
    }
    const { attempts } = await cli('users', 'attempts')
    expect((attempts as Row[])[0]).toMatchObject({ email: 'nobody@example.com', outcome: 'slowed' })
  })
})

describe('a server with people on an address that others reach', () => {
  it('does not start over plain HTTP unless that is asked for', async () => {
    const home = mkdtempSync(join(tmpdir(), 'castellan-people-'))
    const dataDir = join(home, 'state')
    mkdirSync(dataDir)
    await castellanJson({ dataDir }, ['users', 'create', 'ada@example.com', '--admin'])
    const args = ['serve', '--host', '0.0.0.0', '--port', '0', '--data-dir', dataDir]
    const refused = await runCastellan(args, { home })
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('over plain HTTP') })
    const asked = await startServerHere({
      dataDir,
      args: ['--host', '0.0.0.0'],
      env: { CASTELLAN_ALLOW_PLAIN_HTTP: 'true' },
    })
    await asked.stop()
    rmSync(home, { recursive: true, force: true })
  })
})
