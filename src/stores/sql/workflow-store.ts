import type { Selectable } from 'kysely'
import type { WorkflowStore, WorkflowVersion } from '../../domains/workflows/ports.ts'
import { json, rowMap } from './row-map.ts'
import type { WorkflowTable } from './schema.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type Row = Selectable<WorkflowTable>

const versions = rowMap<Row, WorkflowVersion>()({
  tenant: 'tenant',
  id: 'id',
  version: 'version',
  scope: 'scope',
  owner: 'owner',
  name: 'name',
  description: 'description',
  labels: json('labels'),
  initialState: 'initial_state',
  manifestText: 'manifest',
  createdAtMs: 'created_at',
  createdBy: 'created_by',
  changedAtMs: 'changed_at',
})

const replacedColumns = ['description', 'labels', 'initial_state', 'manifest', 'changed_at'] as const
const insertVersion = statement<Row>('workflow-store.insertVersion')((db, _arg, { columns }) =>
  db
    .insertInto('workflows')
    .values(
      columns(['tenant', 'id', 'version', 'scope', 'owner', 'name', 'created_at', 'created_by', ...replacedColumns]),
    ),
)
const replaceVersion = statement<Row>('workflow-store.replaceVersion')((db, arg, { columns }) =>
  db
    .updateTable('workflows')
    .set(columns(replacedColumns))
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id'))
    .where('version', '=', arg('version')),
)
const versionsNamed = statement<{ tenant: string; name: string }>('workflow-store.versionsNamed')((db, arg) =>
  db
    .selectFrom('workflows')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('name', '=', arg('name'))
    .orderBy('created_at')
    .orderBy('id'),
)
const versionsOf = statement<{ tenant: string; id: string }>('workflow-store.versionsOf')((db, arg) =>
  db
    .selectFrom('workflows')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id'))
    .orderBy('created_at'),
)
const globalVersionsNamed = statement<{ name: string }>('workflow-store.globalVersionsNamed')((db, arg) =>
  db
    .selectFrom('workflows')
    .selectAll()
    .where('scope', '=', 'global')
    .where('name', '=', arg('name'))
    .orderBy('created_at')
    .orderBy('id'),
)
const globalVersionsOf = statement<{ id: string }>('workflow-store.globalVersionsOf')((db, arg) =>
  db
    .selectFrom('workflows')
    .selectAll()
    .where('scope', '=', 'global')
    .where('id', '=', arg('id'))
    .orderBy('created_at'),
)
const listVersions = statement<{ tenant: string }>('workflow-store.listVersions')((db, arg) =>
  db
    .selectFrom('workflows')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .orderBy('name')
    .orderBy('id')
    .orderBy('created_at'),
)
const listGlobalVersions = statement<Record<string, never>>('workflow-store.listGlobalVersions')((db) =>
  db
    .selectFrom('workflows')
    .selectAll()
    .where('scope', '=', 'global')
    .orderBy('name')
    .orderBy('id')
    .orderBy('created_at'),
)
const setScope = statement<{ tenant: string; id: string; scope: string; owner: string; changed_at: number }>(
  'workflow-store.setScope',
)((db, arg) =>
  db
    .updateTable('workflows')
    .set({ scope: arg('scope'), owner: arg('owner'), changed_at: arg('changed_at') })
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id')),
)
const deleteWorkflow = statement<{ tenant: string; id: string }>('workflow-store.deleteWorkflow')((db, arg) =>
  db.deleteFrom('workflows').where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)

export const sqlWorkflowStore: WorkflowStore = {
  async insertVersion(tx, tenant, version) {
    await writerOf(tx, tenant).run(insertVersion, versions.toRow(tenant, version))
  },
  async replaceVersion(tx, tenant, version) {
    await writerOf(tx, tenant).run(replaceVersion, versions.toRow(tenant, version))
  },
  async versionsNamed(tx, tenant, name) {
    return (await sessionOf(tx).all(versionsNamed, { tenant, name })).map(versions.fromRow)
  },
  async versionsOf(tx, tenant, id) {
    return (await sessionOf(tx).all(versionsOf, { tenant, id })).map(versions.fromRow)
  },
  async globalVersionsNamed(tx, name) {
    return (await sessionOf(tx).all(globalVersionsNamed, { name })).map(versions.fromRow)
  },
  async globalVersionsOf(tx, id) {
    return (await sessionOf(tx).all(globalVersionsOf, { id })).map(versions.fromRow)
  },
  async listVersions(tx, tenant) {
    return (await sessionOf(tx).all(listVersions, { tenant })).map(versions.fromRow)
  },
  async listGlobalVersions(tx) {
    return (await sessionOf(tx).all(listGlobalVersions, {})).map(versions.fromRow)
  },
  async setScope(tx, tenant, id, { scope, owner, atMs }) {
    await writerOf(tx, tenant).run(setScope, { tenant, id, scope, owner, changed_at: atMs })
  },
  async deleteWorkflow(tx, tenant, id) {
    await writerOf(tx, tenant).run(deleteWorkflow, { tenant, id })
  },
}
