import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Database } from '../../src/contract/database.ts'
import { type TenantId, tenantId } from '../../src/contract/principal.ts'
import type { WriteTx } from '../../src/contract/tx.ts'
import type { WorkflowVersion } from '../../src/domains/workflows/ports.ts'
import { sqlWorkflowStore as store } from '../../src/stores/sql/workflow-store.ts'
import { dialects, openEmpty } from '../support/databases.ts'

const ACME = tenantId('acme')
const OTHER = tenantId('other')

const versionOf = (name: string, version: string, more: Partial<WorkflowVersion> = {}): WorkflowVersion => ({
  tenant: ACME,
  id: `id-${name}`,
  scope: 'tenant',
  owner: '',
  name,
  version,
  description: 'Does "ü" \u0001',
  labels: { team: 'döcs' },
  initialState: 'A',
  manifestText: 'kind: Workflow # ü',
  createdAtMs: 1_767_225_600_000,
  createdBy: 'ann',
  changedAtMs: 1_767_225_600_001,
  ...more,
})

describe.each(dialects)('the store of workflows on %s', (dialect) => {
  let database: Database
  beforeEach(async () => {
    database = await openEmpty(dialect)
  })
  afterEach(() => database.close())
  const write = <T>(work: (tx: WriteTx) => Promise<T>, tenant: TenantId = ACME) => database.write(tenant, work)
  const insert = (version: WorkflowVersion) =>
    write((tx) => store.insertVersion(tx, version.tenant, version), version.tenant)

  it('keeps every field of every version, side by side', async () => {
    const [one, two] = [versionOf('w', '1.0.0'), versionOf('w', '1.1.0', { createdAtMs: 1_767_225_600_005 })]
    await insert(one)
    await insert(two)
    expect(await store.versionsNamed(database.read, ACME, 'w')).toEqual([one, two])
    expect(await store.versionsOf(database.read, ACME, 'id-w')).toEqual([one, two])
    const changed = { ...two, manifestText: 'other', labels: {}, description: '', initialState: 'B', changedAtMs: 9 }
    await write((tx) => store.replaceVersion(tx, ACME, changed))
    expect(await store.listVersions(database.read, ACME)).toEqual([one, changed])
  })

  it('lets no version be there twice', async () => {
    await insert(versionOf('w', '1.0.0'))
    await expect(insert(versionOf('w', '1.0.0', { id: 'another' }))).rejects.toThrow()
    await insert(versionOf('w', '1.0.0', { id: 'mine', scope: 'user', owner: 'key:a' }))
    await insert(versionOf('w', '1.0.0', { id: 'theirs', scope: 'user', owner: 'key:b' }))
    expect(await store.versionsNamed(database.read, ACME, 'w')).toHaveLength(3)
  })

  it('shows other tenants what is global and nothing else', async () => {
    await insert(versionOf('w', '1.0.0'))
    await insert(versionOf('w', '2.0.0'))
    for (const found of [
      await store.versionsNamed(database.read, OTHER, 'w'),
      await store.versionsOf(database.read, OTHER, 'id-w'),
      await store.listVersions(database.read, OTHER),
      await store.globalVersionsNamed(database.read, 'w'),
      await store.listGlobalVersions(database.read),
    ]) {
      expect(found).toEqual([])
    }
    await write((tx) => store.setScope(tx, ACME, 'id-w', { scope: 'global', owner: '', atMs: 7 }))
    expect(await store.globalVersionsNamed(database.read, 'w')).toMatchObject([
      { version: '1.0.0', scope: 'global', changedAtMs: 7 },
      { version: '2.0.0', scope: 'global', changedAtMs: 7 },
    ])
    expect(await store.globalVersionsOf(database.read, 'id-w')).toHaveLength(2)
    expect(await store.listGlobalVersions(database.read)).toHaveLength(2)
    await expect(insert(versionOf('w', '1.0.0', { tenant: OTHER, id: 'o', scope: 'global' }))).rejects.toThrow()
  })

  it('removes all versions of one workflow', async () => {
    await insert(versionOf('w', '1.0.0'))
    await insert(versionOf('w', '2.0.0'))
    await insert(versionOf('x', '1.0.0'))
    await write((tx) => store.deleteWorkflow(tx, OTHER, 'id-w'), OTHER)
    await write((tx) => store.deleteWorkflow(tx, ACME, 'id-w'))
    expect((await store.listVersions(database.read, ACME)).map(({ name }) => name)).toEqual(['x'])
  })

  it('refuses the transaction of another tenant', async () => {
    await expect(write((tx) => store.insertVersion(tx, ACME, versionOf('w', '1.0.0')), OTHER)).rejects.toThrow(
      'another tenant',
    )
  })
})
