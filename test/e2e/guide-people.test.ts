import { spawn } from 'node:child_process'
import { generateKeyPairSync, sign } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { canonicalJson, type JsonObject } from '../../src/kernel/canonical-json.ts'
import { openChromium } from '../support/chromium.ts'
import { guideBlocks, setReaderStage } from '../support/guide-blocks.ts'
import { CLIENT_SECRET, startIdentityProvider } from '../support/identity-provider.ts'
import { MAIL_PASSWORD, startMailServer } from '../support/mail-server.ts'
import { startMcpUpstream } from '../support/mcp-upstream.ts'
import { PASSWORD, postForm, signIn } from '../support/people.ts'
import { freePort } from '../support/postgres.ts'
import { makeTlsPair, type TlsPair } from '../support/tls-files.ts'

/** The guides that need a browser, TLS, a mail server or an identity provider, carried out as they are written. */
const HERE = 'https://castellan.example'

let browser: Awaited<ReturnType<typeof openChromium>>
let folder = ''
let pair: TlsPair
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'castellan-guide-people-'))
  pair = makeTlsPair(folder, 'guide')
  browser = await openChromium({ trusting: true })
})
afterAll(async () => {
  await browser[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

type Stage = Awaited<ReturnType<typeof setReaderStage>>

const linesOf = (body: string): string[] => body.trim().split('\n')
const blocks = (name: string, wanted: string): string[] =>
  guideBlocks(name).flatMap(({ language, body }) => (language === wanted ? [body] : []))

async function mustRun(stage: Stage, command: string): Promise<string> {
  const { code, output } = await stage.run(command)
  expect(code, `${command}\n${output}`).toBe(0)
  return output
}

test('people: its settings and every command do what it says', { timeout: 300_000 }, async () => {
  await using mails = await startMailServer(pair)
  await using provider = await startIdentityProvider({
    nina: { email: 'nina@example.com', email_verified: true },
    eve: { email: 'eve@elsewhere.example', email_verified: true },
  })
  const port = await freePort()
  const origin = `http://127.0.0.1:${port}`
  const here = (text: string): string =>
    text
      .replaceAll(HERE, origin)
      .replaceAll('https://login.example.com', provider.issuer)
      .replace('host: mail.example.com', `host: localhost\n  port: ${mails.port}`)
  // The blocks after the provider go on with it. The last is for providers that exchange tokens, which this one does not.
  const settings = blocks('people', 'yaml')
  const config = here(settings.slice(0, -1).join(''))
  const secrets = { SMTP_PASSWORD: MAIL_PASSWORD, OIDC_SECRET: CLIENT_SECRET, NODE_EXTRA_CA_CERTS: pair.cert }
  const stage = await setReaderStage({
    config,
    port,
    env: { ...secrets, CASTELLAN_REQUIRE_KEYS: 'true' },
    processes: true,
  })
  writeFileSync(join(stage.home, 'all.yaml'), here(settings.join('')))
  await mustRun(stage, 'castellan config validate --config all.yaml')

  const links: string[] = []
  for (const line of blocks('people', 'sh').flatMap(linesOf)) {
    // It runs already.
    if (line === 'castellan serve') continue
    if (line.startsWith('castellan users sessions')) await firstSignIn(stage, links[0]!)
    const session = line.includes('SESSION') ? await sessionOf(stage) : ''
    const output = await mustRun(stage, here(line).replace('SESSION', session))
    links.push(...(output.match(/http:\S+/g) ?? []))
    if (line.startsWith('claude')) await findsItsWay(stage.claudeServer().url!, origin)
  }
  expect(mails.received).toMatchObject([{ from: 'castellan@example.com', to: ['bob@example.com'] }])
  expect(mails.received[0]!.text).toContain(links[1])

  provider.allow(`${origin}/auth/callback/company`)
  expect(await comeFrom(origin, 'nina')).toContain('nina@example.com, member')
  await browser.context.clearCookies()
  expect(await comeFrom(origin, 'eve')).toContain('This e-mail address may not sign in here')
})

/** The address alone tells a client whom to ask for access; `oauth.test.ts` goes on from there. */
async function findsItsWay(url: string, origin: string): Promise<void> {
  const challenge = (await fetch(url, { method: 'POST' })).headers.get('www-authenticate')
  const metadata = await fetch(/resource_metadata="([^"]+)"/.exec(challenge!)![1]!)
  expect(await metadata.json()).toMatchObject({ resource: url, authorization_servers: [expect.stringMatching(origin)] })
}

async function firstSignIn(stage: Stage, link: string): Promise<void> {
  const password = { password: PASSWORD, again: PASSWORD }
  expect((await postForm(new URL(link), password)).ok).toBe(true)
  await signIn({ url: stage.url }, { email: 'ada@example.com', password: PASSWORD })
}

async function sessionOf(stage: Stage): Promise<string> {
  const output = await mustRun(stage, 'castellan users sessions ada@example.com --json')
  return (JSON.parse(output) as { sessions: { id: string }[] }).sessions[0]!.id
}

/** What the page shows to a person who comes with the identity provider. */
async function comeFrom(origin: string, login: string): Promise<string> {
  const page = await browser.context.newPage()
  await page.goto(`${origin}/sign-in`)
  await page.getByRole('link', { name: 'Sign in with Company' }).click()
  await page.locator('[name=login]').fill(login)
  await page.locator('[name=password]').fill('anything')
  await page.locator('[type=submit]').click()
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.waitForURL((url) => url.origin === origin)
  const shown = (await page.textContent('main')) ?? ''
  await page.close()
  return shown
}

test('remote: every command does what it says', async () => {
  const stage = await setReaderStage({
    processes: true,
    prepare: [
      'castellan users create ada@example.com --admin',
      'castellan keys create ci --role admin --tier operator 2> /dev/null',
    ],
    env: { CASTELLAN_REQUIRE_KEYS: 'true' },
    args: ['--tls-cert', pair.cert, '--tls-key', pair.key],
  })
  const origin = new URL(stage.url).origin
  const [link, secret] = [/http\S+\/invitation\/\S+/.exec(stage.prepared[0]!)![0], stage.prepared[1]!.trim()]
  await choosePassword(`${origin}${new URL(link).pathname}`)
  // A reader's own server has a certificate that everybody trusts, but for the block that names an authority.
  stage.env['CASTELLAN_CA'] = pair.cert
  const here = (text: string): string =>
    text
      .replaceAll(/https:\/\/castellan\.(example|internal)/g, origin)
      .replace('/etc/ssl/our-authority.pem', pair.cert)
      .replace('cst_…', secret)
  for (const body of blocks('remote', 'sh')) {
    if (body.includes('--ca ')) delete stage.env['CASTELLAN_CA']
    // Lines with `export` belong to those after them.
    const commands = body.startsWith('export') ? [body] : linesOf(body)
    for (const command of commands) {
      if (command.startsWith('castellan login')) await signInFrom(stage, here(command))
      else await mustRun(stage, here(command))
    }
  }
  const { command } = stage.claudeServer()
  const [program, ...args] = command!
  const inherited = { ...stage.env } as Record<string, string>
  const transport = new StdioClientTransport({ command: program!, args, env: inherited, stderr: 'ignore' })
  const client = new Client({ name: 'editor', version: '1' })
  await client.connect(transport)
  const made = await client.callTool({ name: 'task_create', arguments: { title: 'from an editor', project: 'demo' } })
  expect(made.structuredContent).toMatchObject({ created_by: 'ada@example.com' })
  await client.close()
})

test('team: from zero to a budget, every command does what it says', { timeout: 300_000 }, async () => {
  await using notes = await startMcpUpstream()
  const port = await freePort()
  const origin = `https://127.0.0.1:${port}`
  const here = (text: string): string =>
    text
      .replaceAll('https://castellan.example:7433', origin)
      .replace('port: 7433', `port: ${port}`)
      .replace('/etc/ssl/castellan/fullchain.pem', pair.cert)
      .replace('/etc/ssl/castellan/privkey.pem', pair.key)
      .replace('https://notes.example/mcp', notes.url)
  const [settings] = blocks('team', 'yaml')
  const [first, ...rest] = blocks('team', 'sh').map(linesOf)
  expect(first!.at(-1)).toBe('castellan serve')
  const stage = await setReaderStage({
    processes: true,
    config: `${here(settings!)}web: { allow_private_addresses: ["127.0.0.1"] }\n`,
    port,
    prepare: first!.slice(0, -1),
  })
  const openLink = (text: string): Promise<void> =>
    choosePassword(`${origin}${new URL(/https?:\S+\/invitation\/\S+/.exec(text)![0]).pathname}`)
  await openLink(stage.prepared[0]!)
  stage.env['CASTELLAN_CA'] = pair.cert
  const said: string[] = []
  for (const body of rest.map((lines) => lines.join('\n').replaceAll('\\\n', '').split('\n'))) {
    for (const line of body.map(here)) {
      const [, variable, value] = /^export (\w+)=(.*)$/.exec(line) ?? []
      if (variable !== undefined) stage.env[variable] = value
      else if (line === 'castellan login') await signInFrom(stage, line)
      else said.push(await mustRun(stage, line))
      if (line.startsWith('castellan invite create')) await openLink(said.at(-1)!)
      if (line.startsWith('claude')) expect(stage.claudeServer().url).toBe(`${origin}/mcp/work`)
    }
  }
  const all = said.join('\n')
  expect(all).toContain('ada@example.com')
  expect(all).toContain('Removed bob@example.com.')
  expect(all).toMatch(/"limitValue": 1000/)
  expect(all).toMatch(/bob@example\.com\s.*accepted/)
})

async function choosePassword(link: string): Promise<void> {
  const page = await browser.context.newPage()
  await page.goto(link)
  for (const field of await page.locator('[type=password]').all()) await field.fill(PASSWORD)
  await page.getByRole('button').click()
  await page.waitForLoadState()
  await page.close()
}

/** Gives the command, and does in the browser what it asks for. */
async function signInFrom(stage: Stage, command: string): Promise<void> {
  const child = spawn('sh', ['-ec', command], { cwd: stage.home, env: stage.env, stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = once(child, 'close')
  let printed = ''
  // With --device a code follows.
  const isByCode = command.includes('--device')
  const pattern = isByCode ? /^(http\S+)\n.*\n([A-Z-]{9})\n/m : /^(http\S+)\n/m
  const [, address, code] = await new Promise<RegExpExecArray>((resolve) => {
    child.stderr.setEncoding('utf8').on('data', (piece: string) => {
      printed += piece
      const found = pattern.exec(printed)
      if (found !== null) resolve(found)
    })
  })
  const page = await browser.context.newPage()
  await page.goto(address!)
  if ((await page.title()).startsWith('Sign in ·')) {
    await page.getByLabel('E-mail address').fill('ada@example.com')
    await page.getByLabel('Password').fill(PASSWORD)
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  }
  if (code !== undefined) {
    await page.getByLabel('Code').fill(code)
    await page.getByRole('button', { name: 'Continue' }).click()
  }
  await page.getByRole('button', { name: 'Allow', exact: true }).click()
  if (isByCode) await page.getByRole('heading', { name: 'Signed in' }).waitFor()
  else await page.waitForURL(/\/callback/)
  await page.close()
  expect((await ended)[0]).toBe(0)
}

test('signed-calls: the client calls a tool, and a call is signed by hand', async () => {
  const stage = await setReaderStage()
  const [body] = blocks('signed-calls', 'ts')
  const program = body!.replace('http://127.0.0.1:7433', new URL(stage.url).origin)
  writeFileSync(join(stage.home, 'signed.mjs'), `${program}\nconsole.log(JSON.stringify(agents))\n`)
  const key = await stage.run('castellan keys create signer --role admin --tier system 2>/dev/null')
  const output = await mustRun(stage, `CASTELLAN_KEY=${key.output.trim()} node signed.mjs`)
  expect(output).toContain('agents')

  await mustRun(stage, 'castellan call fs.write path=a content=hello')
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const post = async (path: string, body: object): Promise<[number, Record<string, unknown>]> => {
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
    const response = await fetch(new URL(path, stage.url), init)
    return [response.status, (await response.json()) as Record<string, unknown>]
  }
  const public_key = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32).toString('base64')
  const [, attested] = await post('/v1/seal/attest', { public_key, security_context: 'zaru-free' })
  const { security_token } = attested
  const [written] = blocks('signed-calls', 'json')
  type Envelope = { payload: JsonObject; timestamp: string }
  const invoke = async (change: Partial<Envelope>): Promise<[number, Record<string, unknown>]> => {
    const envelope = { ...(JSON.parse(written!) as Envelope), ...change, security_token: String(security_token) }
    const timestamp = Math.floor(Date.parse(envelope.timestamp) / 1_000)
    const signed = canonicalJson({ payload: envelope.payload, security_token: envelope.security_token, timestamp })
    const signature = sign(null, Buffer.from(signed), privateKey).toString('base64')
    return await post('/v1/seal/invoke', { ...envelope, signature })
  }
  const timestamp = new Date().toISOString().replace(/\.\d+/, '')
  const [status, answer] = await invoke({ timestamp })
  expect([status, JSON.stringify(answer)]).toEqual([200, expect.stringContaining('hello')])
  // The same message again, and the time that the guide was written at.
  expect((await invoke({ timestamp }))[0]).toBe(401)
  expect((await invoke({}))[0]).toBe(401)
  const tools = await fetch(new URL('/v1/seal/tools?security_context=zaru-free', stage.url))
  expect(JSON.stringify(await tools.json())).toContain('"fs.read"')
})
