import type { Selectable } from 'kysely'
import type { DeviceAuthorization, DeviceStore } from '../../domains/people/ports.ts'
import { networkOf } from '../../kernel/address-network.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { DeviceAuthorizationTable } from './people-schema.ts'
import { statement } from './statements.ts'
import { sessionOf, sharedWriterOf } from './tx.ts'

type Row = Selectable<DeviceAuthorizationTable>

const insertDevice = statement<Row>('device-store.insertDevice')((db, _arg, { columns }) =>
  db
    .insertInto('device_authorizations')
    .values(
      columns([
        'id',
        'code_hash',
        'user_code',
        'client_id',
        'scopes',
        'resources',
        'address',
        'network',
        'created_at',
        'expires_at',
        'status',
        'user_id',
        'interval_ms',
        'polled_at',
      ]),
    ),
)
const deleteExpired = statement<{ before: number }>('device-store.deleteExpired')((db, arg) =>
  db.deleteFrom('device_authorizations').where('expires_at', '<', arg('before')),
)
const countAll = statement<object>('device-store.countAll')((db) =>
  db.selectFrom('device_authorizations').select((expression) => expression.fn.countAll<number>().as('count')),
)
const countHere = statement<{ network: string }>('device-store.countHere')((db, arg) =>
  db
    .selectFrom('device_authorizations')
    .select((expression) => expression.fn.countAll<number>().as('count'))
    .where('network', '=', arg('network')),
)
const findByHash = statement<{ hash: string }>('device-store.findByHash')((db, arg) =>
  db.selectFrom('device_authorizations').selectAll().where('code_hash', '=', arg('hash')),
)
const findByUserCode = statement<{ code: string }>('device-store.findByUserCode')((db, arg) =>
  db.selectFrom('device_authorizations').selectAll().where('user_code', '=', arg('code')),
)
const notePoll = statement<{ id: string; at: number; interval: number }>('device-store.notePoll')((db, arg) =>
  db
    .updateTable('device_authorizations')
    .set({ polled_at: arg('at'), interval_ms: arg('interval') })
    .where('id', '=', arg('id')),
)
const answerDevice = statement<{ id: string; status: string; user: string; now: number }>('device-store.answerDevice')(
  (db, arg) =>
    db
      .updateTable('device_authorizations')
      .set({ status: arg('status'), user_id: arg('user') })
      .where('id', '=', arg('id'))
      .where('status', '=', 'pending')
      .where('expires_at', '>', arg('now')),
)
const takeAllowed = statement<{ id: string }>('device-store.takeAllowed')((db, arg) =>
  db.deleteFrom('device_authorizations').where('id', '=', arg('id')).where('status', '=', 'allowed'),
)
const findConsent = statement<{ user: string; client: string }>('device-store.findConsent')((db, arg) =>
  db.selectFrom('oauth_consents').select('id').where('userId', '=', arg('user')).where('clientId', '=', arg('client')),
)
const insertConsent = statement<{
  id: string
  user: string
  client: string
  scopes: string
  resources: string
  at: string
}>('device-store.insertConsent')((db, arg) =>
  db.insertInto('oauth_consents').values({
    id: arg('id'),
    clientId: arg('client'),
    userId: arg('user'),
    scopes: arg('scopes'),
    resources: arg('resources'),
    createdAt: arg('at'),
    updatedAt: arg('at'),
  }),
)

export const sqlDeviceStore: DeviceStore = {
  async insertDevice(tx, device) {
    await sharedWriterOf(tx).run(insertDevice, toRow(device))
  },
  async deleteExpiredDevices(tx, beforeMs) {
    await sharedWriterOf(tx).run(deleteExpired, { before: beforeMs })
  },
  async countDevices(tx, address) {
    const session = sessionOf(tx)
    const all = (await session.get(countAll, {}))?.count ?? 0
    const here = (await session.get(countHere, { network: networkOf(address) }))?.count ?? 0
    return { all, here }
  },
  async findDeviceByHash(tx, codeHash) {
    return fromRow(await sessionOf(tx).get(findByHash, { hash: codeHash }))
  },
  async findDeviceByUserCode(tx, userCode) {
    return fromRow(await sessionOf(tx).get(findByUserCode, { code: userCode }))
  },
  async notePoll(tx, id, { polledAtMs, intervalMs }) {
    await sharedWriterOf(tx).run(notePoll, { id, at: polledAtMs, interval: intervalMs })
  },
  async answerDevice(tx, id, { status, userId, nowMs }) {
    return (await sharedWriterOf(tx).run(answerDevice, { id, status, user: userId, now: nowMs })) > 0
  },
  async takeAllowed(tx, id) {
    return (await sharedWriterOf(tx).run(takeAllowed, { id })) > 0
  },
  async insertConsent(tx, { id, userId, clientId, scopes, resources, atMs }) {
    const session = sharedWriterOf(tx)
    if ((await session.get(findConsent, { user: userId, client: clientId })) !== undefined) return
    await session.run(insertConsent, {
      id,
      user: userId,
      client: clientId,
      scopes: JSON.stringify(scopes),
      resources: JSON.stringify(resources),
      at: isoTime(atMs),
    })
  },
}

const toRow = (device: DeviceAuthorization): Row => ({
  id: device.id,
  code_hash: device.codeHash,
  user_code: device.userCode,
  client_id: device.clientId,
  scopes: JSON.stringify(device.scopes),
  resources: JSON.stringify(device.resources),
  address: device.address,
  network: networkOf(device.address),
  created_at: device.createdAtMs,
  expires_at: device.expiresAtMs,
  status: device.status,
  user_id: device.userId,
  interval_ms: device.intervalMs,
  polled_at: device.polledAtMs,
})

const fromRow = (row: Row | undefined): DeviceAuthorization | undefined =>
  row && {
    id: row.id,
    codeHash: row.code_hash,
    userCode: row.user_code,
    clientId: row.client_id,
    scopes: JSON.parse(row.scopes) as string[],
    resources: JSON.parse(row.resources) as string[],
    address: row.address,
    createdAtMs: row.created_at,
    expiresAtMs: row.expires_at,
    status: row.status as DeviceAuthorization['status'],
    userId: row.user_id,
    intervalMs: row.interval_ms,
    polledAtMs: row.polled_at,
  }
