import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  bearer,
  type HttpTransportApp,
  jsonType,
  openHttpTransportApp,
  type Reply,
  type ServedTransport,
  send,
} from '../../test/support/http-transport-peer.ts'
import { newSigner, type SealSigner, type SignedCall, seal, toolCall } from '../../test/support/seal.ts'
import { localOwner } from '../contract/principal.ts'

let peer: HttpTransportApp
let served: ServedTransport
let keyed: ServedTransport
const signer = newSigner()

beforeAll(async () => {
  peer = await openHttpTransportApp()
  served = await peer.serve()
  keyed = await peer.serve({ requireKeys: true })
})
afterAll(() => peer.close())

const attest = (body: object, headers: Record<string, string> = {}, at = served): Promise<Reply> =>
  send(at, '/v1/seal/attest', { method: 'POST', headers: { ...jsonType, ...headers }, body: JSON.stringify(body) })

async function tokenFor(body: object = {}, headers: Record<string, string> = {}, at = served): Promise<string> {
  const reply = await attest({ public_key: signer.publicKey, ...body }, headers, at)
  expect([reply.status, reply.body['status']]).toEqual([200, 'success'])
  return reply.body['security_token'] as string
}

type RpcBody = Readonly<{
  jsonrpc: string
  id: unknown
  result?: Record<string, unknown>
  error?: Record<string, unknown>
}>

async function post(
  body: SignedCall | string,
  at = served,
): Promise<Readonly<{ reply: Reply; body: RpcBody; name: string | null }>> {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const reply = await send(at, '/v1/seal/invoke', { method: 'POST', headers: jsonType, body: text })
  return { reply, body: reply.body as unknown as RpcBody, name: reply.headers.get('x-castellan-error-code') }
}

const call = (token: string, tool: string, args: unknown = {}, by: SealSigner = signer, at = served) =>
  post(seal(by, token, toolCall(tool, args), Date.now()), at)

const shortly = ({ reply, body, name }: Awaited<ReturnType<typeof post>>) => [
  reply.status,
  body.error?.['code'] ?? null,
  name,
]

describe('attesting', () => {
  it('takes the names that clients use for the key, and gives a session', async () => {
    for (const name of ['public_key', 'public_key_pem', 'agent_public_key']) {
      const reply = await attest({ [name]: signer.publicKey, principal_subject: 'someone', user_id: 'root' })
      expect(reply.status).toBe(200)
      expect(Object.keys(reply.body)).toEqual(['status', 'security_token', 'expires_at', 'session_id'])
    }
  })

  it.each([
    [{}, 400, 'INVALID_INPUT'],
    [{ public_key: 'x' }, 400, 'INVALID_INPUT'],
    [{ public_key: 5 }, 400, 'INVALID_INPUT'],
    [{ public_key: signer.publicKey, task_summary: 'x'.repeat(257) }, 400, 'INVALID_INPUT'],
    [{ public_key: signer.publicKey, security_context: 'nowhere' }, 403, 'CONTEXT_NOT_ALLOWED'],
    [{ public_key: signer.publicKey, tenant_id: 'other' }, 403, 'TENANT_MISMATCH'],
  ])('refuses %j', async (body, status, name) => {
    const reply = await attest(body)
    expect([reply.status, reply.headers.get('x-castellan-error-code')]).toEqual([status, name])
  })

  it('needs a key where keys are demanded, and gives it no more than it has', async () => {
    const key = await peer.createKey({ name: 'sealed' })
    const nobody = await attest({ public_key: signer.publicKey }, {}, keyed)
    expect([nobody.status, nobody.headers.get('x-castellan-error-code')]).toEqual([401, 'UNAUTHENTICATED'])
    expect((await attest({ public_key: signer.publicKey }, bearer('cst_wrong'), keyed)).status).toBe(401)
    const beyond = await attest(
      { public_key: signer.publicKey, security_context: 'aegis-system-operator' },
      bearer(key),
      keyed,
    )
    expect([beyond.status, beyond.body.error?.code]).toEqual([403, 'ERR_CONTEXT_NOT_ALLOWED'])
    expect(beyond.body.error?.message).not.toMatch(/zaru|aegis/)
    const narrow = await peer.createKey({ name: 'narrow', scopes: ['task:read'] })
    expect((await attest({ public_key: signer.publicKey }, bearer(narrow), keyed)).status).toBe(403)
  })
})

