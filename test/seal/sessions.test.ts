import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { limits } from '../../src/contract/limits.ts'
import { LOCAL_TENANT, localOwner, type Principal, tenantId } from '../../src/contract/principal.ts'
import type { SecurityContext } from '../../src/contract/security-context.ts'
import { createIdentityService, type IdentityService } from '../../src/domains/identity/service.ts'
import { messageDigest, readEnvelope, signedText } from '../../src/domains/seal/envelope.ts'
import { type AttestInput, createSealService, type SealService } from '../../src/domains/seal/service.ts'
import { createTokenSigner } from '../../src/domains/seal/token.ts'
import { systemRandom } from '../../src/kernel/random.ts'
import { sqlApiKeyStore } from '../../src/stores/sql/api-key-store.ts'
import { sqlRoleStore } from '../../src/stores/sql/role-store.ts'
import { sqlSealStore } from '../../src/stores/sql/seal-store.ts'
import { movableClock } from '../support/app.ts'
import { dialects, newTestDatabase, type TestDatabase } from '../support/databases.ts'
import { newSigner, type SealSigner, seal, toolCall } from '../support/seal.ts'

const contextNames = ['zaru-free', 'zaru-pro', 'aegis-system-agent-runtime', 'aegis-system-operator', 'tenant-acme-ops']
const contexts = new Map<string, SecurityContext>(
  contextNames.map((name) => [name, { name, description: '', capabilities: [{ toolPattern: '*' }], denyList: [] }]),
)
const ACME = tenantId('acme')

