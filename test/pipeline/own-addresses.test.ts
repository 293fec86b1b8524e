import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestApp, type TestApp } from '../support/app.ts'
import { addElsewhere, addHostAddress } from '../support/network-bench.ts'
import { answer, serveWeb, type WebServer } from '../support/web-server.ts'

/** A public address that this machine has is as closed as a private one, for everything that fetches what others name. */
const OWN = '203.0.113.61'
const ELSEWHERE = '203.0.113.62'

let app: TestApp
let web: WebServer
let elsewhere: WebServer
const closers: (() => unknown)[] = []
beforeAll(async () => {
  closers.push(addHostAddress(OWN), addElsewhere(ELSEWHERE))
  web = await serveWeb({ '/': answer('secret') }, OWN)
  elsewhere = await serveWeb({ '/': answer('found') }, ELSEWHERE)
  app = await openTestApp()
  closers.push(
    () => web[Symbol.asyncDispose](),
    () => elsewhere[Symbol.asyncDispose](),
    () => app[Symbol.asyncDispose](),
  )
})
afterAll(async () => {
  for (const close of closers.toReversed()) await close()
})

describe('a public address of this machine', () => {
  it('is not fetched', async () => {
    const refused = await app.refusal('web.fetch', { url: web.at('/') })
    expect(refused).toMatchObject({ code: 'ERR_POLICY_VIOLATION', details: { reason: 'private_address' } })
    expect(JSON.stringify(await app.ask('web.fetch', { url: elsewhere.at('/') }))).toContain('found')
  })

  it('is no MCP server of others, neither before it is registered nor when it becomes one of this machine', async () => {
    const refused = await app.refusal('create_mcp_server', { name: 'own', serverUrl: web.at('/mcp') })
    expect(refused.message).toContain('DomainNotAllowed')
    await app.ask('create_mcp_server', { name: 'moves', serverUrl: elsewhere.at('/mcp') })
    const deployed = () => app.ask<{ error: string | null }>('deploy_mcp_server', { catalogId: 'moves' })
    await deployed()
    const reached = elsewhere.requests.length
    expect(reached).toBeGreaterThan(1)
    const release = addHostAddress(ELSEWHERE)
    try {
      expect((await deployed()).error).toContain('DomainNotAllowed')
    } finally {
      release()
    }
    expect([elsewhere.requests.length, web.requests.length]).toEqual([reached, 0])
  })
})
