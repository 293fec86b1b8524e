import type { Selectable } from 'kysely'
import { tenantId } from '../../contract/principal.ts'
import type { WorkflowScope, WorkflowStore, WorkflowVersion } from '../../domains/workflows/ports.ts'
import type { WorkflowTable } from './schema.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type Row = Selectable<WorkflowTable>

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
    await writerOf(tx, tenant).run(insertVersion, toRow(tenant, version))
  },
  async replaceVersion(tx, tenant, version) {
    await writerOf(tx, tenant).run(replaceVersion, toRow(tenant, version))
  },
  async versionsNamed(tx, tenant, name) {
    return (await sessionOf(tx).all(versionsNamed, { tenant, name })).map(fromRow)
  },
  async versionsOf(tx, tenant, id) {
    return (await sessionOf(tx).all(versionsOf, { tenant, id })).map(fromRow)
  },
  async globalVersionsNamed(tx, name) {
    return (await sessionOf(tx).all(globalVersionsNamed, { name })).map(fromRow)
  },
  async globalVersionsOf(tx, id) {
    return (await sessionOf(tx).all(globalVersionsOf, { id })).map(fromRow)
  },
  async listVersions(tx, tenant) {
    return (await sessionOf(tx).all(listVersions, { tenant })).map(fromRow)
  },
  async listGlobalVersions(tx) {
    return (await sessionOf(tx).all(listGlobalVersions, {})).map(fromRow)
  },
  async setScope(tx, tenant, id, { scope, owner, atMs }) {
    await writerOf(tx, tenant).run(setScope, { tenant, id, scope, owner, changed_at: atMs })
  },
  async deleteWorkflow(tx, tenant, id) {
    await writerOf(tx, tenant).run(deleteWorkflow, { tenant, id })
  },
}

const toRow = (tenant: string, version: WorkflowVersion): Row => ({
  tenant,
  id: version.id,
  version: version.version,
  scope: version.scope,
  owner: version.owner,
  name: version.name,
  description: version.description,
  labels: JSON.stringify(version.labels),
  initial_state: version.initialState,
  manifest: version.manifestText,
  created_at: version.createdAtMs,
  created_by: version.createdBy,
  changed_at: version.changedAtMs,
})

const fromRow = (row: Row): WorkflowVersion => ({
  tenant: tenantId(row.tenant),
  id: row.id,
  scope: row.scope as WorkflowScope,
  owner: row.owner,
  name: row.name,
  version: row.version,
  description: row.description,
  labels: JSON.parse(row.labels) as WorkflowVersion['labels'],
  initialState: row.initial_state,
  manifestText: row.manifest,
  createdAtMs: row.created_at,
  createdBy: row.created_by,
  changedAtMs: row.changed_at,
})
