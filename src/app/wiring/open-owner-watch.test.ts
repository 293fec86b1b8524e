import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { dialects, openEmpty } from '../../../test/support/databases.ts'
import { LOCAL_TENANT, localOwner, type Principal } from '../../contract/principal.ts'
import type { VirtualKey } from '../../domains/model-proxies/ports.ts'
import { systemClock } from '../../kernel/clock.ts'
import { silentLogger } from '../../kernel/logger.ts'
import { sqlPeopleStore } from '../../stores/sql/people-store.ts'
import { sqlVirtualKeyStore } from '../../stores/sql/virtual-key-store.ts'
import { openOwnerWatch } from './open-owner-watch.ts'
import { createOwnerDirectory } from './owner-directory.ts'

/** The next reconcile never comes: what is told is told because of the change itself. */
beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout'] }))
afterEach(() => void vi.useRealTimers())

const keyOf = (id: string, teams: readonly string[]): VirtualKey => ({
  ...{ tenant: LOCAL_TENANT, id, prefix: id, hash: id, name: id, createdAtMs: 1, createdBy: 'owner' },
  sharing: { scope: 'team', author: 'owner', teams },
  grants: { proxies: null, providers: null, models: null, providerKeys: {} },
  ...{ rotatedAtMs: null, expiresAtMs: null, lastUsedAtMs: null, revokedAtMs: null },
})
const holderOf = (keyId: string): Principal => ({ ...localOwner, kind: 'key', actor: keyId, keyId })

describe.each(dialects)('the watch of owners over %s', (dialect) => {
  test('tells at once that the keys of a removed team end, and not those that another team has too', async () => {
    const database = await openEmpty(dialect)
    onTestFinished(() => database.close())
    // They are asked about in this order.
    const keys = [keyOf('vkey_both', ['owls', 'larks']), keyOf('vkey_alone', ['owls'])]
    await database.write(LOCAL_TENANT, async (tx) => {
      for (const name of ['owls', 'larks']) {
        const team = { tenant: LOCAL_TENANT, id: name, name, description: '', createdBy: 'owner', createdAtMs: 1 }
        await sqlPeopleStore.insertTeam(tx, team)
      }
      for (const key of keys) await sqlVirtualKeyStore.insertKey(tx, LOCAL_TENANT, key)
    })
    const watch = openOwnerWatch({ logger: silentLogger }, database, createOwnerDirectory(systemClock))
    onTestFinished(watch.close)
    for (const { id } of keys) watch.watch(holderOf(id))
    const told: string[] = []
    const announced = Promise.withResolvers<void>()
    watch.onSignedOut((_, owner) => {
      told.push(owner)
      if (owner === 'key:vkey_alone') announced.resolve()
    })
    await database.write(LOCAL_TENANT, async (tx) => {
      await sqlPeopleStore.deleteTeam(tx, LOCAL_TENANT, 'owls')
      watch.teamRemoved(LOCAL_TENANT, 'owls')
    })
    await announced.promise
    expect(told).toEqual(['owls', 'key:vkey_alone'])
  })
})
