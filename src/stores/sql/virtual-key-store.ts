import type { Selectable } from 'kysely'
import { type TenantId, tenantId } from '../../contract/principal.ts'
import type { Scope } from '../../contract/sharing.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { KeyGrants, VirtualKey, VirtualKeyStore } from '../../domains/model-proxies/ports.ts'
import type { VirtualKeyTable } from './governance-schema.ts'
import { json, rowMap } from './row-map.ts'
import { isVisible, sharedTeams, type ViewerArgs, viewerArgs } from './sharing.ts'
import { statement } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type Row = Selectable<VirtualKeyTable>
const KIND = 'virtual_key'
type RowId = { tenant: string; id: string }

const keys = rowMap<Omit<Row, 'scope' | 'author'>, Omit<VirtualKey, 'sharing'>>()({
  tenant: 'tenant',
  id: 'id',
  prefix: 'prefix',
  hash: 'hash',
  name: 'name',
  // Keys of earlier versions name no provider keys.
  grants: {
    ...json('grants'),
    read: (stored: string) => ({ providerKeys: null, ...(JSON.parse(stored) as Omit<KeyGrants, 'providerKeys'>) }),
  },
  createdAtMs: 'created_at',
  createdBy: 'created_by',
  rotatedAtMs: 'rotated_at',
  expiresAtMs: 'expires_at',
  lastUsedAtMs: 'last_used_at',
  revokedAtMs: 'revoked_at',
})
const fromRow = (row: Row, teams: readonly string[]): VirtualKey => ({
  ...keys.fromRow(row),
  sharing: { scope: row.scope as Scope, author: row.author, teams },
})

const insertKey = statement<Row>('virtual-key-store.insertKey')((db, _arg, { columns }) =>
  db.insertInto('virtual_keys').values(columns([...keys.columns, 'scope', 'author'])),
)
const replaceSecret = statement<RowId & { prefix: string; hash: string; at: number }>(
  'virtual-key-store.replaceSecret',
)((db, arg) =>
  db
    .updateTable('virtual_keys')
    .set({ prefix: arg('prefix'), hash: arg('hash'), rotated_at: arg('at') })
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id'))
    .where('revoked_at', 'is', null),
)
const revokeKey = statement<RowId & { at: number }>('virtual-key-store.revokeKey')((db, arg) =>
  db
    .updateTable('virtual_keys')
    .set({ revoked_at: arg('at') })
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id'))
    .where('revoked_at', 'is', null),
)
const touchKey = statement<RowId & { at: number }>('virtual-key-store.touchKey')((db, arg) =>
  db
    .updateTable('virtual_keys')
    .set({ last_used_at: arg('at') })
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id'))
    .where((expression) =>
      expression.or([expression('last_used_at', 'is', null), expression('last_used_at', '<', arg('at'))]),
    ),
)
const findKey = statement<RowId>('virtual-key-store.findKey')((db, arg) =>
  db.selectFrom('virtual_keys').selectAll().where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const findNamed = statement<{ tenant: string; name: string }>('virtual-key-store.findNamed')((db, arg) =>
  db
    .selectFrom('virtual_keys')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('name', '=', arg('name'))
    .where('revoked_at', 'is', null)
    .orderBy('created_at', 'desc')
    .orderBy('id'),
)
const listKeys = statement<ViewerArgs & { tenant: string; limit: number }>('virtual-key-store.listKeys')(
  (db, arg, kit) =>
    db
      .selectFrom('virtual_keys')
      .selectAll()
      .where('tenant', '=', arg('tenant'))
      .where(isVisible(arg, kit, 'virtual_keys', KIND))
      .orderBy('created_at', 'desc')
      .orderBy('id')
      .limit(arg('limit')),
)
const countOf = statement<{ tenant: string; author: string }>('virtual-key-store.countOf')((db, arg) =>
  db
    .selectFrom('virtual_keys')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('tenant', '=', arg('tenant'))
    .where('author', '=', arg('author'))
    .where('revoked_at', 'is', null),
)
const findByPrefix = statement<{ prefix: string }>('virtual-key-store.findByPrefix')((db, arg) =>
  db.selectFrom('virtual_keys').selectAll().where('prefix', '=', arg('prefix')),
)

export const sqlVirtualKeyStore: VirtualKeyStore = {
  async insertKey(tx, tenant, key) {
    const { scope, author } = key.sharing
    await writerOf(tx, tenant).run(insertKey, { ...keys.toRow(tenant, key), scope, author })
    await sharedTeams.replace(tx, tenant, KIND, key.id, key.sharing.teams)
  },
  async replaceSecret(tx, tenant, id, { prefix, hash, atMs }) {
    return (await writerOf(tx, tenant).run(replaceSecret, { tenant, id, prefix, hash, at: atMs })) > 0
  },
  async revokeKey(tx, tenant, id, atMs) {
    return (await writerOf(tx, tenant).run(revokeKey, { tenant, id, at: atMs })) > 0
  },
  async touchKey(tx, tenant, id, atMs) {
    await writerOf(tx, tenant).run(touchKey, { tenant, id, at: atMs })
  },
  async findKey(tx, tenant, id) {
    return await withTeams(tx as ReadTx, await sessionOf(tx).get(findKey, { tenant, id }))
  },
  async findNamed(tx, tenant, name) {
    return await allWithTeams(tx, tenant, await sessionOf(tx).all(findNamed, { tenant, name }))
  },
  async listKeys(tx, tenant, viewer, limit) {
    const rows = await sessionOf(tx).all(listKeys, { tenant, limit, ...viewerArgs(viewer) })
    return await allWithTeams(tx, tenant, rows)
  },
  async countOf(tx, tenant, author) {
    return Number((await sessionOf(tx).get(countOf, { tenant, author }))!.count)
  },
  async findByPrefix(tx, prefix) {
    return await withTeams(tx, await sessionOf(tx).get(findByPrefix, { prefix }))
  },
}

async function withTeams(tx: ReadTx, row: Row | undefined): Promise<VirtualKey | undefined> {
  if (row === undefined) return undefined
  return fromRow(row, await sharedTeams.of(tx, tenantId(row.tenant), KIND, row.id))
}

async function allWithTeams(tx: ReadTx, tenant: TenantId, rows: readonly Row[]): Promise<VirtualKey[]> {
  const teams = await sharedTeams.ofRows(tx, tenant, KIND, rows)
  return rows.map((row) => fromRow(row, teams.get(row.id) ?? []))
}
