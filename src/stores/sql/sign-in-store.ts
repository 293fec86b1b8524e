import type { Selectable } from 'kysely'
import { limits } from '../../contract/limits.ts'
import { tenantId } from '../../contract/principal.ts'
import type { AccessToken, PeopleStore, SignInAttempt, SignInOutcome, UserSession } from '../../domains/people/ports.ts'
import { networkOf } from '../../kernel/address-network.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { SignInAttemptTable, UserSessionTable } from './people-schema.ts'
import { statement } from './statements.ts'
import { sessionOf, sharedWriterOf } from './tx.ts'

/** Sessions, tokens and sign-in attempts; better-auth writes them, this only reads and ends them. */
type Access = Pick<
  PeopleStore,
  | 'setPassword'
  | 'listUsersWithSignIn'
  | 'listSessions'
  | 'listGrants'
  | 'deleteSession'
  | 'deleteGrant'
  | 'deleteAllSessions'
  | 'listPasskeys'
  | 'deletePasskey'
  | 'findSessionByToken'
  | 'findAccessToken'
  | 'countClients'
  | 'deleteUnusedClients'
  | 'hasResource'
  | 'insertResource'
  | 'insertAttempt'
  | 'attemptsOf'
  | 'codeFailuresOf'
  | 'countRefusedFrom'
>

type OfUser = { user: string }
type SessionRow = Selectable<UserSessionTable>
type AttemptRow = Omit<Selectable<SignInAttemptTable>, 'row_id'>

/** better-auth's word for an account that has a password. */
const CREDENTIAL = 'credential'

