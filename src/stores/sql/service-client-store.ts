import type { Selectable } from 'kysely'
import type { ServiceClient, ServiceClientStore } from '../../domains/people/ports.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { ServiceClientTable } from './people-schema.ts'
import { json, rowMap } from './row-map.ts'
import { statement } from './statements.ts'
import { sessionOf, sharedWriterOf } from './tx.ts'

type Row = Selectable<ServiceClientTable>
type Of = { tenant: string; id: string }

const clients = rowMap<Row, ServiceClient>()({
  tenant: 'tenant',
  id: 'id',
  name: 'name',
  secretHash: 'secret_hash',
  role: 'role',
  tier: 'tier',
  gateways: json('gateways'),
  createdAtMs: 'created_at',
  createdBy: 'created_by',
})

/** A row as the program has it. */
export const toClient = clients.fromRow

const insertClient = statement<Row>('service-client-store.insertClient')((db, _arg, { columns }) =>
  db.insertInto('service_clients').values(columns(clients.columns)),
)
/** It has no redirect and no secret there, so that the library cannot use it. */
const insertOauthClient = statement<{ id: string; name: string; at: string }>('service-client-store.insertOauthClient')(
  (db, arg) =>
    db.insertInto('oauth_clients').values({
      id: arg('id'),
      clientId: arg('id'),
      name: arg('name'),
      uri: null,
      redirectUris: '[]',
      createdAt: arg('at'),
    }),
)
const deleteClient = statement<Of>('service-client-store.deleteClient')((db, arg) =>
  db.deleteFrom('service_clients').where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const deleteOauthClient = statement<{ id: string }>('service-client-store.deleteOauthClient')((db, arg) =>
  db.deleteFrom('oauth_clients').where('clientId', '=', arg('id')),
)
const findNamed = statement<{ tenant: string; named: string }>('service-client-store.findNamed')((db, arg) =>
  db
    .selectFrom('service_clients')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where((expression) => expression.or([expression('id', '=', arg('named')), expression('name', '=', arg('named'))])),
)
const findById = statement<{ id: string }>('service-client-store.findById')((db, arg) =>
  db.selectFrom('service_clients').selectAll().where('id', '=', arg('id')),
)
const list = statement<{ tenant: string; limit: number }>('service-client-store.list')((db, arg) =>
  db.selectFrom('service_clients').selectAll().where('tenant', '=', arg('tenant')).orderBy('name').limit(arg('limit')),
)
const countOfRole = statement<{ tenant: string; role: string }>('service-client-store.countOfRole')((db, arg) =>
  db
    .selectFrom('service_clients')
    .select((expression) => expression.fn.countAll<number>().as('count'))
    .where('tenant', '=', arg('tenant'))
    .where('role', '=', arg('role')),
)
const insertToken = statement<{
  id: string
  token: string
  client: string
  resources: string
  expires: string
  at: string
}>('service-client-store.insertToken')((db, arg) =>
  db.insertInto('oauth_access_tokens').values({
    id: arg('id'),
    token: arg('token'),
    clientId: arg('client'),
    userId: null,
    referenceId: null,
    resources: arg('resources'),
    expiresAt: arg('expires'),
    createdAt: arg('at'),
    revoked: null,
    scopes: '[]',
  }),
)
const deleteOldTokens = statement<{ client: string; now: string }>('service-client-store.deleteOldTokens')((db, arg) =>
  db.deleteFrom('oauth_access_tokens').where('clientId', '=', arg('client')).where('expiresAt', '<=', arg('now')),
)

export const sqlServiceClientStore: ServiceClientStore = {
  async insertClient(tx, client) {
    const session = sharedWriterOf(tx)
    await session.run(insertOauthClient, {
      id: client.id,
      name: client.name,
      at: isoTime(client.createdAtMs),
    })
    await session.run(insertClient, clients.toRow(client.tenant, client))
  },
  async deleteClient(tx, tenant, id) {
    const session = sharedWriterOf(tx)
    if ((await session.run(deleteClient, { tenant, id })) > 0) await session.run(deleteOauthClient, { id })
  },
  async findClient(tx, tenant, named) {
    return clients.found(await sessionOf(tx).get(findNamed, { tenant, named }))
  },
  async findClientById(tx, id) {
    return clients.found(await sessionOf(tx).get(findById, { id }))
  },
  async listClients(tx, tenant, limit) {
    return (await sessionOf(tx).all(list, { tenant, limit })).map(clients.fromRow)
  },
  async countClientsOfRole(tx, tenant, role) {
    return (await sessionOf(tx).get(countOfRole, { tenant, role }))?.count ?? 0
  },
  async insertToken(tx, { id, tokenHash, clientId, resource, atMs, expiresAtMs }) {
    const session = sharedWriterOf(tx)
    await session.run(deleteOldTokens, { client: clientId, now: isoTime(atMs) })
    const resources = JSON.stringify([resource])
    const times = { expires: isoTime(expiresAtMs), at: isoTime(atMs) }
    await session.run(insertToken, { id, token: tokenHash, client: clientId, resources, ...times })
  },
}
