import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createMemoryKeyStore, noRoles } from '../../../test/support/memory-key-store.ts'
import { AppError } from '../../contract/app-error.ts'
import type { EffectRecord } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { isPermitted, isPreference, type Permission, permissions, rightsOf } from '../../contract/permissions.ts'
import { localOwner, type Principal, roles, tenantId, tierAllows, tiers } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import { type Random, systemRandom } from '../../kernel/random.ts'
import type { ApiKeyStore } from './ports.ts'
import { type CreateKeyInput, createIdentityService, type IdentityDeps, type KeyWriting } from './service.ts'

const NOW = Date.parse('2026-01-01T00:00:00Z')
const tx = { __tx: 'write' } as WriteTx
const read: ReadTx = { __tx: 'read' }
const quiet = { roles: noRoles, random: systemRandom, read, noteUse() {}, noteRevoked() {} }

const by = (principal: Principal, nowMs = NOW, record: KeyWriting['record'] = () => {}): KeyWriting => ({
  principal,
  nowMs,
  read,
  write: tx,
  record,
})

function setUp(random: Random = systemRandom) {
  const memory = createMemoryKeyStore()
  const effects: EffectRecord[] = []
  const uses: [string, string, number][] = []
  const noteUse: IdentityDeps['noteUse'] = (...use) => uses.push(use)
  const identity = createIdentityService({ ...quiet, store: memory.store, random, noteUse })
  const create = (input: Partial<CreateKeyInput> = {}, principal = localOwner, nowMs = NOW) =>
    identity.createKey(
      by(principal, nowMs, (effect) => effects.push(effect)),
      { name: 'agent-alice', role: 'member', tier: 'user', ...input },
    )
  return { identity, create, uses, effects, ...memory }
}

const codeOf = async (promise: unknown): Promise<string> => {
  try {
    await promise
    return 'no error'
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    return `${error.code} ${error.message}`
  }
}

