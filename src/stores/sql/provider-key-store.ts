import type { Selectable } from 'kysely'
import type { TenantId } from '../../contract/principal.ts'
import type { Scope } from '../../contract/sharing.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { ProviderKey, ProviderKeyStore } from '../../domains/model-proxies/ports.ts'
import type { ProviderKeyTable } from './governance-schema.ts'
import { flag, rowMap } from './row-map.ts'
import { isVisible, sharedTeams, type ViewerArgs, viewerArgs } from './sharing.ts'
import { rawStatement, statement } from './statements.ts'
import { sessionOf, sharedWriterOf, writerOf } from './tx.ts'

type Row = Selectable<ProviderKeyTable>
const KIND = 'provider_key'
type RowId = { tenant: string; id: string }

const keys = rowMap<Omit<Row, 'scope' | 'author'>, Omit<ProviderKey, 'sharing'>>()({
  tenant: 'tenant',
  id: 'id',
  name: 'name',
  provider: 'provider',
  isPrimary: flag('is_primary'),
  secret: 'secret',
  ownsSecret: flag('owns_secret'),
  createdAtMs: 'created_at',
  createdBy: 'created_by',
  rotatedAtMs: 'rotated_at',
})
const fromRow = (row: Row, teams: readonly string[]): ProviderKey => ({
  ...keys.fromRow(row),
  sharing: { scope: row.scope as Scope, author: row.author, teams },
})

