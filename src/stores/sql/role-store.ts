import type { Selectable } from 'kysely'
import type { Permission } from '../../contract/permissions.ts'
import { tenantId } from '../../contract/principal.ts'
import type { CustomRole, RoleStore } from '../../domains/identity/ports.ts'
import { lockUntilCommit } from './advisory-lock.ts'
import type { RoleTable } from './governance-schema.ts'
import { statement } from './statements.ts'
import { sessionOf, sharedWriterOf } from './tx.ts'

type Row = Selectable<RoleTable>
type Named = { tenant: string; name: string }

const insertRole = statement<Row>('role-store.insertRole')((db, _arg, { columns }) =>
  db.insertInto('roles').values(columns(['tenant', 'name', 'description', 'permissions', 'created_at', 'created_by'])),
)
const deleteRole = statement<Named>('role-store.deleteRole')((db, arg) =>
  db.deleteFrom('roles').where('tenant', '=', arg('tenant')).where('name', '=', arg('name')),
)
const findRole = statement<Named>('role-store.findRole')((db, arg) =>
  db.selectFrom('roles').selectAll().where('tenant', '=', arg('tenant')).where('name', '=', arg('name')),
)
const listRoles = statement<{ tenant: string }>('role-store.listRoles')((db, arg) =>
  db.selectFrom('roles').selectAll().where('tenant', '=', arg('tenant')).orderBy('name'),
)

/** An operator writes for other tenants too, so `holdRoles` is the lock, and not the transaction. */
export const sqlRoleStore: RoleStore = {
  async insertRole(tx, tenant, role) {
    await sharedWriterOf(tx).run(insertRole, {
      tenant,
      name: role.name,
      description: role.description,
      permissions: JSON.stringify(role.permissions),
      created_at: role.createdAtMs,
      created_by: role.createdBy,
    })
  },
  async deleteRole(tx, tenant, name) {
    return (await sharedWriterOf(tx).run(deleteRole, { tenant, name })) > 0
  },
  async findRole(tx, tenant, name) {
    const row = await sessionOf(tx).get(findRole, { tenant, name })
    return row && fromRow(row)
  },
  async listRoles(tx, tenant) {
    return (await sessionOf(tx).all(listRoles, { tenant })).map(fromRow)
  },
  holdRoles: (tx, tenant) => lockUntilCommit(tx, `roles of ${tenant}`),
}

const fromRow = (row: Row): CustomRole => ({
  tenant: tenantId(row.tenant),
  name: row.name,
  description: row.description,
  permissions: JSON.parse(row.permissions) as Permission[],
  createdAtMs: row.created_at,
  createdBy: row.created_by,
})
