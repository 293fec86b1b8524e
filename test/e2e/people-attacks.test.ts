import { createHash, randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { castellanJson, newPerson, postForm, signIn } from '../support/people.ts'
import { newDataDir } from '../support/real-server.ts'
import { type ServerHere, startServerHere } from '../support/server-here.ts'

/** What an attacker tries without an account, or with another user's cookie. */
const REDIRECT = 'http://127.0.0.1:9/callback'
const FROM_ELSEWHERE = { 'x-forwarded-for': '203.0.113.9' }

let server: ServerHere
beforeAll(async () => {
  const dataDir = newDataDir()
  await castellanJson({ dataDir }, ['users', 'create', 'first@example.com', '--admin'])
  const env = { CASTELLAN_REQUIRE_KEYS: 'true', CASTELLAN_TRUSTED_PROXIES: '127.0.0.1' }
  server = await startServerHere({ env, dataDir })
})
afterAll(async () => {
  await server.stop()
  rmSync(server.dataDir, { recursive: true, force: true })
})

const at = (path: string) => new URL(path, server.url)
const register = (metadata: object, headers: Record<string, string> = {}) =>
  fetch(at('/auth/oauth2/register'), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ redirect_uris: [REDIRECT], token_endpoint_auth_method: 'none', ...metadata }),
  })

async function authorizationOf(clientId: string): Promise<URL> {
  const url = at('/auth/oauth2/authorize')
  const challenge = createHash('sha256').update(randomBytes(32).toString('base64url')).digest('base64url')
  url.search = new URLSearchParams({
    response_type: 'code',
    client_id: clientId,
    redirect_uri: REDIRECT,
    code_challenge: challenge,
    code_challenge_method: 'S256',
    state: 's',
  }).toString()
  return url
}
/** Where the server leads to; a program gets it in the body. */
async function locationOf(url: URL, headers: Record<string, string>): Promise<string> {
  const response = await fetch(url, { redirect: 'manual', headers })
  return response.headers.get('location') ?? ((await response.json()) as { url: string }).url
}

describe('a session that began on this machine', () => {
  it('lets nobody elsewhere allow a client with it', async () => {
    const cookie = await signIn(server, await newPerson(server, 'ada@example.com', ['--role', 'editor']))
    const { client_id } = (await (await register({ client_name: 'x' })).json()) as { client_id: string }
    const url = await authorizationOf(client_id)
    const stolen = { cookie, ...FROM_ELSEWHERE }
    expect(await locationOf(url, stolen)).toContain('/sign-in?')
    const consent = await locationOf(url, { cookie })
    expect(consent).toContain('/consent?')
    const query = new URL(consent, server.url).search.slice(1)
    const answer = await postForm(at('/consent'), { decision: 'allow', query }, stolen)
    expect([answer.status, answer.headers.get('location') ?? '']).toEqual([401, ''])
    const allowed = await postForm(at('/consent'), { decision: 'allow', query }, { cookie })
    expect(allowed.headers.get('location')).toContain(`${REDIRECT}?code=`)
    expect(await locationOf(url, stolen)).toContain('/sign-in?')
  })

  it('is not shown another client than the one that it would allow', async () => {
    const cookie = await signIn(server, await newPerson(server, 'eve@example.com', ['--role', 'editor']))
    const idOf = async (client_name: string) =>
      ((await (await register({ client_name })).json()) as { client_id: string }).client_id
    const [shown, meant] = [await idOf('shown'), await idOf('meant')]
    const consent = at(await locationOf(await authorizationOf(meant), { cookie }))
    expect((await fetch(consent, { headers: { cookie } })).status).toBe(200)
    for (const [name, value] of [
      ['client_id', shown],
      ['redirect_uri', 'http://127.0.0.1:9/'],
    ] as const) {
      const doubled = `${consent.origin}${consent.pathname}?${name}=${encodeURIComponent(value)}&${consent.search.slice(1)}`
      expect((await fetch(doubled, { headers: { cookie } })).status).toBe(400)
    }
  })

  it('does not make its person the owner of a client that a page registers', async () => {
    const cookie = await signIn(server, await newPerson(server, 'bob@example.com'))
    const answer = (await (await register({ client_name: 'x' }, { cookie })).json()) as Record<string, unknown>
    expect(answer['user_id']).toBeUndefined()
  })
})

describe('a registration', () => {
  it('is refused when it is larger than a client needs', async () => {
    expect((await register({ client_name: 'x'.repeat(20_000) })).status).toBe(413)
    expect((await register({ client_name: 'x'.repeat(200) })).status).toBe(201)
  })
})