const deletePassword = statement<OfUser>('sign-in-store.deletePassword')((db, arg) =>
  db.deleteFrom('user_accounts').where('userId', '=', arg('user')).where('providerId', '=', CREDENTIAL),
)
const insertPassword = statement<OfUser & { id: string; hash: string; at: string }>('sign-in-store.insertPassword')(
  (db, arg) =>
    db.insertInto('user_accounts').values({
      id: arg('id'),
      accountId: arg('user'),
      providerId: CREDENTIAL,
      userId: arg('user'),
      password: arg('hash'),
      createdAt: arg('at'),
      updatedAt: arg('at'),
    }),
)
/** A password and each identity provider is an account. Only a user with an account can have a passkey. */
const listUsersWithSignIn = statement<{ tenant: string }>('sign-in-store.listUsersWithSignIn')((db, arg) =>
  db
    .selectFrom('users')
    .innerJoin('user_accounts', 'user_accounts.userId', 'users.id')
    .select('users.id')
    .distinct()
    .where('users.tenant', '=', arg('tenant')),
)
const listSessions = statement<OfUser & { now: string; limit: number }>('sign-in-store.listSessions')((db, arg) =>
  db
    .selectFrom('user_sessions')
    .selectAll()
    .where('user_id', '=', arg('user'))
    .where('expires_at', '>', arg('now'))
    .orderBy('created_at', 'desc')
    .limit(arg('limit')),
)
const findSessionByToken = statement<{ token: string }>('sign-in-store.findSessionByToken')((db, arg) =>
  db.selectFrom('user_sessions').selectAll().where('token', '=', arg('token')),
)
const deleteSession = statement<OfUser & { id: string }>('sign-in-store.deleteSession')((db, arg) =>
  db.deleteFrom('user_sessions').where('user_id', '=', arg('user')).where('id', '=', arg('id')),
)
const deleteSessions = statement<OfUser>('sign-in-store.deleteSessions')((db, arg) =>
  db.deleteFrom('user_sessions').where('user_id', '=', arg('user')),
)
const deletePasskeys = statement<OfUser>('sign-in-store.deletePasskeys')((db, arg) =>
  db.deleteFrom('user_passkeys').where('userId', '=', arg('user')),
)
const listPasskeys = statement<OfUser>('sign-in-store.listPasskeys')((db, arg) =>
  db
    .selectFrom('user_passkeys')
    .select(['id', 'name', 'createdAt'])
    .where('userId', '=', arg('user'))
    .orderBy('createdAt', 'desc')
    .orderBy('id'),
)
const deletePasskey = statement<OfUser & { id: string }>('sign-in-store.deletePasskey')((db, arg) =>
  db.deleteFrom('user_passkeys').where('userId', '=', arg('user')).where('id', '=', arg('id')),
)
const listGrants = statement<OfUser & { limit: number }>('sign-in-store.listGrants')((db, arg) =>
  db
    .selectFrom('oauth_consents')
    .innerJoin('oauth_clients', 'oauth_clients.clientId', 'oauth_consents.clientId')
    .select(['oauth_consents.id', 'oauth_consents.createdAt', 'oauth_clients.name'])
    .where('oauth_consents.userId', '=', arg('user'))
    .orderBy('oauth_consents.createdAt', 'desc')
    .limit(arg('limit')),
)
const findGrant = statement<OfUser & { id: string }>('sign-in-store.findGrant')((db, arg) =>
  db.selectFrom('oauth_consents').select('clientId').where('userId', '=', arg('user')).where('id', '=', arg('id')),
)
const deleteGrant = (['oauth_access_tokens', 'oauth_refresh_tokens', 'oauth_consents'] as const).map((table) => ({
  ofClient: statement<OfUser & { client: string }>(`sign-in-store.deleteGrant.${table}`)((db, arg) =>
    db.deleteFrom(table).where('userId', '=', arg('user')).where('clientId', '=', arg('client')),
  ),
  ofUser: statement<OfUser>(`sign-in-store.deleteGrants.${table}`)((db, arg) =>
    db.deleteFrom(table).where('userId', '=', arg('user')),
  ),
}))
/** Codes that are not redeemed yet, as better-auth stores them: JSON with the user and the request. */
const deleteCodes = statement<OfUser & { client: string }>('sign-in-store.deleteCodes')((db, arg) =>
  db.deleteFrom('user_verifications').where('value', 'like', arg('user')).where('value', 'like', arg('client')),
)
/** Terminals that were allowed and have not fetched their token yet. */
const deleteDevices = statement<OfUser>('sign-in-store.deleteDevices')((db, arg) =>
  db.deleteFrom('device_authorizations').where('user_id', '=', arg('user')),
)
const deleteDevicesOf = statement<OfUser & { client: string }>('sign-in-store.deleteDevicesOf')((db, arg) =>
  db.deleteFrom('device_authorizations').where('user_id', '=', arg('user')).where('client_id', '=', arg('client')),
)
const findAccessToken = statement<{ hash: string }>('sign-in-store.findAccessToken')((db, arg) =>
  db
    .selectFrom('oauth_access_tokens')
    .select(['id', 'clientId', 'userId', 'referenceId', 'resources', 'scopes', 'expiresAt'])
    .where('token', '=', arg('hash'))
    .where('revoked', 'is', null),
)
const countClients = statement<object>('sign-in-store.countClients')((db) =>
  db.selectFrom('oauth_clients').select((expression) => expression.fn.countAll<number>().as('count')),
)
const deleteUnusedClients = statement<{ limit: number }>('sign-in-store.deleteUnusedClients')((db, arg) =>
  db.deleteFrom('oauth_clients').where('clientId', 'in', (expression) =>
    expression
      .selectFrom('oauth_clients as unused')
      .select('unused.clientId')
      .where('unused.clientId', 'not in', (inner) => inner.selectFrom('oauth_consents').select('clientId'))
      // Programs without a person need nobody's consent.
      .where('unused.clientId', 'not in', (inner) => inner.selectFrom('service_clients').select('id'))
      .orderBy('unused.createdAt')
      .limit(arg('limit')),
  ),
)
const findResource = statement<{ identifier: string }>('sign-in-store.findResource')((db, arg) =>
  db.selectFrom('oauth_resources').select('id').where('identifier', '=', arg('identifier')),
)
const countResources = statement<object>('sign-in-store.countResources')((db) =>
  db.selectFrom('oauth_resources').select((expression) => expression.fn.countAll<number>().as('count')),
)
const deleteOldestResource = statement<object>('sign-in-store.deleteOldestResource')((db) =>
  db
    .deleteFrom('oauth_resources')
    .where('id', 'in', (expression) =>
      expression
        .selectFrom('oauth_resources as oldest')
        .select('oldest.id')
        .orderBy('oldest.createdAt')
        .orderBy('oldest.id')
        .limit(1),
    ),
)
const insertResource = statement<{ id: string; identifier: string; at: string }>('sign-in-store.insertResource')(
  (db, arg) =>
    db
      .insertInto('oauth_resources')
      .values({
        id: arg('id'),
        identifier: arg('identifier'),
        name: arg('identifier'),
        disabled: 0,
        createdAt: arg('at'),
        updatedAt: arg('at'),
      })
      .onConflict((conflict) => conflict.column('identifier').doNothing()),
)
const insertAttempt = statement<AttemptRow>('sign-in-store.insertAttempt')((db, _arg, { columns }) =>
  db
    .insertInto('sign_in_attempts')
    .values(columns(['at', 'email', 'address', 'outcome', 'tenant', 'user_id', 'network'])),
)
const pruneAttempts = statement<{ retained: number }>('sign-in-store.pruneAttempts')((db, arg) =>
  db
    .deleteFrom('sign_in_attempts')
    .where('row_id', '<=', (expression) =>
      expression
        .selectFrom('sign_in_attempts as newest')
        .select((inner) => inner(inner.fn.max('newest.row_id'), '-', arg('retained')).as('bound')),
    ),
)
const attemptsOf = statement<{ email: string; since: number; limit: number }>('sign-in-store.attemptsOf')((db, arg) =>
  db
    .selectFrom('sign_in_attempts')
    .select(['at', 'email', 'address', 'outcome', 'tenant', 'user_id'])
    .where('email', '=', arg('email'))
    .where('at', '>', arg('since'))
    .where('outcome', 'in', ['signed_in', 'refused'])
    .orderBy('at', 'desc')
    .orderBy('row_id', 'desc')
    .limit(arg('limit')),
)
const codeFailuresOf = statement<{ email: string; since: number; limit: number }>('sign-in-store.codeFailuresOf')(
  (db, arg) =>
    db
      .selectFrom('sign_in_attempts')
      .select(['at', 'email', 'address', 'outcome', 'tenant', 'user_id'])
      .where('email', '=', arg('email'))
      .where('at', '>', arg('since'))
      .where('outcome', '=', 'code_refused')
      .orderBy('at', 'desc')
      .orderBy('row_id', 'desc')
      .limit(arg('limit')),
)
const countRefusedFrom = statement<{ network: string; since: number; outcome: string }>(
  'sign-in-store.countRefusedFrom',
)((db, arg) =>
  db
    .selectFrom('sign_in_attempts')
    .select((expression) => expression.fn.countAll<number>().as('count'))
    .where('network', '=', arg('network'))
    .where('at', '>', arg('since'))
    .where('outcome', '=', arg('outcome')),
)