describe('creating a key', () => {
  it('shows the secret once and stores only its hash', async () => {
    const { create, rows, identity } = setUp()
    const created = await create({ expires_in: '90d' })
    expect(created.secret).toMatch(/^cst_[0-9a-z]{8}_[A-Za-z0-9_-]{43}$/)
    expect(created.secret.slice(4, 12)).toBe(created.prefix)
    expect(created).toMatchObject({
      name: 'agent-alice',
      tenant: 'local',
      scopes: null,
      status: 'live',
      created_by: 'owner',
      created_at: '2026-01-01T00:00:00.000Z',
      expires_at: '2026-04-01T00:00:00.000Z',
      last_used_at: null,
      revoked_at: null,
    })
    const secretPart = created.secret.slice(13)
    expect(JSON.stringify(rows())).not.toContain(secretPart)
    const listed = await identity.listKeys(by(localOwner))
    const { secret: _, ...viewed } = created
    expect(listed).toEqual({ keys: [viewed], total: 1, truncated: false, next_cursor: null })
    expect(JSON.stringify(listed)).not.toContain(rows()[0]!.hash)
  })

  it('records what the key is, without its secret and its hash', async () => {
    const { create, rows, effects } = setUp()
    const created = await create({ tenant: 'acme', scopes: ['task:read'], expires_in: '90d' })
    const { id, prefix } = created
    expect(effects).toEqual([
      {
        kind: 'api_key_created',
        body: {
          id,
          prefix,
          name: 'agent-alice',
          tenant: 'acme',
          role: 'member',
          tier: 'user',
          scopes: ['task:read'],
          expires_at: '2026-04-01T00:00:00.000Z',
          created_by: 'owner',
        },
      },
    ])
    expect(await codeOf(create({ tenant: 'acme' }))).toMatch(/^ERR_ALREADY_EXISTS/)
    expect(effects).toHaveLength(1)
    expect(JSON.stringify(effects)).not.toContain(rows()[0]!.hash)
  })

  it.each([
    [{ name: '' }, 'name'],
    [{ name: 'two words' }, 'name'],
    [{ name: 'x'.repeat(65) }, 'name'],
    [{ name: 'Owner' }, 'name'],
    [{ role: 'root' }, 'role'],
    [{ tier: 'king' }, 'tier'],
    [{ scopes: [] }, 'scopes'],
    [{ scopes: ['task:reed'] }, 'scopes'],
    [{ scopes: ['nothing:*'] }, 'scopes'],
    [{ scopes: ['apiKey:create'] }, 'scopes'],
    [{ scopes: ['auditLog:*'] }, 'scopes'],
    [{ tenant: 'Not A Tenant' }, 'tenant'],
    [{ expires_in: '1 week' }, 'expires_in'],
    [{ expires_in: 0 }, 'expires_in'],
    [{ expires_in: -5 }, 'expires_in'],
    [{ expires_in: 1.5 }, 'expires_in'],
    [{ expires_in: '99999d' }, 'expires_in'],
    [{ expires_at: '2025-12-31T23:59:59Z' }, 'expires_at'],
    [{ expires_at: '2030-01-01' }, 'expires_at'],
    [{ expires_at: 'tomorrow' }, 'expires_at'],
    [{ expires_at: '2030-01-01T00:00:00Z', expires_in: '1d' }, 'expires_at'],
  ])('refuses %j and names the field', async (input, field) => {
    const { create, rows } = setUp()
    await expect(create(input)).rejects.toMatchObject({ code: 'ERR_INVALID_INPUT', details: { field } })
    expect(rows()).toEqual([])
  })

  it('names a key that is not there, unless it is a secret', async () => {
    const { identity, create } = setUp()
    const { secret } = await create()
    const unknown = await codeOf(identity.revokeKey(by(localOwner), { key: 'nobody' }))
    expect(unknown).toMatch(/^ERR_NOT_FOUND key: .*'nobody'; castellan keys list /)
    const disclosed = await codeOf(identity.revokeKey(by(localOwner), { key: secret }))
    expect(disclosed).toMatch(/^ERR_NOT_FOUND key: .*not its secret/)
    expect(disclosed).not.toContain(secret)
  })

  it('expands task:* to what the role has now', async () => {
    const { create } = setUp()
    const member = await create({ scopes: ['trail:*', 'task:read'] })
    expect(member.scopes).toEqual(['task:read', 'trail:create', 'trail:read'])
    const editor = await create({ name: 'other', role: 'editor', scopes: ['trail:*'] })
    expect(editor.scopes).toEqual(['trail:create', 'trail:finalize', 'trail:read'])
  })

  it('gives a name to one live key of a tenant at a time', async () => {
    const { create, identity } = setUp()
    const first = await create({ expires_in: 60 })
    expect(await codeOf(create())).toMatch(/^ERR_ALREADY_EXISTS name/)
    await create({ tenant: 'acme' })
    const later = NOW + 60_000
    const second = await create({}, localOwner, later)
    expect(second.id).not.toBe(first.id)
    await identity.revokeKey(by(localOwner, later), { key: second.id })
    await create({}, localOwner, later)
  })

  it('takes another prefix when one is in use', async () => {
    let call = 0
    const { identity, rows } = setUp({ bytes: (count) => Buffer.alloc(count, call++ < 4 ? 1 : call) })
    const context = by(localOwner)
    await identity.createKey(context, { name: 'a', role: 'member', tier: 'user' })
    await identity.createKey(context, { name: 'b', role: 'member', tier: 'user' })
    const [a, b] = rows()
    expect(a!.prefix).toBe('11111111')
    expect(b!.prefix).not.toBe(a!.prefix)
  })

  it('refuses a key that would outlive the key that creates it, or that a revoked key creates', async () => {
    const { create, identity } = setUp()
    const parent = await create({ name: 'parent', role: 'admin', expires_in: '1h' })
    const principal = await identity.authenticate(parent.secret, NOW)
    expect(await codeOf(create({ name: 'child' }, principal))).toMatch(/^ERR_PERMISSION_DENIED expires_at/)
    expect(await codeOf(create({ name: 'child', expires_in: '2h' }, principal))).toMatch(/^ERR_PERMISSION_DENIED/)
    await create({ name: 'child', expires_in: '30m' }, principal)
    await identity.revokeKey(by(localOwner), { key: parent.id })
    expect(await codeOf(create({ name: 'late', expires_in: '30m' }, principal))).toMatch(/^ERR_PERMISSION_DENIED/)
  })

  it('never gives more than the creator has', async () => {
    const principalArbitrary = fc.record({
      tenant: fc.constantFrom('local', 'acme').map(tenantId),
      role: fc.constantFrom(...roles),
      tier: fc.constantFrom(...tiers),
      scopes: fc.option(fc.subarray([...permissions]), { nil: undefined, freq: 1 }),
    })
    const scope = fc.oneof(
      fc.constantFrom('task:read', 'task:*', 'apiKey:*', 'trail:*'),
      fc.constantFrom<string>(...permissions),
    )
    const input = fc.record(
      {
        role: fc.constantFrom<string>(...roles),
        tier: fc.constantFrom<string>(...tiers),
        tenant: fc.constantFrom('local', 'acme', 'new'),
        scopes: fc.array(scope, { minLength: 1, maxLength: 4 }),
      },
      { requiredKeys: ['role', 'tier'] },
    )
    let created = 0
    await fc.assert(
      fc.asyncProperty(principalArbitrary, input, async ({ scopes, ...fields }, wanted) => {
        const creator: Principal = {
          kind: 'user',
          actor: 'ann',
          teams: [],
          ...fields,
          ...rightsOf(fields.role, scopes as Permission[] | undefined),
        }
        const { create, identity } = setUp()
        let secret: string
        try {
          secret = (await create(wanted, creator)).secret
        } catch (error) {
          expect(['ERR_PERMISSION_DENIED', 'ERR_INVALID_INPUT']).toContain((error as AppError).code)
          return
        }
        created++
        const made = await identity.authenticate(secret, NOW)
        expect(isPermitted(creator, 'apiKey:create')).toBe(true)
        expect(tierAllows(creator.tier, made.tier)).toBe(true)
        for (const permission of permissions) {
          if (isPermitted(made, permission) && !isPreference(permission))
            expect(isPermitted(creator, permission)).toBe(true)
        }
        if (made.tenant !== creator.tenant) expect(creator).toMatchObject({ tenant: 'local', tier: 'operator' })
      }),
      { numRuns: 1_000 },
    )
    expect(created).toBeGreaterThan(20)
  })
})