describe.each(dialects)('SEAL sessions in %s', (dialect) => {
  let testDatabase: TestDatabase
  let database: Database
  let identity: IdentityService
  let service: SealService
  let signer: SealSigner
  let effects: string[]
  let keyCount = 0
  const clock = movableClock()

  beforeEach(async () => {
    testDatabase = await newTestDatabase(dialect)
    await open()
    signer = newSigner()
    effects = []
  })
  afterEach(async () => {
    await database.close()
    testDatabase.remove()
  })

  async function open(): Promise<void> {
    database = await testDatabase.open()
    identity = createIdentityService({
      roles: sqlRoleStore,
      store: sqlApiKeyStore,
      random: systemRandom,
      read: database.read,
      noteRevoked() {},
      noteUse() {},
    })
    service = createSealService({
      store: sqlSealStore,
      database,
      keys: identity,
      contexts: { find: (name) => contexts.get(name) },
      signer: createTokenSigner(Buffer.alloc(32, 9)),
      clock,
      random: systemRandom,
    })
  }

  const writing = <T>(principal: Principal, work: (call: Parameters<SealService['attest']>[0]) => Promise<T>) =>
    database.write(principal.tenant, (write) =>
      work({
        principal,
        nowMs: clock.nowMs(),
        read: write as never,
        write,
        record: ({ kind }) => effects.push(kind),
      }),
    )
  const attest = (input: Partial<AttestInput> = {}, principal: Principal = localOwner) =>
    writing(principal, (call) => service.attest(call, { public_key: signer.publicKey, ...input }))
  const reading = (principal: Principal) => ({ principal, nowMs: clock.nowMs(), read: database.read })
  const invoke = (token: string, payload = toolCall('server_ping'), atMs = clock.nowMs(), by = signer) =>
    service.open(readEnvelope(seal(by, token, payload, atMs)))
  const reasonOf = async (work: Promise<unknown>): Promise<unknown> =>
    await work.then(
      () => 'taken',
      (error: { code: string; details: { reason?: string } }) => error.details.reason ?? error.code,
    )

  async function keyPrincipal(request: object = {}): Promise<Principal> {
    const { secret } = await database.write(LOCAL_TENANT, (write) =>
      identity.createKey(
        { principal: localOwner, nowMs: clock.nowMs(), read: write as never, write, record() {} },
        { name: `key-${++keyCount}`, role: 'member', tier: 'user', ...request },
      ),
    )
    return await identity.authenticate(secret, clock.nowMs())
  }

  it('take a signed call once, as the identity narrowed by its context', async () => {
    const session = await attest({ security_context: 'zaru-pro', agent_id: 'a', task_summary: 'x' })
    const payload = toolCall('task_list', { limit: 1 })
    const { principal, call } = await invoke(session.security_token, payload)
    expect(call).toEqual({ name: 'task_list', args: { limit: 1 } })
    expect(principal).toMatchObject({ kind: 'owner', tier: 'user', sealSessionId: session.session_id })
    expect(principal.securityContexts).toEqual([contexts.get('zaru-pro')])
    expect(principal.agent).toBeUndefined()
    expect(await reasonOf(invoke(session.security_token, payload))).toBe('ENVELOPE_REPLAYED')
    expect(effects).toEqual(['seal_session_created'])
  })

  it('remember what was taken, and themselves, over a restart', async () => {
    const { security_token } = await attest()
    const payload = toolCall('server_ping')
    await invoke(security_token, payload)
    await database.close()
    await open()
    expect(await reasonOf(invoke(security_token, payload))).toBe('ENVELOPE_REPLAYED')
    expect(await reasonOf(invoke(security_token))).toBe('taken')
  })

  it('take one of many copies that arrive together', async () => {
    const { security_token } = await attest()
    const payload = toolCall('server_ping')
    const outcomes = await Promise.all(Array.from({ length: 10 }, () => reasonOf(invoke(security_token, payload))))
    expect(outcomes.filter((outcome) => outcome === 'taken')).toHaveLength(1)
    expect(outcomes.filter((outcome) => outcome === 'ENVELOPE_REPLAYED')).toHaveLength(9)
  })

  it('forget a taken call only when its time is long over, even if the clock is set back', async () => {
    const { security_token } = await attest()
    const payload = toolCall('server_ping')
    const atMs = clock.nowMs() + 30_000
    await invoke(security_token, payload, atMs)
    clock.advance(limits.sealSweepMs + 1_000)
    await invoke(security_token)
    clock.advance(-limits.sealSweepMs)
    expect(await reasonOf(invoke(security_token, payload, atMs))).toBe('ENVELOPE_REPLAYED')
    clock.advance(limits.sealMessageRetentionMs + 3 * limits.sealSweepMs)
    await invoke(security_token)
    const text = signedText({ payload, token: security_token, timestampSeconds: Math.floor(atMs / 1000) })
    const isForgotten = await database.write(LOCAL_TENANT, (tx) =>
      sqlSealStore.takeMessage(tx, LOCAL_TENANT, messageDigest(text), 0),
    )
    expect(isForgotten).toBe(true)
    expect(await reasonOf(invoke(security_token, payload, atMs))).toBe('ENVELOPE_EXPIRED')
  })

  it('refuse what is more than thirty seconds away, and take what is not', async () => {
    const { security_token } = await attest()
    const whole = Math.floor(clock.nowMs() / 1000) * 1000
    clock.advance(whole - clock.nowMs())
    const at = (offsetMs: number) => reasonOf(invoke(security_token, toolCall('server_ping'), whole + offsetMs))
    expect([await at(-30_000), await at(30_000)]).toEqual(['taken', 'taken'])
    expect([await at(-31_000), await at(31_000)]).toEqual(['ENVELOPE_EXPIRED', 'ENVELOPE_EXPIRED'])
  })

  it('refuse forged, foreign and borrowed signatures and tokens', async () => {
    const { security_token } = await attest()
    const other = newSigner()
    const others = await attest({ public_key: other.publicKey })
    const forged = (token: string, by: SealSigner) => reasonOf(invoke(token, toolCall('x'), clock.nowMs(), by))
    expect(await forged(security_token, other)).toBe('SIGNATURE_INVALID')
    expect(await forged(others.security_token, signer)).toBe('SIGNATURE_INVALID')
    expect(await forged(`${security_token}A`, signer)).toBe('SIGNATURE_INVALID')
    expect(await forged('x.y.z', signer)).toBe('SIGNATURE_INVALID')
    const envelope = seal(signer, security_token, toolCall('a'), clock.nowMs())
    const changed = { ...envelope, payload: { ...envelope.payload, method: 'b' } }
    expect(await reasonOf(service.open(readEnvelope(changed)))).toBe('SIGNATURE_INVALID')
    const borrowed = { ...envelope, security_token: others.security_token }
    expect(await reasonOf(service.open(readEnvelope(borrowed)))).toBe('SIGNATURE_INVALID')
  })

  it('end after an hour, when revoked, and with the key that began them', async () => {
    const key = await keyPrincipal()
    const own = await attest({}, key)
    const displayed = async () => (await service.listSessions(reading(key))).sessions.map(({ status }) => status)
    expect(await displayed()).toEqual(['active'])
    const revoked = await attest()
    await writing(localOwner, (call) => service.revokeSession(call, revoked.session_id))
    expect(await reasonOf(invoke(revoked.security_token))).toBe('SESSION_INACTIVE')
    expect(await reasonOf(invoke(own.security_token))).toBe('taken')
    await database.write(LOCAL_TENANT, (tx) => sqlApiKeyStore.revokeKey(tx, LOCAL_TENANT, key.keyId!, clock.nowMs()))
    expect(await reasonOf(invoke(own.security_token))).toBe('SESSION_INACTIVE')
    const third = await attest()
    clock.advance(limits.sealSessionMs - 1)
    expect(await reasonOf(invoke(third.security_token))).toBe('taken')
    clock.advance(1)
    expect(await reasonOf(invoke(third.security_token))).toBe('SESSION_EXPIRED')
    expect(await displayed()).toEqual(['expired'])
  })

  it('never outlive the key', async () => {
    const key = await keyPrincipal({ expires_in: 60 })
    const { expires_at } = await attest({}, key)
    expect(Date.parse(expires_at)).toBe(clock.nowMs() + 60_000)
  })

  it('have no context beyond the identity, and the refusal names none', async () => {
    const user = await keyPrincipal()
    const ofAcme = { ...(await keyPrincipal({ tenant: 'acme', tier: 'system' })) }
    const operator = await keyPrincipal({ tier: 'operator', role: 'admin' })
    for (const [principal, security_context, isAllowed] of [
      [user, 'zaru-pro', true],
      [user, undefined, true],
      [user, 'aegis-system-agent-runtime', false],
      [user, 'aegis-system-operator', false],
      [user, 'no-such-context', false],
      [user, 'tenant-acme-ops', false],
      [ofAcme, 'tenant-acme-ops', true],
      [ofAcme, 'aegis-system-agent-runtime', true],
      [ofAcme, 'aegis-system-operator', false],
      [operator, 'aegis-system-operator', true],
      [localOwner, 'aegis-system-operator', true],
    ] as const) {
      const outcome = await attest({ security_context }, principal).then(
        (session) => session.security_context,
        (error: { code: string; message: string }) => `${error.code} ${error.message}`,
      )
      if (isAllowed) expect(outcome).toBe(security_context ?? 'zaru-free')
      else {
        expect(outcome).toMatch(/^ERR_CONTEXT_NOT_ALLOWED /)
        for (const name of contextNames) expect(outcome).not.toContain(name)
      }
    }
    expect(ofAcme.tenant).toBe(ACME)
  })

  it('are of one tenant, and are not made inside a session', async () => {
    expect(await reasonOf(attest({ tenant_id: 'acme' }))).toBe('TENANT_MISMATCH')
    expect(await reasonOf(attest({ tenant_id: 'local', zaru_tier: 'PRO' }))).toBe('taken')
    expect(await reasonOf(attest({ zaru_tier: 'gold' }))).toBe('ERR_INVALID_INPUT')
    const inside = { ...localOwner, securityContexts: [contexts.get('zaru-pro')!] }
    expect(await reasonOf(attest({}, inside))).toBe('ERR_PERMISSION_DENIED')
    const own = await attest()
    const untrusted = await keyPrincipal()
    expect(await reasonOf(writing(untrusted, (call) => service.revokeSession(call, own.session_id)))).toBe(
      'ERR_NOT_FOUND',
    )
    expect((await service.listSessions(reading(untrusted))).sessions).toEqual([])
  })

  it('are few for one identity: the oldest makes room', async () => {
    const first = await attest()
    for (let count = 1; count < limits.sealSessionsPerIdentityMax; count++) {
      clock.advance(1)
      await attest()
    }
    expect(await reasonOf(invoke(first.security_token))).toBe('taken')
    await attest()
    expect(await reasonOf(invoke(first.security_token))).toBe('SESSION_INACTIVE')
    expect(effects.at(-2)).toBe('seal_session_revoked')
  })
})
