import { describe, expect, onTestFinished, test } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { LOCAL_TENANT, tenantId } from '../../src/contract/principal.ts'
import type { CustomRole } from '../../src/domains/identity/ports.ts'
import { sqlPeopleStore } from '../../src/stores/sql/people-store.ts'
import { sqlRoleStore as store } from '../../src/stores/sql/role-store.ts'
import { dialects, newTestDatabase } from '../support/databases.ts'

const ACME = tenantId('acme')
const NOW_MS = Date.UTC(2026, 10, 18)
const reader: CustomRole = {
  tenant: ACME,
  name: 'reader',
  description: 'Ü',
  permissions: ['agent:read', 'task:read'],
  createdAtMs: NOW_MS,
  createdBy: 'owner',
}

describe.each(dialects)('roles in %s', (dialect) => {
  /** Two processes on one store; SQLite has one writer, so there both are the same. */
  async function open(): Promise<Readonly<{ here: Database; there: Database }>> {
    const stored = await newTestDatabase(dialect)
    const here = await stored.open()
    const there = dialect === 'PostgreSQL' ? await stored.open() : here
    onTestFinished(async () => {
      await here.close()
      if (there !== here) await there.close()
      stored.remove()
    })
    await here.write(ACME, (tx) => store.insertRole(tx, ACME, reader))
    return { here, there }
  }

  test('a role is kept whole, for its tenant alone, until it is deleted', async () => {
    const { here, there } = await open()
    expect(await store.findRole(there.read, ACME, 'reader')).toEqual(reader)
    expect(await store.listRoles(there.read, ACME)).toEqual([reader])
    expect(await store.findRole(there.read, LOCAL_TENANT, 'reader')).toBeUndefined()
    expect(await here.write(LOCAL_TENANT, (tx) => store.deleteRole(tx, LOCAL_TENANT, 'reader'))).toBe(false)
    expect(await here.write(ACME, (tx) => store.deleteRole(tx, ACME, 'reader'))).toBe(true)
    expect(await store.listRoles(there.read, ACME)).toEqual([])
  })

  test('who deletes a role sees the person to whom another tenant was just giving it', async () => {
    const { here, there } = await open()
    const held = Promise.withResolvers<void>()
    const deleting = Promise.withResolvers<void>()
    const user = { tenant: ACME, id: 'user_ann', email: 'ann@example.com', name: 'Ann', role: 'reader' }
    const given = here.write(LOCAL_TENANT, async (tx) => {
      await store.holdRoles(tx, ACME)
      expect(await store.findRole(tx, ACME, 'reader')).toBeDefined()
      held.resolve()
      if (here !== there) await deleting.promise
      const more = { tier: 'user', createdBy: 'owner', createdAtMs: NOW_MS } as const
      await sqlPeopleStore.insertUser(tx, { ...user, ...more })
    })
    await held.promise
    const seen = there.write(ACME, async (tx) => {
      deleting.resolve()
      await store.holdRoles(tx, ACME)
      return await sqlPeopleStore.countOfRole(tx, ACME, 'reader', NOW_MS)
    })
    expect(await seen).toEqual({ users: 1, invitations: 0 })
    await given
  })
})
