import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { limits } from '../../src/contract/limits.ts'
import { stampOf } from '../../src/contract/line-session.ts'
import { type TenantId, tenantId } from '../../src/contract/principal.ts'
import type { ContextKey } from '../../src/contract/trust.ts'
import type { ApiKey } from '../../src/domains/identity/ports.ts'
import type { VirtualKey } from '../../src/domains/model-proxies/ports.ts'
import type { ServiceClient } from '../../src/domains/people/ports.ts'
import { createTrustPruning } from '../../src/domains/trust/pruning.ts'
import { openTrust } from '../../src/domains/trust/service.ts'
import { sha256Hex } from '../../src/kernel/hash.ts'
import { sqlApiKeyStore } from '../../src/stores/sql/api-key-store.ts'
import { sqlMcpSessions } from '../../src/stores/sql/mcp-session-store.ts'
import { sqlSealStore } from '../../src/stores/sql/seal-store.ts'
import { sqlServiceClientStore } from '../../src/stores/sql/service-client-store.ts'
import { sqlTrustStore } from '../../src/stores/sql/trust-store.ts'
import { sqlVirtualKeyStore } from '../../src/stores/sql/virtual-key-store.ts'
import { movableClock } from '../support/app.ts'
import { dialects, openEmpty } from '../support/databases.ts'

const ACME = tenantId('acme')
const OTHER = tenantId('other')
const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS

describe.each(dialects)('untrusted contexts that cannot come back, over %s', (dialect) => {
  let database: Database
  let clock: ReturnType<typeof movableClock>
  const warnings: string[] = []
  beforeEach(async () => {
    database = await openEmpty(dialect)
    clock = movableClock()
    warnings.length = 0
  })
  afterEach(() => database.close())

  const taint = (context: ContextKey, credential: string | null = null, tenant: TenantId = ACME) => {
    const times = { sinceMs: clock.nowMs(), seenMs: clock.nowMs() }
    const row = { tenant, context, cause: { kind: 'tool_result' }, credential, ...times } as const
    return database.write(tenant, (tx) => sqlTrustStore.insertTaint(tx, tenant, row))
  }
  const left = async (tenant: TenantId = ACME): Promise<readonly string[]> =>
    (await sqlTrustStore.listTaints(database.read, tenant, 10_000)).map(({ context }) => context).toSorted()
  const prune = async (): Promise<readonly string[]> => {
    const logger = { warn: (message: string) => void warnings.push(message) }
    const pruning = createTrustPruning({ store: sqlTrustStore, database, clock, logger })
    pruning.run()
    await pruning.settled()
    expect(warnings).toEqual([])
    return await left()
  }
  const insertKey = (id: string, more: Partial<ApiKey> = {}) => {
    const key: ApiKey = {
      ...{ tenant: ACME, id, prefix: id, hash: 'ab'.repeat(32), name: id, role: 'member', tier: 'user', scopes: null },
      ...{ createdAtMs: 1, createdBy: 'owner', expiresAtMs: null, lastUsedAtMs: null, revokedAtMs: null, userId: null },
      ...more,
    }
    return database.write(ACME, (tx) => sqlApiKeyStore.insertKey(tx, ACME, key))
  }
  const httpSession = async (id: string): Promise<ContextKey> => {
    const idHash = sha256Hex(id)
    const usedAtMs = clock.nowMs()
    await sqlMcpSessions(database).save(ACME, { idHash, identity: 'someone', initialize: '{}', usedAtMs })
    return `session:${idHash.slice(0, 32)}`
  }

  it('are those of sessions over HTTP that ended, and never one that is in use or was quiet at a terminal', async () => {
    const [ended, used, closed] = [await httpSession('a'), await httpSession('b'), await httpSession('c')]
    for (const context of [ended, used, closed, 'session:terminal', 'conversation:c', 'task:1'] as const)
      await taint(context)
    const memory = sqlMcpSessions(database)
    await memory.end(ACME, sha256Hex('c'), clock.nowMs())
    expect(await memory.find(ACME, sha256Hex('c'))).toBeUndefined()
    expect(await prune()).toContain(closed)
    clock.advance(limits.httpSessionIdleMs + limits.contextLiveMs - MINUTE_MS)
    await memory.touch(ACME, sha256Hex('b'), clock.nowMs())
    expect(await prune()).toEqual([ended, used, 'conversation:c', 'session:terminal', 'task:1'].toSorted())
    clock.advance(2 * MINUTE_MS)
    // Another session begins, which removes what is idle.
    await httpSession('d')
    expect(await prune()).toEqual([used, 'conversation:c', 'session:terminal', 'task:1'].toSorted())
    clock.advance(10 * DAY_MS)
    await memory.touch(ACME, sha256Hex('b'), clock.nowMs())
    expect(await prune()).toEqual([used, 'conversation:c', 'session:terminal', 'task:1'].toSorted())
  })

  it('are those of sessions over standard input whose name makes them untrusted without a row', async () => {
    const session = (id: string): ContextKey => `session:line-${stampOf(clock.nowMs())}-${id}`
    const [first, ofKey] = [session('a'), session('k')]
    await insertKey('works')
    await taint(first)
    await taint(ofKey, 'key:works')
    clock.advance(DAY_MS)
    const second = session('b')
    await taint(second)
    const trust = await openTrust({
      ...{ store: sqlTrustStore, database, isShared: true, clock },
      isProfileUntrusted: async () => false,
    })
    clock.advance(limits.lineSessionMs - MINUTE_MS)
    // What a program with a key has read last counts for what it may govern.
    expect(await prune()).toEqual([second, ofKey].toSorted())
    clock.advance(DAY_MS)
    expect(await prune()).toEqual([ofKey])
    for (const context of [first, second, ofKey]) expect(await trust.isTainted(ACME, context)).toBe(true)
    const third = session('c')
    expect(await trust.isTainted(ACME, third)).toBe(false)
    clock.advance(limits.lineSessionMs - MINUTE_MS)
    expect(await trust.isTainted(ACME, third)).toBe(false)
    clock.advance(2 * MINUTE_MS)
    expect(await trust.isTainted(ACME, third)).toBe(true)
  })

  it('are those of keys that are gone; of a key that works the newest stays', async () => {
    await insertKey('gone', { revokedAtMs: 1 })
    await insertKey('late', { expiresAtMs: clock.nowMs() })
    await insertKey('works')
    await taint('session:of-gone', 'key:gone')
    await taint('caller:key:late', 'key:late')
    const [first, second] = [await httpSession('a'), await httpSession('b')]
    await taint(first, 'key:works')
    clock.advance(1)
    await taint(second, 'key:works')
    await taint('session:of-gone', 'key:gone', OTHER)
    expect(await prune()).toHaveLength(4)
    clock.advance(3 * 60 * MINUTE_MS)
    expect(await prune()).toEqual(['caller:key:late', second].toSorted())
    clock.advance(31 * DAY_MS)
    expect(await prune()).toEqual([second])
    expect(await left(OTHER)).toEqual([])
  })

  it('are not those of virtual keys and clients that exist, and those of runs that do not', async () => {
    const virtualKey: VirtualKey = {
      ...{
        tenant: ACME,
        id: 'vkey_works',
        prefix: 'vkey_works',
        hash: 'ab',
        name: 'v',
        createdAtMs: 1,
        createdBy: 'o',
      },
      ...{ rotatedAtMs: null, expiresAtMs: null, lastUsedAtMs: null, revokedAtMs: null },
      sharing: { scope: 'org', teams: [], author: 'owner' },
      grants: { providers: null, models: null, proxies: null, providerKeys: null },
    }
    const client: ServiceClient = {
      ...{ tenant: ACME, id: 'client-works', name: 'c', secretHash: 'ab', role: 'member', tier: 'user' },
      ...{ gateways: ['g'], createdAtMs: 1, createdBy: 'owner' },
    }
    await database.write(ACME, async (tx) => {
      await sqlVirtualKeyStore.insertKey(tx, ACME, virtualKey)
      await sqlServiceClientStore.insertClient(tx, client)
    })
    await taint('conversation:proxy-1', 'key:vkey_works')
    await taint('conversation:proxy-2', 'key:vkey_gone')
    await taint('session:of-client', 'key:client-works')
    await taint('execution:gone')
    clock.advance(3 * 60 * MINUTE_MS)
    expect(await prune()).toEqual(['conversation:proxy-1', 'session:of-client'])
    clock.advance(100 * DAY_MS)
    expect(await prune()).toEqual(['conversation:proxy-1', 'session:of-client'])
  })

  it('are those of workspaces that are gone and of signed sessions that expired, however many', async () => {
    const session = (id: string, expiresAtMs: number) => ({
      ...{ tenant: ACME, id, identity: 'owner', tokenHash: id, publicKey: 'p', context: 'c', agentId: null },
      ...{ executionId: null, workloadId: null, taskSummary: null, createdAtMs: 1, createdBy: 'owner', expiresAtMs },
      revokedAtMs: null,
    })
    const later = clock.nowMs() + DAY_MS
    await database.write(ACME, async (tx) => {
      await sqlSealStore.insertSession(tx, ACME, session('over', clock.nowMs()))
      await sqlSealStore.insertSession(tx, ACME, session('open', later))
    })
    for (const context of ['session:over', 'session:open'] as const) await taint(context)
    const times = { sinceMs: 1, seenMs: 1 }
    await database.write(ACME, async (tx) => {
      for (let index = 0; index <= limits.trustPruneMax; index++) {
        const row = { tenant: ACME, cause: { kind: 'inherited' }, credential: null, ...times } as const
        await sqlTrustStore.insertTaint(tx, ACME, { ...row, context: `workspace:w${index}` })
      }
    })
    clock.advance(2 * 60 * MINUTE_MS)
    expect(await prune()).toEqual(['session:open'])
  })
})