describe('authenticating', () => {
  it('makes a principal from the key', async () => {
    const { create, identity } = setUp()
    const { secret, id } = await create({ tenant: 'acme', role: 'editor', tier: 'system', scopes: ['task:*'] })
    expect(await identity.authenticate(secret, NOW)).toEqual({
      tenant: 'acme',
      kind: 'key',
      actor: 'agent-alice',
      role: 'editor',
      tier: 'system',
      teams: [],
      keyId: id,
      permissions: new Set(['task:create', 'task:read', 'task:update']),
      scopes: ['task:create', 'task:read', 'task:update'],
    })
  })

  it('says the same of an unknown, wrong, malformed, revoked and expired key', async () => {
    const { create, identity } = setUp()
    const live = await create()
    const revoked = await create({ name: 'revoked' })
    const expired = await create({ name: 'expired', expires_in: 1 })
    await identity.revokeKey(by(localOwner), { key: 'revoked' })
    const wrong = `${live.secret.slice(0, -1)}${live.secret.endsWith('A') ? 'E' : 'A'}`
    const tokens = [
      `cst_00000000_${live.secret.slice(13)}`,
      wrong,
      revoked.secret,
      expired.secret,
      '',
      live.prefix,
      `${live.secret}x`,
      ` ${live.secret}`,
      'x'.repeat(100_000),
    ]
    const answers = await Promise.all(tokens.map((token) => codeOf(identity.authenticate(token, NOW + 1_000))))
    expect(new Set(answers).size).toBe(1)
    expect(answers[0]).toMatch(/^ERR_UNAUTHENTICATED/)
    expect((await identity.authenticate(live.secret, NOW)).actor).toBe('agent-alice')
    const virtual = live.secret.replace(/^cst/, 'cvk')
    await expect(identity.authenticate(virtual, NOW)).rejects.toThrow(/virtual key, .* only for model requests/)
  })

  it('looks a busy key up once a second, and never one that is not written like a key', async () => {
    const { create, identity, prefixLookups } = setUp()
    const { secret, prefix } = await create()
    prefixLookups.length = 0
    await Promise.all([1, 2, 3].map(() => identity.authenticate(secret, NOW)))
    await identity.authenticate(secret, NOW + limits.apiKeyCacheMs - 1)
    expect(prefixLookups).toEqual([prefix])
    await identity.authenticate(secret, NOW + limits.apiKeyCacheMs)
    expect(prefixLookups).toEqual([prefix, prefix])
    await codeOf(identity.authenticate('cst_nonsense', NOW))
    expect(prefixLookups).toHaveLength(2)
  })

  it('does not trust the memory after the clock went back', async () => {
    const { create, identity, prefixLookups } = setUp()
    const { secret } = await create()
    await identity.authenticate(secret, NOW)
    const before = prefixLookups.length
    await identity.authenticate(secret, NOW - 3_600_000)
    expect(prefixLookups).toHaveLength(before + 1)
  })

  it('stops at once for a key revoked here, within a second for one revoked elsewhere', async () => {
    const { create, identity, store } = setUp()
    const here = await create({ name: 'here' })
    const elsewhere = await create({ name: 'elsewhere' })
    await identity.authenticate(here.secret, NOW)
    await identity.authenticate(elsewhere.secret, NOW)
    await identity.revokeKey(by(localOwner), { key: here.id })
    await store.revokeKey(tx, tenantId('local'), elsewhere.id, NOW)
    expect(await codeOf(identity.authenticate(here.secret, NOW))).toMatch(/^ERR_UNAUTHENTICATED/)
    expect(await codeOf(identity.authenticate(elsewhere.secret, NOW + limits.apiKeyCacheMs))).toMatch(
      /^ERR_UNAUTHENTICATED/,
    )
  })

  it('does not remember a key alive while its revocation waits for its commit', async () => {
    const memory = createMemoryKeyStore()
    const pending: (() => Promise<boolean>)[] = []
    const store: ApiKeyStore = {
      ...memory.store,
      async revokeKey(...args) {
        pending.push(() => memory.store.revokeKey(...args))
        return true
      },
    }
    const identity = createIdentityService({ ...quiet, store })
    const { secret, id } = await identity.createKey(by(localOwner), { name: 'a', role: 'member', tier: 'user' })
    await identity.authenticate(secret, NOW)
    await identity.revokeKey(by(localOwner), { key: id })
    await identity.authenticate(secret, NOW)
    for (const commit of pending) await commit()
    expect(await codeOf(identity.authenticate(secret, NOW))).toMatch(/^ERR_UNAUTHENTICATED/)
  })

  it('expires a remembered key in time', async () => {
    const { create, identity } = setUp()
    const { secret } = await create({ expires_at: new Date(NOW + 500).toISOString() })
    await identity.authenticate(secret, NOW + 499)
    expect(await codeOf(identity.authenticate(secret, NOW + 500))).toMatch(/^ERR_UNAUTHENTICATED/)
  })

  it('notes the use of a key at most once a minute', async () => {
    const { create, identity, uses, store } = setUp()
    const { secret, id } = await create()
    for (let atMs = NOW; atMs < NOW + 180_000; atMs += 500) await identity.authenticate(secret, atMs)
    expect(uses).toEqual([0, 60_000, 120_000].map((offset) => ['local', id, NOW + offset]))
    await store.touchKey(tx, tenantId('local'), id, NOW + 120_000)
    const restarted = createIdentityService({ ...quiet, store, noteUse: () => uses.push(['again', id, 0]) })
    await restarted.authenticate(secret, NOW + 150_000)
    expect(uses).toHaveLength(3)
  })
})

