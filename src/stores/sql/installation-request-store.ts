import type { Selectable } from 'kysely'
import type { InstallationRequest, InstallationRequestStore } from '../../domains/mcp-servers/ports.ts'
import type { McpInstallationRequestTable } from './governance-schema.ts'
import { json, rowMap } from './row-map.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type RequestRow = Selectable<McpInstallationRequestTable>
type RowId = { tenant: string; id: string }

const requests = rowMap<RequestRow, InstallationRequest>()({
  tenant: 'tenant',
  id: 'id',
  author: 'author',
  server: json('wanted'),
  status: 'status',
  notes: json('notes'),
  decidedBy: 'decided_by',
  decidedAtMs: 'decided_at',
  createdAtMs: 'created_at',
})

const insertRequest = statement<RequestRow>('installation-request-store.insertRequest')((db, _arg, { columns }) =>
  db.insertInto('mcp_installation_requests').values(columns(requests.columns)),
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
    await writerOf(tx, tenant).run(insertRequest, requests.toRow(tenant, request))
  },
  async saveRequest(tx, tenant, request) {
    await writerOf(tx, tenant).run(saveRequest, requests.toRow(tenant, request))
  },
  async findRequest(tx, tenant, id) {
    return requests.found(await sessionOf(tx).get(findRequest, { tenant, id }))
  },
  async listRequests(tx, tenant, author, limit) {
    const session = sessionOf(tx)
    const rows = await (author === undefined
      ? session.all(listRequests, { tenant, limit })
      : session.all(listRequestsOf, { tenant, author, limit }))
    return rows.map(requests.fromRow)
  },
  async countRequests(tx, tenant) {
    return (await sessionOf(tx).get(countRequests, { tenant }))?.count ?? 0
  },
}
