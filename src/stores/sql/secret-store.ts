import type { Selectable } from 'kysely'
import { tenantId } from '../../contract/principal.ts'
import { readPrincipal, writePrincipal } from '../../contract/stored-principal.ts'
import type { SecretLink, SecretStore, StoredSecret } from '../../domains/secrets/ports.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { SecretLinkTable, SecretTable } from './governance-schema.ts'
import { hasText, isAfterNewest, type NewestArgs, newestArgs } from './pages.ts'
import { json, rowMap } from './row-map.ts'
import { type Builder, statement, statementFamily } from './statements.ts'
import { sessionOf, writerOf } from './tx.ts'

type SecretRow = Selectable<SecretTable>
type LinkRow = Selectable<SecretLinkTable>
type RowId = { tenant: string; id: string }

const links = rowMap<LinkRow, SecretLink>()({
  tenant: 'tenant',
  id: 'id',
  tokenHash: 'token_hash',
  principal: { column: 'principal', write: writePrincipal, read: readPrincipal },
  kind: 'kind',
  subject: 'subject',
  title: 'title',
  fields: json('fields'),
  createdAtMs: 'created_at',
  expiresAtMs: 'expires_at',
  usedAtMs: 'used_at',
})

const savedColumns = ['owner', 'purpose', 'key_id', 'sealed', 'updated_at'] as const
const putSecret = statement<SecretRow>('secret-store.putSecret')((db, _arg, { columns }) =>
  db
    .insertInto('secrets')
    .values(columns(['tenant', 'id', 'session_id', 'created_at', ...savedColumns]))
    .onConflict((conflict) => conflict.columns(['tenant', 'id']).doUpdateSet(columns(savedColumns))),
)
const findSecret = statement<RowId>('secret-store.findSecret')((db, arg) =>
  db.selectFrom('secrets').selectAll().where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
type Filter = { tenant: string; owner: string; text: string }
const shapes = ['all', 'own'] as const
const listSecrets = statementFamily<Filter & NewestArgs & { limit: number }, SecretRow>(
  'secret-store.listSecrets',
  (shape): Builder<Filter & NewestArgs & { limit: number }, SecretRow> =>
    (db, arg, kit) => {
      let query = db
        .selectFrom('secrets')
        .selectAll()
        .where('tenant', '=', arg('tenant'))
        .where('session_id', 'is', null)
        .where(isAfterNewest(arg, kit))
        .where(hasText(arg('text'), ['purpose'], kit))
      if (shape === 'own') query = query.where('owner', '=', arg('owner'))
      return query.orderBy('created_at', 'desc').orderBy('id').limit(arg('limit'))
    },
  shapes,
)
const countSecrets = statementFamily<Filter, { count: number }>(
  'secret-store.countSecrets',
  (shape): Builder<Filter, { count: number }> =>
    (db, arg, kit) => {
      let query = db
        .selectFrom('secrets')
        .select((expression) => expression.fn.countAll<number>().as('count'))
        .where('tenant', '=', arg('tenant'))
        .where('session_id', 'is', null)
        .where(hasText(arg('text'), ['purpose'], kit))
      if (shape === 'own') query = query.where('owner', '=', arg('owner'))
      return query
    },
  shapes,
)
type OfSessions = { tenant: string; owner: string; now: string; limit: number }
const listOfSessions = statement<OfSessions>('secret-store.listOfSessions')((db, arg) =>
  db
    .selectFrom('secrets')
    .innerJoin('user_sessions', 'user_sessions.id', 'secrets.session_id')
    .selectAll('secrets')
    .where('secrets.tenant', '=', arg('tenant'))
    .where('secrets.owner', '=', arg('owner'))
    .where('user_sessions.expires_at', '>', arg('now'))
    .orderBy('secrets.created_at', 'desc')
    .orderBy('secrets.id')
    .limit(arg('limit')),
)
const deleteSecret = statement<RowId>('secret-store.deleteSecret')((db, arg) =>
  db.deleteFrom('secrets').where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
type OtherKeys = { tenant: string; key_id: string; after: string; limit: number }
const listOfOtherKeys = statement<OtherKeys>('secret-store.listOfOtherKeys')((db, arg) =>
  db
    .selectFrom('secrets')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('key_id', '<>', arg('key_id'))
    .where('sealed', '<>', '')
    .where('id', '>', arg('after'))
    .orderBy('id')
    .limit(arg('limit')),
)
const insertLink = statement<LinkRow>('secret-store.insertLink')((db, _arg, { columns }) =>
  db.insertInto('secret_links').values(columns(links.columns)),
)
const useLink = statement<RowId & { at: number }>('secret-store.useLink')((db, arg) =>
  db
    .updateTable('secret_links')
    .set({ used_at: arg('at') })
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id'))
    .where('used_at', 'is', null),
)
const deleteLinksBefore = statement<{ tenant: string; before: number }>('secret-store.deleteLinksBefore')((db, arg) =>
  db.deleteFrom('secret_links').where('tenant', '=', arg('tenant')).where('expires_at', '<', arg('before')),
)
const findLinkByToken = statement<{ token_hash: string }>('secret-store.findLinkByToken')((db, arg) =>
  db.selectFrom('secret_links').selectAll().where('token_hash', '=', arg('token_hash')),
)

export const sqlSecretStore: SecretStore = {
  async putSecret(tx, tenant, secret) {
    await writerOf(tx, tenant).run(putSecret, toSecretRow(tenant, secret))
  },
  async findSecret(tx, tenant, id) {
    const row = await sessionOf(tx).get(findSecret, { tenant, id })
    return row && fromSecretRow(row)
  },
  listSecrets(tx, tenant, { owner, text = '' }) {
    const shape = owner === undefined ? 'all' : 'own'
    const filter = { tenant, text, owner: owner ?? '' }
    return {
      rows: async (after, limit) => {
        const rows = await sessionOf(tx).all(listSecrets(shape), { ...filter, ...newestArgs(after), limit })
        return rows.map(fromSecretRow)
      },
      count: async () => (await sessionOf(tx).get(countSecrets(shape), filter))?.count ?? 0,
    }
  },
  async listOfSessions(tx, tenant, owner, nowMs, limit) {
    const rows = await sessionOf(tx).all(listOfSessions, { tenant, owner, now: isoTime(nowMs), limit })
    return rows.map(fromSecretRow)
  },
  async deleteSecret(tx, tenant, id) {
    return (await writerOf(tx, tenant).run(deleteSecret, { tenant, id })) > 0
  },
  async listOfOtherKeys(tx, tenant, keyId, after, limit) {
    const rows = await sessionOf(tx).all(listOfOtherKeys, { tenant, key_id: keyId, after, limit })
    return rows.map(fromSecretRow)
  },
  async insertLink(tx, tenant, link) {
    await writerOf(tx, tenant).run(insertLink, links.toRow(tenant, link))
  },
  async useLink(tx, tenant, id, at) {
    return (await writerOf(tx, tenant).run(useLink, { tenant, id, at })) > 0
  },
  async deleteLinksBefore(tx, tenant, before) {
    await writerOf(tx, tenant).run(deleteLinksBefore, { tenant, before })
  },
  async findLinkByToken(tx, tokenHash) {
    return links.found(await sessionOf(tx).get(findLinkByToken, { token_hash: tokenHash }))
  },
}

const toSecretRow = (tenant: string, secret: StoredSecret): SecretRow => ({
  tenant,
  id: secret.id,
  owner: secret.owner,
  purpose: secret.purpose,
  key_id: secret.keyId,
  sealed: secret.sealed,
  session_id: secret.sessionId ?? null,
  created_at: secret.createdAtMs,
  updated_at: secret.updatedAtMs,
})

const fromSecretRow = (row: SecretRow): StoredSecret => ({
  tenant: tenantId(row.tenant),
  id: row.id,
  owner: row.owner,
  purpose: row.purpose,
  keyId: row.key_id,
  sealed: row.sealed,
  ...(row.session_id !== null && { sessionId: row.session_id }),
  createdAtMs: row.created_at,
  updatedAtMs: row.updated_at,
})
