import type { Selectable } from 'kysely'
import { tenantId } from '../../contract/principal.ts'
import type { ContextKey, TaintCause } from '../../contract/trust.ts'
import type { TaintedContext, TrustStore } from '../../domains/trust/ports.ts'
import type { ContextTrustTable } from './governance-schema.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type TrustRow = Selectable<ContextTrustTable>
type RowId = { tenant: string; context: string }

const insertTaint = statement<TrustRow>('trust-store.insertTaint')((db, arg) =>
  db
    .insertInto('context_trust')
    .values({ tenant: arg('tenant'), context: arg('context'), cause: arg('cause'), since: arg('since') })
    .onConflict((conflict) => conflict.columns(['tenant', 'context']).doNothing()),
)
const deleteTaint = statement<RowId>('trust-store.deleteTaint')((db, arg) =>
  db.deleteFrom('context_trust').where('tenant', '=', arg('tenant')).where('context', '=', arg('context')),
)
const findTaint = statement<RowId>('trust-store.findTaint')((db, arg) =>
  db.selectFrom('context_trust').selectAll().where('tenant', '=', arg('tenant')).where('context', '=', arg('context')),
)
const listTaints = statement<{ tenant: string; limit: number }>('trust-store.listTaints')((db, arg) =>
  db
    .selectFrom('context_trust')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .orderBy('since', 'desc')
    .orderBy('context')
    .limit(arg('limit')),
)
const tenants = statement<Record<never, never>>('trust-store.tenants')((db) =>
  db.selectFrom('context_trust').select('tenant').distinct(),
)

export const sqlTrustStore: TrustStore = {
  async insertTaint(tx, tenant, { context, cause, sinceMs }) {
    await writerOf(tx, tenant).run(insertTaint, { tenant, context, cause: JSON.stringify(cause), since: sinceMs })
  },
  async deleteTaint(tx, tenant, context) {
    return (await writerOf(tx, tenant).run(deleteTaint, { tenant, context })) > 0
  },
  async findTaint(tx, tenant, context) {
    const row = await sessionOf(tx).get(findTaint, { tenant, context })
    return row && fromRow(row)
  },
  async listTaints(tx, tenant, limit) {
    return (await sessionOf(tx).all(listTaints, { tenant, limit })).map(fromRow)
  },
  async tenants(tx) {
    return (await sessionOf(tx).all(tenants, {})).map(({ tenant }) => tenantId(tenant))
  },
}

const fromRow = (row: TrustRow): TaintedContext => ({
  tenant: tenantId(row.tenant),
  context: row.context as ContextKey,
  cause: JSON.parse(row.cause) as TaintCause,
  sinceMs: row.since,
})