const savedColumns = ['name', 'is_primary', 'secret', 'owns_secret', 'rotated_at'] as const
const insertKey = statement<Row>('provider-key-store.insertKey')((db, _arg, { columns }) =>
  db.insertInto('provider_keys').values(columns([...keys.columns, 'scope', 'author'])),
)
type Changed = Pick<Row, 'tenant' | 'id' | 'name' | 'is_primary' | 'secret' | 'owns_secret' | 'rotated_at'>
const saveKey = statement<Changed>('provider-key-store.saveKey')((db, arg, { columns }) =>
  db
    .updateTable('provider_keys')
    .set(columns(savedColumns))
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id')),
)
const deleteKey = statement<RowId>('provider-key-store.deleteKey')((db, arg) =>
  db.deleteFrom('provider_keys').where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const findKey = statement<RowId>('provider-key-store.findKey')((db, arg) =>
  db.selectFrom('provider_keys').selectAll().where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const findNamed = statement<{ tenant: string; name: string }>('provider-key-store.findNamed')((db, arg) =>
  db
    .selectFrom('provider_keys')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('name', '=', arg('name'))
    .orderBy('created_at', 'desc')
    .orderBy('id'),
)
type Listing = ViewerArgs & { tenant: string; limit: number }
const listKeys = statement<Listing>('provider-key-store.listKeys')((db, arg, kit) =>
  db
    .selectFrom('provider_keys')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where(isVisible(arg, kit, 'provider_keys', KIND))
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .limit(arg('limit')),
)
const listOfProviders = statement<Listing & { providers: string }>('provider-key-store.listOfProviders')(
  (db, arg, kit) =>
    db
      .selectFrom('provider_keys')
      .selectAll()
      .where('tenant', '=', arg('tenant'))
      .where(
        'provider',
        'in',
        kit.dialect === 'postgres'
          ? kit.sql<string>`(select json_array_elements_text(${arg('providers')}::text::json))`
          : kit.sql<string>`(select value from json_each(${arg('providers')}))`,
      )
      .where(isVisible(arg, kit, 'provider_keys', KIND))
      .orderBy('created_at', 'desc')
      .orderBy('id')
      .limit(arg('limit')),
)
const countOf = statement<{ tenant: string; author: string }>('provider-key-store.countOf')((db, arg) =>
  db
    .selectFrom('provider_keys')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('tenant', '=', arg('tenant'))
    .where('author', '=', arg('author')),
)
const listOfSecret = statement<{ tenant: string; secret: string }>('provider-key-store.listOfSecret')((db, arg) =>
  db
    .selectFrom('provider_keys')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('secret', '=', arg('secret'))
    .orderBy('id'),
)
type OfOwner = { tenant: string; author: string }
const deleteSecretsOf = statement<OfOwner>('provider-key-store.deleteSecretsOf')((db, arg, { sql }) =>
  rawStatement(
    sql`delete from secrets where tenant = ${arg('tenant')} and 'secret:' || id in (
      select secret from provider_keys where tenant = ${arg('tenant')} and scope = 'personal' and author = ${arg('author')}
        and owns_secret = 1)`,
    db,
  ),
)
const deleteOf = statement<OfOwner>('provider-key-store.deleteOf')((db, arg) =>
  db
    .deleteFrom('provider_keys')
    .where('tenant', '=', arg('tenant'))
    .where('scope', '=', 'personal')
    .where('author', '=', arg('author')),
)
const deleteSecretsOfNobody = statement<{ tenant: string }>('provider-key-store.deleteSecretsOfNobody')(
  (db, arg, { sql }) =>
    rawStatement(
      sql`delete from secrets where tenant = ${arg('tenant')} and 'secret:' || id in (
        select secret from provider_keys where tenant = ${arg('tenant')} and scope = 'team' and owns_secret = 1
          and not exists (select 1 from shared_with_teams where shared_with_teams.tenant = provider_keys.tenant
            and shared_with_teams.kind = ${sql.lit(KIND)} and shared_with_teams.resource_id = provider_keys.id))`,
      db,
    ),
)
const deleteOfNobody = statement<{ tenant: string }>('provider-key-store.deleteOfNobody')((db, arg, { sql }) =>
  rawStatement(
    sql`delete from provider_keys where tenant = ${arg('tenant')} and scope = 'team'
      and not exists (select 1 from shared_with_teams where shared_with_teams.tenant = provider_keys.tenant
        and shared_with_teams.kind = ${sql.lit(KIND)} and shared_with_teams.resource_id = provider_keys.id)`,
    db,
  ),
)

export const sqlProviderKeyStore: ProviderKeyStore = {
  async insertKey(tx, tenant, key) {
    const { scope, author } = key.sharing
    await writerOf(tx, tenant).run(insertKey, { ...keys.toRow(tenant, key), scope, author })
    await sharedTeams.replace(tx, tenant, KIND, key.id, key.sharing.teams)
  },
  async saveKey(tx, tenant, key) {
    const { id, name, is_primary, secret, owns_secret, rotated_at } = keys.toRow(tenant, key)
    await writerOf(tx, tenant).run(saveKey, { tenant, id, name, is_primary, secret, owns_secret, rotated_at })
  },
  async deleteKey(tx, tenant, id) {
    await sharedTeams.replace(tx, tenant, KIND, id, [])
    await writerOf(tx, tenant).run(deleteKey, { tenant, id })
  },
  async findKey(tx, tenant, id) {
    const row = await sessionOf(tx).get(findKey, { tenant, id })
    return row && fromRow(row, await sharedTeams.of(tx as ReadTx, tenant, KIND, id))
  },
  async findNamed(tx, tenant, name) {
    return await withTeams(tx, tenant, await sessionOf(tx).all(findNamed, { tenant, name }))
  },
  async listKeys(tx, tenant, viewer, { providers, limit }) {
    const args = { tenant, limit, ...viewerArgs(viewer) }
    const rows =
      providers === undefined
        ? await sessionOf(tx).all(listKeys, args)
        : await sessionOf(tx).all(listOfProviders, { ...args, providers: JSON.stringify(providers) })
    return await withTeams(tx, tenant, rows)
  },
  async countOf(tx, tenant, author) {
    return Number((await sessionOf(tx).get(countOf, { tenant, author }))!.count)
  },
  async listOfSecret(tx, tenant, reference) {
    const rows = await sessionOf(tx).all(listOfSecret, { tenant, secret: reference })
    return await withTeams(tx as ReadTx, tenant, rows)
  },
}

/** Keys end with their owner. An operator may remove an owner of another tenant. */
export const endingProviderKeys = {
  async ofUser(tx: WriteTx, tenant: TenantId, author: string): Promise<void> {
    const session = sharedWriterOf(tx)
    await session.run(deleteSecretsOf, { tenant, author })
    await session.run(deleteOf, { tenant, author })
  },
  /** After a team was removed: keys without any team. */
  async ofNoTeam(tx: WriteTx, tenant: TenantId): Promise<void> {
    const session = sharedWriterOf(tx)
    await session.run(deleteSecretsOfNobody, { tenant })
    await session.run(deleteOfNobody, { tenant })
  },
} as const

async function withTeams(tx: ReadTx, tenant: TenantId, rows: readonly Row[]): Promise<ProviderKey[]> {
  const teams = await sharedTeams.ofRows(tx, tenant, KIND, rows)
  return rows.map((row) => fromRow(row, teams.get(row.id) ?? []))
}
