import type { Selectable } from 'kysely'
import type { ApiKey, ApiKeyStore } from '../../domains/identity/ports.ts'
import { hasText, isAfterNewest, type NewestArgs, newestArgs } from './pages.ts'
import { jsonOrNull, rowMap } from './row-map.ts'
import type { ApiKeyTable } from './schema.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type KeyRow = Selectable<ApiKeyTable>
type KeyId = { tenant: string; id: string }

const keys = rowMap<KeyRow, ApiKey>()({
  tenant: 'tenant',
  id: 'id',
  prefix: 'prefix',
  hash: 'hash',
  name: 'name',
  role: 'role',
  tier: 'tier',
  scopes: jsonOrNull('scopes'),
  createdAtMs: 'created_at',
  createdBy: 'created_by',
  expiresAtMs: 'expires_at',
  lastUsedAtMs: 'last_used_at',
  revokedAtMs: 'revoked_at',
  userId: 'user_id',
})

const insertKey = statement<KeyRow>('api-key-store.insertKey')((db, _arg, { columns }) =>
  db.insertInto('api_keys').values(columns(keys.columns)),
)
const findKey = statement<KeyId>('api-key-store.findKey')((db, arg) =>
  db.selectFrom('api_keys').selectAll().where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const findLiveKeyByName = statement<{ tenant: string; name: string; now: number }>('api-key-store.findLiveKeyByName')(
  (db, arg) =>
    db
      .selectFrom('api_keys')
      .selectAll()
      .where('tenant', '=', arg('tenant'))
      .where('name', '=', arg('name'))
      .where('revoked_at', 'is', null)
      .where((expression) =>
        expression.or([expression('expires_at', 'is', null), expression('expires_at', '>', arg('now'))]),
      ),
)
const listLiveKeysOfRole = statement<{ tenant: string; role: string; now: number }>('api-key-store.listLiveKeysOfRole')(
  (db, arg) =>
    db
      .selectFrom('api_keys')
      .selectAll()
      .where('tenant', '=', arg('tenant'))
      .where('role', '=', arg('role'))
      .where('revoked_at', 'is', null)
      .where((expression) =>
        expression.or([expression('expires_at', 'is', null), expression('expires_at', '>', arg('now'))]),
      )
      .orderBy('name'),
)
type Listed = { tenant: string; text: string }
const listKeys = statement<Listed & NewestArgs & { limit: number }>('api-key-store.listKeys')((db, arg, kit) =>
  db
    .selectFrom('api_keys')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where(isAfterNewest(arg, kit))
    .where(hasText(arg('text'), ['name'], kit))
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .limit(arg('limit')),
)
const countKeys = statement<Listed>('api-key-store.countKeys')((db, arg, kit) =>
  db
    .selectFrom('api_keys')
    .select((expression) => expression.fn.countAll<number>().as('count'))
    .where('tenant', '=', arg('tenant'))
    .where(hasText(arg('text'), ['name'], kit)),
)
const listKeysOfUser = statement<{ tenant: string; user: string }>('api-key-store.listKeysOfUser')((db, arg) =>
  db
    .selectFrom('api_keys')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('user_id', '=', arg('user'))
    .where('revoked_at', 'is', null)
    .orderBy('created_at')
    .orderBy('id'),
)
const revokeKey = statement<KeyId & { at: number }>('api-key-store.revokeKey')((db, arg) =>
  db
    .updateTable('api_keys')
    .set({ revoked_at: arg('at') })
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id'))
    .where('revoked_at', 'is', null),
)
const touchKey = statement<KeyId & { at: number }>('api-key-store.touchKey')((db, arg) =>
  db
    .updateTable('api_keys')
    .set({ last_used_at: arg('at') })
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id'))
    .where((expression) =>
      expression.or([expression('last_used_at', 'is', null), expression('last_used_at', '<', arg('at'))]),
    ),
)
const findKeyByPrefix = statement<{ prefix: string }>('api-key-store.findKeyByPrefix')((db, arg) =>
  db.selectFrom('api_keys').selectAll().where('prefix', '=', arg('prefix')),
)

export const sqlApiKeyStore: ApiKeyStore = {
  async insertKey(tx, tenant, key) {
    await sessionOf(tx).run(insertKey, keys.toRow(tenant, key))
  },
  async findKey(tx, tenant, id) {
    return keys.found(await sessionOf(tx).get(findKey, { tenant, id }))
  },
  async findLiveKeyByName(tx, tenant, name, nowMs) {
    return keys.found(await sessionOf(tx).get(findLiveKeyByName, { tenant, name, now: nowMs }))
  },
  async listLiveKeysOfRole(tx, tenant, role, nowMs) {
    return (await sessionOf(tx).all(listLiveKeysOfRole, { tenant, role, now: nowMs })).map(keys.fromRow)
  },
  listKeys(tx, tenant, { text = '' }) {
    const filter = { tenant, text }
    return {
      rows: async (after, limit) =>
        (await sessionOf(tx).all(listKeys, { ...filter, ...newestArgs(after), limit })).map(keys.fromRow),
      count: async () => (await sessionOf(tx).get(countKeys, filter))?.count ?? 0,
    }
  },
  async listKeysOfUser(tx, tenant, user) {
    return (await sessionOf(tx).all(listKeysOfUser, { tenant, user })).map(keys.fromRow)
  },
  async revokeKey(tx, tenant, id, atMs) {
    return (await sessionOf(tx).run(revokeKey, { tenant, id, at: atMs })) > 0
  },
  async touchKey(tx, tenant, id, atMs) {
    await writerOf(tx, tenant).run(touchKey, { tenant, id, at: atMs })
  },
  async findKeyByPrefix(tx, prefix) {
    return keys.found(await sessionOf(tx).get(findKeyByPrefix, { prefix }))
  },
}
