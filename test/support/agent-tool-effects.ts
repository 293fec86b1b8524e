import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { brave, duckDuckGo } from './search-pages.ts'
import type { ServerHere } from './server-here.ts'
import { answer, serveWeb } from './web-server.ts'

type Body = Record<string, unknown> & { error?: { code: string; details: Record<string, unknown> } }
type Kit = Readonly<{
  serve(env?: Record<string, string>, dataDir?: string): Promise<ServerHere>
  call(server: ServerHere, tool: string, args?: object): Promise<Readonly<{ body: Body }>>
  send(server: ServerHere, path: string): Promise<Readonly<{ body: Body }>>
  newHome(): string
}>
type Effects = Readonly<Record<string, () => Promise<void>>>

/** What each setting of files, commands, the web and security contexts does, through the real program. */
export const agentToolEffects = (kit: Kit): Effects => ({
  ...commandEffects(kit),
  ...webEffects(kit),
  /** A context of the file is there, and replaces a shipped one. */
  async security_contexts() {
    const home = kit.newHome()
    const context = (name: string, pattern: string) => ({ name, capabilities: [{ tool_pattern: pattern }] })
    const contexts = [context('zaru-free', 'fs.read'), context('mine', 'web.*')]
    writeFileSync(join(home, 'castellan.yaml'), JSON.stringify({ security_contexts: contexts }))
    const server = await kit.serve({}, home)
    const { body } = await kit.send(server, '/v1/seal/tools?security_context=zaru-free')
    expect((body['tools'] as { name: string }[]).map(({ name }) => name)).toEqual(['fs.read'])
  },
})

function commandEffects({ serve, call }: Kit): Effects {
  const plain = { CASTELLAN_WORKSPACES_STORE_GB: '0' }
  const run = async (env: Record<string, string>, args: object) =>
    (await call(await serve({ ...plain, ...env }), 'cmd.run', args)).body
  return {
    async 'commands.timeout_secs'() {
      const body = await run({ CASTELLAN_COMMANDS_TIMEOUT_SECS: '1' }, { command: 'sleep 100' })
      expect(body.error).toMatchObject({ code: 'ERR_TIMED_OUT', details: { timeout_secs: 1 } })
    },
    async 'commands.timeout_ceiling_secs'() {
      const body = await run({ CASTELLAN_COMMANDS_TIMEOUT_CEILING_SECS: '9' }, { command: 'true', timeout_secs: 10 })
      expect(body.error?.details).toMatchObject({ violation: 'ExecTimeoutCeilingExceeded' })
    },
    async 'commands.max_output_bytes'() {
      const body = await run({ CASTELLAN_COMMANDS_MAX_OUTPUT_BYTES: '10' }, { command: 'echo 12345678901' })
      expect(body.error?.details).toMatchObject({ violation: 'OutputSizeLimitExceeded' })
    },
  }
}

function webEffects({ serve, call }: Kit): Effects {
  const local = { CASTELLAN_WEB_ALLOW_PRIVATE_ADDRESSES: '127.0.0.1' }
  const brief = { CASTELLAN_WEB_SEARCH_ENGINE: 'brave', CASTELLAN_WEB_SEARCH_KEY: 'env:SEARCH_KEY', SEARCH_KEY: 'mine' }
  const search = async (server: ServerHere) => (await call(server, 'web.search', { query: 'castle' })).body
  const searchWithKey = async () => {
    await using web = await serveWeb({ '/': answer(JSON.stringify(brave), 'application/json') })
    const body = await search(await serve({ ...brief, CASTELLAN_WEB_SEARCH_URL: web.at('/') }))
    expect(body).toMatchObject({ engine: 'brave', result_count: 2 })
    expect(web.requests[0]!.headers['x-subscription-token']).toBe('mine')
  }
  return {
    async 'web.allow_private_addresses'() {
      await using web = await serveWeb({ '/': answer('inside') })
      const args = { url: web.at('/') }
      expect((await call(await serve(), 'web.fetch', args)).body.error?.code).toBe('ERR_POLICY_VIOLATION')
      expect((await call(await serve(local), 'web.fetch', args)).body).toMatchObject({ result: 'inside' })
    },
    async 'web.max_response_bytes'() {
      await using web = await serveWeb({ '/': answer('x'.repeat(2_000)) })
      const server = await serve({ ...local, CASTELLAN_WEB_MAX_RESPONSE_BYTES: '1024' })
      expect((await call(server, 'web.fetch', { url: web.at('/') })).body.error?.code).toBe('ERR_TOO_LARGE')
    },
    'web.search_engine': searchWithKey,
    'web.search_key': searchWithKey,
    async 'web.search_url'() {
      await using web = await serveWeb({ '/': answer(duckDuckGo.results(2), 'text/html') })
      expect(await search(await serve({ CASTELLAN_WEB_SEARCH_URL: web.at('/') }))).toMatchObject({ result_count: 2 })
    },
  }
}
