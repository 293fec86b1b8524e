import type { Selectable } from 'kysely'
import type { Permission } from '../../contract/permissions.ts'
import { type Role, type Tier, tenantId } from '../../contract/principal.ts'
import type { ApiKey, ApiKeyStore } from '../../domains/identity/ports.ts'
import type { ApiKeyTable } from './schema.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type KeyRow = Selectable<ApiKeyTable>
type KeyId = { tenant: string; id: string }

const insertKey = statement<KeyRow>('api-key-store.insertKey')((db, _arg, { columns }) =>
  db
    .insertInto('api_keys')
    .values(
      columns([
        'tenant',
        'id',
        'prefix',
        'hash',
        'name',
        'role',
        'tier',
        'scopes',
        'created_at',
        'created_by',
        'expires_at',
        'last_used_at',
        'revoked_at',
        'user_id',
      ]),
    ),
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
const listKeys = statement<{ tenant: string; limit: number }>('api-key-store.listKeys')((db, arg) =>
  db
    .selectFrom('api_keys')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .limit(arg('limit')),
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
    await sessionOf(tx).run(insertKey, toRow(tenant, key))
  },
  async findKey(tx, tenant, id) {
    return fromRow(await sessionOf(tx).get(findKey, { tenant, id }))
  },
  async findLiveKeyByName(tx, tenant, name, nowMs) {
    return fromRow(await sessionOf(tx).get(findLiveKeyByName, { tenant, name, now: nowMs }))
  },
  async listLiveKeysOfRole(tx, tenant, role, nowMs) {
    return (await sessionOf(tx).all(listLiveKeysOfRole, { tenant, role, now: nowMs })).map((row) => fromRow(row)!)
  },
  async listKeys(tx, tenant, limit) {
    return (await sessionOf(tx).all(listKeys, { tenant, limit })).map((row) => fromRow(row)!)
  },
  async listKeysOfUser(tx, tenant, user) {
    return (await sessionOf(tx).all(listKeysOfUser, { tenant, user })).map((row) => fromRow(row)!)
  },
  async revokeKey(tx, tenant, id, atMs) {
    return (await sessionOf(tx).run(revokeKey, { tenant, id, at: atMs })) > 0
  },
  async touchKey(tx, tenant, id, atMs) {
    await writerOf(tx, tenant).run(touchKey, { tenant, id, at: atMs })
  },
  async findKeyByPrefix(tx, prefix) {
    return fromRow(await sessionOf(tx).get(findKeyByPrefix, { prefix }))
  },
}

function toRow(tenant: string, key: ApiKey): KeyRow {
  return {
    tenant,
    id: key.id,
    prefix: key.prefix,
    hash: key.hash,
    name: key.name,
    role: key.role,
    tier: key.tier,
    scopes: key.scopes === null ? null : JSON.stringify(key.scopes),
    created_at: key.createdAtMs,
    created_by: key.createdBy,
    expires_at: key.expiresAtMs,
    last_used_at: key.lastUsedAtMs,
    revoked_at: key.revokedAtMs,
    user_id: key.userId,
  }
}

function fromRow(row: KeyRow | undefined): ApiKey | undefined {
  if (row === undefined) return undefined
  return {
    tenant: tenantId(row.tenant),
    id: row.id,
    prefix: row.prefix,
    hash: row.hash,
    name: row.name,
    role: row.role as Role,
    tier: row.tier as Tier,
    scopes: row.scopes === null ? null : (JSON.parse(row.scopes) as Permission[]),
    createdAtMs: row.created_at,
    createdBy: row.created_by,
    expiresAtMs: row.expires_at,
    lastUsedAtMs: row.last_used_at,
    revokedAtMs: row.revoked_at,
    userId: row.user_id,
  }
}
