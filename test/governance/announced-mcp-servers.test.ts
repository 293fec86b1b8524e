import { afterEach, beforeEach, expect, it } from 'vitest'
import { openTestApp, type TestApp } from '../support/app.ts'
import { type McpUpstream, startMcpUpstream } from '../support/mcp-upstream.ts'

/** A server that says that its tools changed, whether that is so or not. */
let app: TestApp
let upstream: McpUpstream
beforeEach(async () => {
  upstream = await startMcpUpstream()
  app = await openTestApp({ config: { 'web.allow_private_addresses': ['127.0.0.1'] } })
  const { id: catalogId } = await app.ask<{ id: string }>('create_mcp_server', { name: 'Up', serverUrl: upstream.url })
  await app.ask('deploy_mcp_server', { catalogId })
})
afterEach(async () => {
  await app[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

type Stored = { status: string; error: string | null; updated_at: number }
const stored = (): Stored =>
  app.behindItsBack((db) => db.prepare('SELECT status, error, updated_at FROM mcp_deployments').get()) as Stored
const version = () => app.behindItsBack((db) => db.prepare('SELECT version FROM mcp_tool_versions').get()?.['version'])
const posts = () => upstream.requests.filter(({ method }) => method === 'POST').length

async function askedAgain(): Promise<void> {
  const before = posts()
  upstream.announce()
  await expect.poll(posts, { timeout: 60_000 }).toBeGreaterThan(before)
}

it('is asked again, and nothing is written unless the list is another one', async () => {
  const [before, versionBefore] = [stored(), version()]
  await askedAgain()
  // It is asked for the second time after the first answer was dealt with.
  await askedAgain()
  expect(stored()).toEqual(before)
  expect(version()).toBe(versionBefore)
  upstream.addTool('later')
  await expect.poll(version, { timeout: 60_000 }).not.toBe(versionBefore)
  expect(app.warnings).toEqual([])
})

it('is left alone when the program ends, and stays as it was', async () => {
  const before = stored()
  const { held, release } = upstream.hold()
  upstream.announce()
  await held
  await app.stop()
  release()
  expect(app.warnings).toEqual([])
  expect(stored()).toEqual(before)
})
