import type { Selectable } from 'kysely'
import { tenantId } from '../../contract/principal.ts'
import type { CredentialMode } from '../../contract/upstream-tools.ts'
import type { AssignmentStore, StoredAssignment } from '../../domains/gateways/ports.ts'
import type { ToolAssignmentTable } from './governance-schema.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type AssignmentRow = Selectable<ToolAssignmentTable>
type OfProfile = { tenant: string; profile_id: string }
type RowId = OfProfile & { tool_id: string }

const putAssignment = statement<AssignmentRow>('assignment-store.putAssignment')((db, _arg, { columns }) =>
  db
    .insertInto('tool_assignments')
    .values(columns(['tenant', 'profile_id', 'tool_id', 'mode', 'deployment_id', 'created_at', 'updated_at']))
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
    await writerOf(tx, tenant).run(putAssignment, toRow(tenant, assignment))
  },
  async deleteAssignment(tx, tenant, profileId, toolId) {
    const row = { tenant, profile_id: profileId, tool_id: toolId }
    return (await writerOf(tx, tenant).run(deleteAssignment, row)) > 0
  },
  async findAssignment(tx, tenant, profileId, toolId) {
    const row = await sessionOf(tx).get(findAssignment, { tenant, profile_id: profileId, tool_id: toolId })
    return row && fromRow(row)
  },
  async listAssignments(tx, tenant, profileId) {
    return (await sessionOf(tx).all(listAssignments, { tenant, profile_id: profileId })).map(fromRow)
  },
}

const toRow = (tenant: string, assignment: StoredAssignment): AssignmentRow => ({
  tenant,
  profile_id: assignment.profileId,
  tool_id: assignment.toolId,
  mode: assignment.mode,
  deployment_id: assignment.deploymentId,
  created_at: assignment.createdAtMs,
  updated_at: assignment.updatedAtMs,
})

const fromRow = (row: AssignmentRow): StoredAssignment => ({
  tenant: tenantId(row.tenant),
  profileId: row.profile_id,
  toolId: row.tool_id,
  mode: row.mode as CredentialMode,
  deploymentId: row.deployment_id,
  createdAtMs: row.created_at,
  updatedAtMs: row.updated_at,
})
