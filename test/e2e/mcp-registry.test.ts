import { rmSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { castellanJson, type Row } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** The catalogue as clients of the MCP registry read it, over HTTP from the real program. */
let server: ServerHere
let keys: Record<'ann' | 'bob', string>
const SECRET = 'a-value-that-nobody-shows'

beforeAll(async () => {
  const dataDir = newDataDir()
  const key = async (name: string) =>
    String((await castellanJson({ dataDir }, ['keys', 'create', name, '--role', 'editor']))['secret'])
  keys = { ann: await key('ann'), bob: await key('bob') }
  server = await startServerHere({ dataDir, env: { CASTELLAN_REQUIRE_KEYS: 'true' } })
  const create = (args: object) => post('create_mcp_server', args)
  const authFields = [{ name: 'X-Token', label: 'Token', type: 'header', secret: true }]
  const environment = [{ key: 'API_KEY', type: 'secret', promptOnInstallation: false, value: SECRET }]
  await create({ name: 'Alpha', serverUrl: 'https://1.1.1.1/mcp', requiresAuth: true, authFields, version: '2.0.0' })
  await create({ name: 'Beta', command: 'npx', arguments: ['-y', '@scope/server@1.2.3'], environment })
  await create({ name: 'Gamma', command: 'node', arguments: ['x.js', SECRET], description: 'The third.' })
})
afterAll(async () => {
  await server.stop()
  rmSync(server.dataDir, { recursive: true, force: true })
})

async function post(tool: string, args: object): Promise<void> {
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${keys.ann}` }
  const at = new URL(`/v1/tools/${tool}`, server.url)
  const response = await fetch(at, { method: 'POST', headers, body: JSON.stringify(args) })
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
}
async function get(path: string, who: 'ann' | 'bob' = 'ann'): Promise<Readonly<{ status: number; body: Row }>> {
  const response = await fetch(new URL(path, server.url), { headers: { authorization: `Bearer ${keys[who]}` } })
  const text = await response.text()
  expect(text).not.toContain(SECRET)
  return { status: response.status, body: JSON.parse(text) as Row }
}
const namesOf = ({ body }: Awaited<ReturnType<typeof get>>) =>
  (body['servers'] as { server: { name: string } }[]).map(({ server: { name } }) => name)

test('lists what the caller sees, in pages, and says which values a server wants without any of them', async () => {
  const all = await get('/v0.1/servers')
  expect(namesOf(all)).toEqual(['castellan/alpha', 'castellan/beta', 'castellan/gamma'])
  expect(all.body).toMatchObject({
    metadata: { count: 3 },
    servers: [
      {
        server: {
          title: 'Alpha',
          version: '2.0.0',
          remotes: [
            { type: 'streamable-http', url: 'https://1.1.1.1/mcp', headers: [{ name: 'X-Token', isSecret: true }] },
          ],
        },
        _meta: { 'io.modelcontextprotocol.registry/official': { status: 'active', isLatest: true } },
      },
      { server: { packages: [{ registryType: 'npm', identifier: '@scope/server', version: '1.2.3' }] } },
      { server: { description: 'The third.', version: '0.0.0' } },
    ],
  })
  const first = await get('/v0.1/servers?limit=2')
  const { nextCursor } = first.body['metadata'] as { nextCursor: string }
  const second = await get(`/v0.1/servers?limit=2&cursor=${nextCursor}`)
  expect([namesOf(first), namesOf(second)]).toEqual([['castellan/alpha', 'castellan/beta'], ['castellan/gamma']])
  expect(second.body['metadata']).toEqual({ count: 1 })
  expect(namesOf(await get('/v0.1/servers?search=BET'))).toEqual(['castellan/beta'])
  expect(namesOf(await get('/v0.1/servers?updated_since=2100-01-01T00:00:00Z'))).toEqual([])
  expect(namesOf(await get('/v0.1/servers?version=2.0.0'))).toEqual(['castellan/alpha'])
  expect((await get('/v0.1/servers?updated_since=yesterday')).status).toBe(400)
  // What is Ann's alone is not there for Bob.
  expect(namesOf(await get('/v0.1/servers', 'bob'))).toEqual([])
})

test('gives one server by name and version', async () => {
  const name = encodeURIComponent('castellan/alpha')
  expect(namesOf(await get(`/v0.1/servers/${name}/versions`))).toEqual(['castellan/alpha'])
  for (const version of ['latest', '2.0.0']) {
    expect((await get(`/v0.1/servers/${name}/versions/${version}`)).body).toMatchObject({ server: { title: 'Alpha' } })
  }
  expect((await get(`/v0.1/servers/${name}/versions/9.9.9`)).status).toBe(404)
  expect((await get(`/v0.1/servers/${name}/versions`, 'bob')).status).toBe(404)
})