describe('a signed call', () => {
  it('is answered with the result of the tool, and needs no key', async () => {
    const operator = await tokenFor({ security_context: 'aegis-system-operator' })
    const done = await call(operator, 'task_create', { title: 'Signed', project: 'seal' }, signer, keyed)
    expect([done.reply.status, done.body.result?.['status']]).toEqual([200, 'backlog'])
    expect(typeof done.body.id).toBe('number')
  })

  it('is recorded with its session and its transport', async () => {
    const token = await tokenFor({ security_context: 'aegis-system-operator' })
    await call(token, 'task_create', { title: 'Recorded', project: 'seal' })
    const caller = { principal: localOwner, transport: 'cli', exposure: 'full', safeNames: false } as const
    const listed = await peer.app.host.call(caller, 'seal_session_list', {})
    const sessions = (JSON.parse(listed.json) as { sessions: { session_id: string }[] }).sessions
    const exported = await peer.app.host.call(caller, 'log_export', {})
    const { lines } = JSON.parse(exported.json) as { lines: string[] }
    const entry = lines.findLast((line) => line.includes('"tool":"task_create"'))
    expect(entry).toContain('"door":"seal"')
    expect(entry).toContain(`"seal_session":"${sessions[0]!.session_id}"`)
    expect(exported.json).not.toContain(token)
  })

  it('is refused in the words of the document', async () => {
    const token = await tokenFor({ security_context: 'aegis-system-operator' })
    const missing = await call(token, 'task_get', { task_id: null })
    expect(shortly(missing)).toEqual([422, -32602, 'INVALID_ARGUMENTS'])
    expect(missing.body.error).toEqual({
      code: -32602,
      message: "Invalid tool arguments: required field 'task_id' is missing or null for tool 'task_get'",
      data: null,
    })
    expect(shortly(await call(token, 'task_get', { task_id: 'T-9999' }))).toEqual([404, -32000, 'NOT_FOUND'])
    expect(shortly(await call(token, 'no_such_tool'))).toEqual([404, -32601, 'NOT_FOUND'])
    const free = await tokenFor()
    expect(shortly(await call(free, 'task_list'))).toEqual([403, -32000, 'TOOL_NOT_ALLOWED'])
    expect(shortly(await call(free, 'seal_session_create', { public_key: signer.publicKey }))).toEqual([
      403,
      -32000,
      'TOOL_NOT_ALLOWED',
    ])
    expect(shortly(await call(token, 'seal_session_create', { public_key: signer.publicKey }))).toEqual([
      403,
      -32000,
      'TOOL_NOT_ALLOWED',
    ])
  })

  it('beyond the tier of its session is refused with the way to another session', async () => {
    const { reply, body, name } = await call(await tokenFor(), 'aegis.agent.create', { manifest_yaml: 'x' })
    expect([reply.status, name]).toEqual([403, 'TOOL_NOT_ALLOWED'])
    expect(body.error?.['message']).toContain("'system'; your session has 'user'. Attest with another security_context")
    expect(body.error?.['message']).not.toContain('keys create')
  })

  it.each([
    ['nothing', ''],
    ['no JSON', '{'],
    ['a list', '[]'],
    ['an empty object', '{}'],
    ['a key twice', '{"payload":{},"payload":{}}'],
  ])('that is %s is malformed', async (_, text) => {
    const { reply, body, name } = await post(text)
    expect([reply.status, name]).toEqual([400, 'MALFORMED_ENVELOPE'])
    expect(body).toMatchObject({ jsonrpc: '2.0', id: null, error: { code: -32600, data: null } })
  })

  it('without a tool is malformed, though it is signed', async () => {
    const token = await tokenFor()
    const payload = { jsonrpc: '2.0', id: 'a', method: 'tools/call', params: {} }
    const answer = await post(seal(signer, token, payload, Date.now()))
    expect(shortly(answer)).toEqual([400, -32600, 'MALFORMED_ENVELOPE'])
    expect(answer.body.id).toBe('a')
  })

  it('is refused when forged, old, replayed, too large, or after its session ended', async () => {
    const token = await tokenFor({ security_context: 'aegis-system-operator' })
    expect(shortly(await call(token, 'server_ping', {}, newSigner()))).toEqual([401, -32000, 'SIGNATURE_INVALID'])
    const old = await post(seal(signer, token, toolCall('server_ping'), Date.now() - 40_000))
    expect(shortly(old)).toEqual([401, -32000, 'ENVELOPE_EXPIRED'])
    const envelope = seal(signer, token, toolCall('task_list'), Date.now())
    expect((await post(envelope)).reply.status).toBe(200)
    expect(shortly(await post(envelope))).toEqual([401, -32000, 'ENVELOPE_REPLAYED'])
    const large = await send(served, '/v1/seal/invoke', {
      method: 'POST',
      headers: jsonType,
      body: ' '.repeat(200_000),
    })
    expect(large.status).toBe(413)
    const caller = { principal: localOwner, transport: 'cli', exposure: 'full', safeNames: false } as const
    const [claims] = token.split('.').slice(1)
    const { jti } = JSON.parse(Buffer.from(claims!, 'base64url').toString()) as { jti: string }
    await peer.app.host.call(caller, 'seal_session_revoke', { session_id: jti })
    expect(shortly(await call(token, 'server_ping'))).toEqual([403, -32000, 'SESSION_INACTIVE'])
  })

  it('says when to try again', async () => {
    const limited = await openHttpTransportApp({ 'rate_limits.owner.enabled': 'true' })
    try {
      const at = await limited.serve()
      const token = await tokenFor({ security_context: 'aegis-system-operator' }, {}, at)
      const answers = await Promise.all(Array.from({ length: 40 }, () => call(token, 'server_ping', {}, signer, at)))
      const refused = answers.find(({ reply }) => reply.status === 429)!
      expect(shortly(refused)).toEqual([429, -32000, 'RATE_LIMIT_EXCEEDED'])
      expect(Number(refused.reply.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
    } finally {
      await limited.close()
    }
  })

  it('dies with the key that began its session', async () => {
    const key = await peer.createKey({ name: 'short-lived' })
    const token = await tokenFor({}, bearer(key))
    const caller = { principal: localOwner, transport: 'cli', exposure: 'full', safeNames: false } as const
    await peer.app.host.call(caller, 'api_key_revoke', { key: 'short-lived' })
    expect(shortly(await call(token, 'aegis.tools.list'))).toEqual([403, -32000, 'SESSION_INACTIVE'])
  })
})

describe('the list of tools', () => {
  it('is what a session of the context could call', async () => {
    const all = await send(served, '/v1/seal/tools?security_context=aegis-system-operator')
    expect(all.body).toMatchObject({
      protocol: 'seal/v1',
      attestation_endpoint: '/v1/seal/attest',
      invoke_endpoint: '/v1/seal/invoke',
      security_context: 'aegis-system-operator',
    })
    const namesOf = ({ body }: Reply) => (body['tools'] as { name: string }[]).map(({ name }) => name)
    expect(namesOf(all)).toContain('task_create')
    expect(Object.keys((all.body['tools'] as object[])[0]!)).toEqual(['name', 'description', 'inputSchema'])
    const free = await send(served, '/v1/seal/tools', { headers: { 'x-zaru-security-context': 'zaru-free' } })
    expect(namesOf(free)).not.toContain('task_create')
    const nameOf = ({ status, headers }: Reply) => [status, headers.get('x-castellan-error-code')]
    expect(nameOf(await send(served, '/v1/seal/tools?security_context=nowhere'))).toEqual([403, 'CONTEXT_NOT_ALLOWED'])
    expect(nameOf(await send(served, '/v1/seal/tools?context=zaru-free'))).toEqual([400, 'INVALID_INPUT'])
    expect(nameOf(await send(keyed, '/v1/seal/tools'))).toEqual([401, 'UNAUTHENTICATED'])
  })
})

it('other methods are named', async () => {
  const reply = await send(served, '/v1/seal/invoke')
  expect([reply.status, reply.headers.get('allow')]).toEqual([405, 'POST, OPTIONS'])
})
