import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openChromium } from '../support/chromium.ts'
import { castellanJson, newPerson } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** The official suite against our authorisation server, with a person who signs in and allows its client in a real browser. */
const suite = 'node_modules/@modelcontextprotocol/conformance/dist/index.js'
const TIMEOUT_MS = 180_000
let server: ServerHere
let browser: Awaited<ReturnType<typeof openChromium>>

beforeAll(async () => {
  const dataDir = newDataDir()
  await castellanJson({ dataDir }, ['users', 'create', 'first@example.com', '--admin'])
  server = await startServerHere({ dataDir, env: { CASTELLAN_REQUIRE_KEYS: 'true' } })
  browser = await openChromium()
  const ada = await newPerson(server, 'ada@example.com')
  const page = await browser.context.newPage()
  await page.goto(new URL('/sign-in', server.url).href)
  await page.getByLabel('E-mail address').fill(ada.email)
  await page.getByLabel('Password').fill(ada.password)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.waitForURL('**/account')
})
afterAll(async () => {
  await browser[Symbol.asyncDispose]()
  await server.stop()
  rmSync(server.dataDir, { recursive: true, force: true })
})

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as { port: number }
  probe.close()
  await once(probe, 'close')
  return port
}

async function registered(redirectUri: string): Promise<string> {
  const response = await fetch(new URL('/auth/oauth2/register', server.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ redirect_uris: [redirectUri], token_endpoint_auth_method: 'none' }),
  })
  return ((await response.json()) as { client_id: string }).client_id
}

/** Opens what the suite asks a person to open, and allows it. */
async function allow(address: string): Promise<void> {
  const page = await browser.context.newPage()
  await page.goto(address)
  if ((await page.title()).startsWith('Allow access?')) {
    await page.getByRole('button', { name: 'Allow', exact: true }).click()
    await page.waitForLoadState()
  }
  await page.close()
}

describe('the conformance suite for authorisation servers', () => {
  it.each(['2025-11-25', '2026-07-28'])('passes in revision %s', { timeout: TIMEOUT_MS }, async (revision) => {
    const port = await freePort()
    const clientId = await registered(`http://127.0.0.1:${port}/callback`)
    const child = spawn(
      process.execPath,
      [
        ...[suite, 'authorization', '--url', new URL('/auth', server.url).href, '--client-id', clientId],
        ...['--resource', server.url, '--port', String(port), '--spec-version', revision],
      ],
      { stdio: ['ignore', 'pipe', 'pipe'], timeout: TIMEOUT_MS },
    )
    let printed = ''
    const opened = new Set<string>()
    const allowed: Promise<void>[] = []
    const read = (chunk: Buffer): void => {
      printed += chunk.toString()
      for (const [address] of printed.matchAll(/http:\/\/\S+\/auth\/oauth2\/authorize\?\S+(?=\s)/g)) {
        if (!opened.has(address)) {
          opened.add(address)
          allowed.push(allow(address))
        }
      }
    }
    child.stdout.on('data', read)
    child.stderr.on('data', read)
    const [code] = (await once(child, 'close')) as [number | null]
    // The suite may end before the pages that it had opened.
    await Promise.all(allowed)
    expect(printed).toMatch(/^✓ authorization-server-metadata-endpoint: \d+ passed, 0 failed/m)
    expect(printed).toMatch(/^✓ authorization-code-grant: \d+ passed, 0 failed/m)
    expect(opened.size).toBe(1)
    expect(code, printed).toBe(0)
  })
})
