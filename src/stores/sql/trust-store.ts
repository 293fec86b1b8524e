import type { Selectable } from 'kysely'
import { stampOf } from '../../contract/line-session.ts'
import { tenantId } from '../../contract/principal.ts'
import type { ContextKey, TaintCause } from '../../contract/trust.ts'
import type { TaintedContext, TrustStore } from '../../domains/trust/ports.ts'
import type { ContextTrustTable } from './governance-schema.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type TrustRow = Selectable<ContextTrustTable>
type RowId = { tenant: string; context: string }

const insertTaint = statement<TrustRow>('trust-store.insertTaint')((db, _arg, { columns }) =>
  db
    .insertInto('context_trust')
    .values(columns(['tenant', 'context', 'cause', 'since', 'credential', 'seen']))
    .onConflict((conflict) =>
      conflict.columns(['tenant', 'context']).doUpdateSet((row) => ({
        credential: row.ref('excluded.credential'),
        seen: row.ref('excluded.seen'),
      })),
    ),
)
const findOfCredential = statement<{ tenant: string; credential: string; from: number }>(
  'trust-store.findOfCredential',
)((db, arg) =>
  db
    .selectFrom('context_trust')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('credential', '=', arg('credential'))
    .where('seen', '>=', arg('from'))
    .orderBy('seen', 'desc')
    .limit(1),
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
type Pruned = { tenant: string; unused: number; session: number; key: number; line: string; most: number }
/**
 * A credential is the id of an API key, of a virtual key or of an OAuth client. An id of an MCP session is known by the first
 * characters of its digest. A session over standard input is in no table, and has the time of its start in its name.
 */
const pruneTaints = statement<Pruned>('trust-store.pruneTaints')((db, arg, { sql }) =>
  db
    .deleteFrom('context_trust')
    .where('tenant', '=', arg('tenant'))
    .where('context', 'in', (inner) =>
      inner
        .selectFrom('context_trust as old')
        .select('old.context')
        .where('old.tenant', '=', arg('tenant'))
        .where('old.seen', '<', arg('unused'))
        .where(
          sql<boolean>`not exists (select 1 from approvals where approvals.tenant = old.tenant and approvals.context = old.context)`,
        )
        .where(
          sql<boolean>`((old.context like 'workspace:%' and not exists (
            select 1 from workspaces where workspaces.tenant = old.tenant and 'workspace:' || workspaces.id = old.context))
          or (old.context like 'execution:%' and not exists (
            select 1 from runs where runs.tenant = old.tenant and runs.id = substr(old.context, 11)))
          or (old.credential like 'key:%'
            and not exists (select 1 from api_keys where api_keys.tenant = old.tenant and api_keys.id = substr(old.credential, 5)
              and api_keys.revoked_at is null and (api_keys.expires_at is null or api_keys.expires_at >= ${arg('key')}))
            and not exists (select 1 from virtual_keys where virtual_keys.tenant = old.tenant
              and virtual_keys.id = substr(old.credential, 5) and virtual_keys.revoked_at is null
              and (virtual_keys.expires_at is null or virtual_keys.expires_at >= ${arg('key')}))
            and not exists (select 1 from service_clients where service_clients.tenant = old.tenant
              and service_clients.id = substr(old.credential, 5)))
          or (old.context like 'session:%'
            and (old.credential is null or exists (select 1 from context_trust as newer
              where newer.tenant = old.tenant and newer.credential = old.credential and newer.seen > old.seen))
            and (exists (select 1 from mcp_sessions where mcp_sessions.tenant = old.tenant
                and 'session:' || substr(mcp_sessions.id_hash, 1, 32) = old.context and mcp_sessions.used_at < ${arg('session')})
              or exists (select 1 from seal_sessions where seal_sessions.tenant = old.tenant
                and 'session:' || seal_sessions.id = old.context and seal_sessions.expires_at < ${arg('session')})
              or (old.context like 'session:line-%' and substr(old.context, 14, 13) < ${arg('line')}))))`,
        )
        .orderBy('old.seen')
        .limit(arg('most')),
    ),
)
const tenants = statement<Record<never, never>>('trust-store.tenants')((db) =>
  db.selectFrom('context_trust').select('tenant').distinct(),
)

export const sqlTrustStore: TrustStore = {
  async insertTaint(tx, tenant, { context, cause, sinceMs, credential, seenMs }) {
    await writerOf(tx, tenant).run(insertTaint, {
      ...{ tenant, context, credential },
      cause: JSON.stringify(cause),
      since: sinceMs,
      seen: seenMs,
    })
  },
  async findOfCredential(tx, tenant, credential, seenFromMs) {
    const row = await sessionOf(tx).get(findOfCredential, { tenant, credential, from: seenFromMs })
    return row && fromRow(row)
  },
  async deleteTaint(tx, tenant, context) {
    return (await writerOf(tx, tenant).run(deleteTaint, { tenant, context })) > 0
  },
  async findTaint(tx, tenant, context) {
    const row = await sessionOf(tx).get(findTaint, { tenant, context })
    return row && fromRow(row)
  },
  async pruneTaints(tx, tenant, { unusedMs, sessionMs, keyMs, lineMs }, limit) {
    const args = { tenant, unused: unusedMs, session: sessionMs, key: keyMs, line: stampOf(lineMs), most: limit }
    return await writerOf(tx, tenant).run(pruneTaints, args)
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
  credential: row.credential,
  seenMs: row.seen,
})