describe('managing keys', () => {
  const admin: Principal = { ...localOwner, kind: 'user', actor: 'ann', tier: 'user', tenant: tenantId('acme') }

  it('needs the permission', async () => {
    const { identity } = setUp()
    const principal: Principal = { ...admin, ...rightsOf('editor') }
    const context = by(principal)
    const input = { name: 'x', role: 'member', tier: 'user' }
    expect(await codeOf(identity.createKey(context, input))).toBe(
      'ERR_PERMISSION_DENIED apiKey:create is needed for this',
    )
    expect(await codeOf(identity.listKeys(context))).toBe('ERR_PERMISSION_DENIED apiKey:read is needed for this')
    expect(await codeOf(identity.revokeKey(context, { key: 'x' }))).toBe(
      'ERR_PERMISSION_DENIED apiKey:delete is needed for this',
    )
  })

  it('does not reach another tenant, and answers for its keys as for none', async () => {
    const { identity, create } = setUp()
    const foreign = await create({ tenant: 'other' })
    const context = by(admin)
    const refusalOf = async (key: string) =>
      (await codeOf(identity.revokeKey(context, { key }))).replace(`'${key}'`, 'KEY')
    expect(await refusalOf(foreign.id)).toBe(await refusalOf('key_none'))
    expect((await identity.listKeys(context)).keys).toEqual([])
    expect(await codeOf(identity.listKeys(context, { tenant: 'other' }))).toMatch(/^ERR_PERMISSION_DENIED tenant/)
    expect(await codeOf(identity.revokeKey(context, { key: foreign.id, tenant: 'other' }))).toMatch(
      /^ERR_PERMISSION_DENIED tenant/,
    )
    expect(await codeOf(create({ name: 'mine', tenant: 'other' }, admin))).toMatch(/^ERR_PERMISSION_DENIED tenant/)
    expect((await identity.listKeys(by(localOwner), { tenant: 'other' })).keys).toMatchObject([{ id: foreign.id }])
    expect((await identity.authenticate(foreign.secret, NOW)).tenant).toBe('other')
  })

  it('revokes by id or live name, once, and not above the own tier', async () => {
    const { identity, create } = setUp()
    const own = await create({ tenant: 'acme', name: 'own' })
    await create({ tenant: 'acme', name: 'high', tier: 'operator' })
    const effects: EffectRecord[] = []
    const context = by(admin, NOW, (effect) => effects.push(effect))
    expect(await codeOf(identity.revokeKey(context, { key: 'high' }))).toMatch(/^ERR_PERMISSION_DENIED key/)
    expect(await identity.revokeKey(context, { key: 'own' })).toMatchObject({ id: own.id, status: 'revoked' })
    const again = await identity.revokeKey({ ...context, nowMs: NOW + 5_000 }, { key: own.id })
    expect(again.revoked_at).toBe('2026-01-01T00:00:00.000Z')
    expect(await codeOf(identity.revokeKey(context, { key: 'own' }))).toMatch(/^ERR_NOT_FOUND/)
    const body = { id: own.id, prefix: own.prefix, name: 'own', tenant: 'acme', revoked_by: 'ann' }
    expect(effects).toEqual([{ kind: 'api_key_revoked', body }])
  })
})
