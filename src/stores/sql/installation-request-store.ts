import type { Selectable } from 'kysely'
import { tenantId } from '../../contract/principal.ts'
import type { InstallationRequest, InstallationRequestStore, RequestStatus } from '../../domains/mcp-servers/ports.ts'
import type { McpInstallationRequestTable } from './governance-schema.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type RequestRow = Selectable<McpInstallationRequestTable>
type RowId = { tenant: string; id: string }

const insertRequest = statement<RequestRow>('installation-request-store.insertRequest')((db, _arg, { columns }) =>
  db
    .insertInto('mcp_installation_requests')
    .values(columns(['tenant', 'id', 'author', 'wanted', 'status', 'notes', 'decided_by', 'decided_at', 'created_at'])),
)
const saveRequest = statement<RequestRow>('installation-request-store.saveRequest')((db, arg) =>
  db
    .updateTable('mcp_installation_requests')
    .set({ status: arg('status'), notes: arg('notes'), decided_by: arg('decided_by'), decided_at: arg('decided_at') })
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id')),
)
const findRequest = statement<RowId>('installation-request-store.findRequest')((db, arg) =>
  db
    .selectFrom('mcp_installation_requests')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id')),
)
const listRequests = statement<{ tenant: string; limit: number }>('installation-request-store.listRequests')(
  (db, arg) =>
    db
      .selectFrom('mcp_installation_requests')
      .selectAll()
      .where('tenant', '=', arg('tenant'))
      .orderBy('created_at', 'desc')
      .orderBy('id')
      .limit(arg('limit')),
)
const listRequestsOf = statement<{ tenant: string; author: string; limit: number }>(
  'installation-request-store.listRequestsOf',
)((db, arg) =>
  db
    .selectFrom('mcp_installation_requests')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('author', '=', arg('author'))
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .limit(arg('limit')),
)
const countRequests = statement<{ tenant: string }>('installation-request-store.countRequests')((db, arg) =>
  db
    .selectFrom('mcp_installation_requests')
    .select((expression) => expression.fn.countAll<number>().as('count'))
    .where('tenant', '=', arg('tenant')),
)

export const sqlInstallationRequestStore: InstallationRequestStore = {
  async insertRequest(tx, tenant, request) {
    await writerOf(tx, tenant).run(insertRequest, toRow(tenant, request))
  },
  async saveRequest(tx, tenant, request) {
    await writerOf(tx, tenant).run(saveRequest, toRow(tenant, request))
  },
  async findRequest(tx, tenant, id) {
    const row = await sessionOf(tx).get(findRequest, { tenant, id })
    return row && fromRow(row)
  },
  async listRequests(tx, tenant, author, limit) {
    const session = sessionOf(tx)
    const rows = await (author === undefined
      ? session.all(listRequests, { tenant, limit })
      : session.all(listRequestsOf, { tenant, author, limit }))
    return rows.map(fromRow)
  },
  async countRequests(tx, tenant) {
    return (await sessionOf(tx).get(countRequests, { tenant }))?.count ?? 0
  },
}

const toRow = (tenant: string, request: InstallationRequest): RequestRow => ({
  tenant,
  id: request.id,
  author: request.author,
  wanted: JSON.stringify(request.server),
  status: request.status,
  notes: JSON.stringify(request.notes),
  decided_by: request.decidedBy,
  decided_at: request.decidedAtMs,
  created_at: request.createdAtMs,
})

const fromRow = (row: RequestRow): InstallationRequest => ({
  tenant: tenantId(row.tenant),
  id: row.id,
  author: row.author,
  server: JSON.parse(row.wanted) as InstallationRequest['server'],
  status: row.status as RequestStatus,
  notes: JSON.parse(row.notes) as InstallationRequest['notes'],
  decidedBy: row.decided_by,
  decidedAtMs: row.decided_at,
  createdAtMs: row.created_at,
})
