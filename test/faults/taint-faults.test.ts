import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { limits } from '../../src/contract/limits.ts'
import { LOCAL_TENANT, localOwner, type Principal } from '../../src/contract/principal.ts'
import { openTrust, type TrustKeeper } from '../../src/domains/trust/service.ts'
import { installFaultPlan } from '../../src/kernel/fault.ts'
import { sqlTrustStore } from '../../src/stores/sql/trust-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'
import { sweepFaults } from '../support/fault-sweep.ts'

/**
 * Every step of the write that makes a context untrusted fails once, or from there on. If the write was acknowledged, the context is
 * untrusted in the store, with its first cause. If it was not, memory never claims more trust than the store.
 */
let nowMs = 1_000
const clock = { nowMs: () => nowMs }
const key = (turn: number, name: string): Principal => ({
  ...{ ...localOwner, kind: 'key', actor: name, keyId: `${name}-${turn}` },
  mcpSessionId: `${name}-${turn}`,
})

afterEach(() => installFaultPlan(undefined))

describe.each(dialects)('over %s', (dialect) => {
  let database: Database
  beforeAll(async () => {
    database = await openEmpty(dialect)
  })
  afterAll(() => database.close())

  const open = (): Promise<TrustKeeper> =>
    openTrust({
      ...{ store: sqlTrustStore, database, clock, isShared: dialect !== 'SQLite' },
      isProfileUntrusted: async () => false,
    })
  const read = (trust: TrustKeeper, principal: Principal, tool: string) =>
    database.write(LOCAL_TENANT, (tx) => {
      const context = trust.contextOf(principal)
      const credential = trust.credentialOf(principal)
      return trust.taint(tx, LOCAL_TENANT, { context, cause: { kind: 'tool_result', tool }, credential }, nowMs)
    })
  const stored = (trust: TrustKeeper, principal: Principal) =>
    sqlTrustStore.findTaint(database.read, LOCAL_TENANT, trust.contextOf(principal))

  describe.each(['passing', 'lasting'] as const)('a failure that is %s', (kind) => {
    it('loses no acknowledged taint, and leaves no context trusted that the store has as untrusted', async () => {
      const trust = await open()
      await sweepFaults({
        kind,
        prepare: async (turn) => async () => {
          await read(trust, key(turn, kind), 'first')
          return true
        },
        async check(turn, where, isDone) {
          const principal = key(turn, kind)
          await database.flush()
          const found = await stored(trust, principal)
          if (isDone)
            expect(found, where).toMatchObject({ cause: { tool: 'first' }, credential: `key:${kind}-${turn}` })
          for (const keeper of [trust, await open()])
            expect(await keeper.isUntrusted(principal), where).toBe(found !== undefined)
        },
      })
    })

    it('keeps the first cause of a context that is noted again as being in use', async () => {
      const trust = await open()
      await sweepFaults({
        kind,
        async prepare(turn) {
          nowMs += 2 * limits.contextNotedMs
          await read(trust, key(turn, `again-${kind}`), 'first')
          const seenMs = nowMs
          nowMs += 2 * limits.contextNotedMs
          return async () => {
            await read(trust, key(turn, `again-${kind}`), 'second')
            return seenMs
          }
        },
        async check(turn, where, seenMs) {
          const principal = key(turn, `again-${kind}`)
          await database.flush()
          const found = await stored(trust, principal)
          expect(found, where).toMatchObject({ cause: { tool: 'first' }, credential: `key:again-${kind}-${turn}` })
          if (seenMs !== undefined) expect(found!.seenMs, where).toBe(nowMs)
          // A failed note is tried again with the next call.
          expect(await trust.isUntrusted(principal), where).toBe(true)
          const noted = async () => {
            await read(trust, principal, 'third')
            return (await stored(trust, principal))!.seenMs
          }
          await expect.poll(noted, { message: where, timeout: 5_000 }).toBe(nowMs)
        },
      })
    })
  })
})
