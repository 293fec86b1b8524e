import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { tenantId } from '../../src/contract/principal.ts'
import type { StoredAssignment } from '../../src/domains/gateways/ports.ts'
import { sqlAssignmentStore as store } from '../../src/stores/sql/assignment-store.ts'
import { sqlProfileStore } from '../../src/stores/sql/profile-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'

const ACME = tenantId('acme')
const OTHER = tenantId('other')
const NOW = 1_767_225_600_000

const assignmentOf = (toolId: string, more: Partial<StoredAssignment> = {}): StoredAssignment => ({
  tenant: ACME,
  profileId: 'gateway',
  toolId,
  mode: 'static',
  deploymentId: 'deployment',
  createdAtMs: NOW,
  updatedAtMs: NOW,
  ...more,
})

describe.each(dialects)('assignments of tools on %s', (dialect) => {
  let db: Database
  beforeEach(async () => {
    db = await openEmpty(dialect)
  })
  afterEach(() => db.close())
  const put = (...rows: readonly StoredAssignment[]) =>
    db.write(ACME, async (tx) => {
      for (const row of rows) await store.putAssignment(tx, ACME, row)
    })

  it('are kept whole, changed in place, listed as they were added, and removed', async () => {
    const first = assignmentOf('b')
    const second = assignmentOf('a', { mode: 'dynamic', deploymentId: null, createdAtMs: NOW + 1 })
    await put(second, first, assignmentOf('a', { profileId: 'agent' }))
    expect(await store.listAssignments(db.read, ACME, 'gateway')).toEqual([first, second])
    const changed = { ...first, mode: 'dynamic' as const, deploymentId: null, updatedAtMs: NOW + 5 }
    await put({ ...changed, createdAtMs: NOW + 5 })
    expect(await store.findAssignment(db.read, ACME, 'gateway', 'b')).toEqual(changed)
    expect(await store.findAssignment(db.read, OTHER, 'gateway', 'b')).toBeUndefined()
    expect(await store.listAssignments(db.read, OTHER, 'gateway')).toEqual([])
    expect(await db.write(OTHER, (tx) => store.deleteAssignment(tx, OTHER, 'gateway', 'b'))).toBe(false)
    expect(await db.write(ACME, (tx) => store.deleteAssignment(tx, ACME, 'gateway', 'b'))).toBe(true)
    expect(await db.write(ACME, (tx) => store.deleteAssignment(tx, ACME, 'gateway', 'b'))).toBe(false)
  })

  it('go with what they are assigned to', async () => {
    await put(assignmentOf('a'), assignmentOf('a', { profileId: 'agent' }))
    await db.write(ACME, (tx) => sqlProfileStore.deleteProfile(tx, ACME, 'gateway'))
    expect(await store.listAssignments(db.read, ACME, 'gateway')).toEqual([])
    expect(await store.listAssignments(db.read, ACME, 'agent')).toHaveLength(1)
  })
})
