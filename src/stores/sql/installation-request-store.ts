import type { Selectable } from 'kysely'
import type { InstallationRequest, InstallationRequestStore } from '../../domains/mcp-servers/ports.ts'
import type { McpInstallationRequestTable } from './governance-schema.ts'
import { isAfterNewest, isValue, type NewestArgs, newestArgs } from './pages.ts'
import { json, rowMap } from './row-map.ts'
import { type Builder, statement, statementFamily } from './statements.ts'
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
type Filter = { tenant: string; author: string; status: string }
const shapes = ['all', 'own'] as const
const listRequests = statementFamily<Filter & NewestArgs & { limit: number }, RequestRow>(
  'installation-request-store.listRequests',
  (shape): Builder<Filter & NewestArgs & { limit: number }, RequestRow> =>
    (db, arg, kit) => {
      let query = db
        .selectFrom('mcp_installation_requests')
        .selectAll()
        .where('tenant', '=', arg('tenant'))
        .where(isAfterNewest(arg, kit))
        .where(isValue(arg('status'), 'status', kit))
      if (shape === 'own') query = query.where('author', '=', arg('author'))
      return query.orderBy('created_at', 'desc').orderBy('id').limit(arg('limit'))
    },
  shapes,
)
const countListed = statementFamily<Filter, { count: number }>(
  'installation-request-store.countListed',
  (shape): Builder<Filter, { count: number }> =>
    (db, arg, kit) => {
      let query = db
        .selectFrom('mcp_installation_requests')
        .select((expression) => expression.fn.countAll<number>().as('count'))
        .where('tenant', '=', arg('tenant'))
        .where(isValue(arg('status'), 'status', kit))
      if (shape === 'own') query = query.where('author', '=', arg('author'))
      return query
    },
  shapes,
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
  listRequests(tx, tenant, { author, status = '' }) {
    const shape = author === undefined ? 'all' : 'own'
    const filter = { tenant, status, author: author ?? '' }
    return {
      rows: async (after, limit) => {
        const rows = await sessionOf(tx).all(listRequests(shape), { ...filter, ...newestArgs(after), limit })
        return rows.map(requests.fromRow)
      },
      count: async () => (await sessionOf(tx).get(countListed(shape), filter))?.count ?? 0,
    }
  },
  async countRequests(tx, tenant) {
    return (await sessionOf(tx).get(countRequests, { tenant }))?.count ?? 0
  },
}
