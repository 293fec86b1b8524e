import type { Selectable } from 'kysely'
import type { AssignmentStore, StoredAssignment } from '../../domains/gateways/ports.ts'
import type { ToolAssignmentTable } from './governance-schema.ts'
import { rowMap } from './row-map.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type AssignmentRow = Selectable<ToolAssignmentTable>
type OfProfile = { tenant: string; profile_id: string }
type RowId = OfProfile & { tool_id: string }

const assignments = rowMap<AssignmentRow, StoredAssignment>()({
  tenant: 'tenant',
  profileId: 'profile_id',
  toolId: 'tool_id',
  mode: 'mode',
  deploymentId: 'deployment_id',
  createdAtMs: 'created_at',
  updatedAtMs: 'updated_at',
})

const putAssignment = statement<AssignmentRow>('assignment-store.putAssignment')((db, _arg, { columns }) =>
  db
    .insertInto('tool_assignments')
    .values(columns(assignments.columns))
    .onConflict((conflict) =>
      conflict.columns(['tenant', 'profile_id', 'tool_id']).doUpdateSet((row) => ({
        mode: row.ref('excluded.mode'),
        deployment_id: row.ref('excluded.deployment_id'),
        updated_at: row.ref('excluded.updated_at'),
      })),
    ),
)
const deleteAssignment = statement<RowId>('assignment-store.deleteAssignment')((db, arg) =>
  db
    .deleteFrom('tool_assignments')
    .where('tenant', '=', arg('tenant'))
    .where('profile_id', '=', arg('profile_id'))
    .where('tool_id', '=', arg('tool_id')),
)
const findAssignment = statement<RowId>('assignment-store.findAssignment')((db, arg) =>
  db
    .selectFrom('tool_assignments')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('profile_id', '=', arg('profile_id'))
    .where('tool_id', '=', arg('tool_id')),
)
const listAssignments = statement<OfProfile>('assignment-store.listAssignments')((db, arg) =>
  db
    .selectFrom('tool_assignments')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('profile_id', '=', arg('profile_id'))
    .orderBy('created_at')
    .orderBy('tool_id'),
)

export const sqlAssignmentStore: AssignmentStore = {
  async putAssignment(tx, tenant, assignment) {
    await writerOf(tx, tenant).run(putAssignment, assignments.toRow(tenant, assignment))
  },
  async deleteAssignment(tx, tenant, profileId, toolId) {
    const row = { tenant, profile_id: profileId, tool_id: toolId }
    return (await writerOf(tx, tenant).run(deleteAssignment, row)) > 0
  },
  async findAssignment(tx, tenant, profileId, toolId) {
    const row = { tenant, profile_id: profileId, tool_id: toolId }
    return assignments.found(await sessionOf(tx).get(findAssignment, row))
  },
  async listAssignments(tx, tenant, profileId) {
    return (await sessionOf(tx).all(listAssignments, { tenant, profile_id: profileId })).map(assignments.fromRow)
  },
}