const ATTEMPTS_LOOKED_AT = 100

export const sqlSignInStore: Access = {
  async setPassword(tx, { id, userId, hash, atMs }) {
    const session = sharedWriterOf(tx)
    await session.run(deletePassword, { user: userId })
    await session.run(insertPassword, { id, user: userId, hash, at: isoTime(atMs) })
  },
  async listSessions(tx, userId, nowMs) {
    const limit = limits.userSessionsPerUserMax
    const rows = await sessionOf(tx).all(listSessions, { user: userId, now: isoTime(nowMs), limit })
    return rows.map((row) => toSession(row)!)
  },
  async listGrants(tx, userId) {
    const rows = await sessionOf(tx).all(listGrants, { user: userId, limit: limits.userSessionsPerUserMax })
    return rows.map(({ id, createdAt, name }) => ({
      id,
      userId,
      clientName: name ?? '',
      createdAtMs: Date.parse(createdAt),
    }))
  },
  async deleteSession(tx, userId, id) {
    return (await sharedWriterOf(tx).run(deleteSession, { user: userId, id })) > 0
  },
  async deleteGrant(tx, userId, id) {
    const session = sharedWriterOf(tx)
    const found = await session.get(findGrant, { user: userId, id })
    if (found === undefined) return false
    for (const { ofClient } of deleteGrant) await session.run(ofClient, { user: userId, client: found.clientId })
    await session.run(deleteCodes, codesOf(userId, found.clientId))
    await session.run(deleteDevicesOf, { user: userId, client: found.clientId })
    return true
  },
  async listUsersWithSignIn(tx, tenant) {
    return (await sessionOf(tx).all(listUsersWithSignIn, { tenant })).map(({ id }) => id)
  },
  async listPasskeys(tx, userId) {
    const rows = await sessionOf(tx).all(listPasskeys, { user: userId })
    return rows.map(({ id, name, createdAt }) => ({
      id,
      name: name || 'Passkey',
      createdAtMs: createdAt === null ? 0 : Date.parse(createdAt),
    }))
  },
  async deletePasskey(tx, userId, id) {
    return (await sharedWriterOf(tx).run(deletePasskey, { user: userId, id })) > 0
  },
  async deleteAllSessions(tx, userId) {
    const session = sharedWriterOf(tx)
    await session.run(deleteSessions, { user: userId })
    await session.run(deletePasskeys, { user: userId })
    for (const { ofUser } of deleteGrant) await session.run(ofUser, { user: userId })
    await session.run(deleteCodes, codesOf(userId))
    await session.run(deleteDevices, { user: userId })
  },
  async findSessionByToken(tx, token) {
    return toSession(await sessionOf(tx).get(findSessionByToken, { token }))
  },
  async findAccessToken(tx, tokenHash) {
    const row = await sessionOf(tx).get(findAccessToken, { hash: tokenHash })
    if (row === undefined) return undefined
    const found: AccessToken = {
      id: row.id,
      clientId: row.clientId,
      userId: row.userId,
      reference: row.referenceId,
      resources: row.resources === null ? [] : (JSON.parse(row.resources) as string[]),
      scopes: JSON.parse(row.scopes) as string[],
      expiresAtMs: Date.parse(row.expiresAt),
    }
    return found
  },
  async countClients(tx) {
    return (await sessionOf(tx).get(countClients, {}))?.count ?? 0
  },
  async deleteUnusedClients(tx, limit) {
    return (await sharedWriterOf(tx).run(deleteUnusedClients, { limit })) > 0
  },
  async hasResource(tx, identifier) {
    return (await sessionOf(tx).get(findResource, { identifier })) !== undefined
  },
  async insertResource(tx, { id, identifier, atMs }) {
    const session = sharedWriterOf(tx)
    if (((await session.get(countResources, {}))?.count ?? 0) >= limits.oauthResourcesMax) {
      await session.run(deleteOldestResource, {})
    }
    await session.run(insertResource, { id, identifier, at: isoTime(atMs) })
  },
  async insertAttempt(tx, { atMs, email, address, outcome, tenant, userId }) {
    const session = sharedWriterOf(tx)
    const network = networkOf(address)
    await session.run(insertAttempt, { at: atMs, email, address, network, outcome, tenant, user_id: userId })
    await session.run(pruneAttempts, { retained: limits.signInAttemptsRetained })
  },
  async attemptsOf(tx, email, sinceMs) {
    const rows = await sessionOf(tx).all(attemptsOf, { email, since: sinceMs, limit: ATTEMPTS_LOOKED_AT })
    return rows.map(toAttempt)
  },
  async codeFailuresOf(tx, email, sinceMs) {
    const rows = await sessionOf(tx).all(codeFailuresOf, { email, since: sinceMs, limit: ATTEMPTS_LOOKED_AT })
    return rows.map(toAttempt)
  },
  async countRefusedFrom(tx, address, sinceMs, outcome = 'refused') {
    const counted = { network: networkOf(address), since: sinceMs, outcome }
    return (await sessionOf(tx).get(countRefusedFrom, counted))?.count ?? 0
  },
}

/** A part of a user's codes; ids are random, so it cannot match another user's. */
const codesOf = (userId: string, clientId?: string) => ({
  user: `%"userId":${JSON.stringify(userId)}%`,
  client: clientId === undefined ? '%"authorization_code"%' : `%"client_id":${JSON.stringify(clientId)}%`,
})

function toSession(row: SessionRow | undefined): UserSession | undefined {
  if (row === undefined) return undefined
  return {
    id: row.id,
    userId: row.user_id,
    createdAtMs: Date.parse(row.created_at),
    expiresAtMs: Date.parse(row.expires_at),
    address: row.ip_address,
    userAgent: row.user_agent,
  }
}

export const toAttempt = (row: Omit<AttemptRow, 'network'>): SignInAttempt => ({
  atMs: row.at,
  email: row.email,
  address: row.address,
  outcome: row.outcome as SignInOutcome,
  tenant: row.tenant === null ? null : tenantId(row.tenant),
  userId: row.user_id,
})
