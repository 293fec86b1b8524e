import type { Selectable } from 'kysely'
import { type Tier, tenantId, userIdentity } from '../../contract/principal.ts'
import type { Invitation, PeopleStore, User, UserTeam } from '../../domains/people/ports.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { InvitationTable, UserTable, UserTeamTable } from './people-schema.ts'
import { endingProviderKeys } from './provider-key-store.ts'
import { sharedTeams } from './sharing.ts'
import { sqlSignInStore } from './sign-in-store.ts'
import { statement } from './statements.ts'
import { sessionOf, sharedWriterOf } from './tx.ts'

type UserRow = Omit<Selectable<UserTable>, 'sign_outs'>
type TeamRow = Selectable<UserTeamTable>
type InvitationRow = Selectable<InvitationTable>
type Of = { tenant: string; id: string }
type Listed = { tenant: string; limit: number }
type Member = { tenant: string; team_id: string; user_id: string }

const insertUser = statement<UserRow>('people-store.insertUser')((db, _arg, { columns }) =>
  db
    .insertInto('users')
    .values(
      columns([
        'id',
        'tenant',
        'name',
        'email',
        'email_verified',
        'image',
        'role',
        'tier',
        'created_by',
        'created_at',
        'updated_at',
      ]),
    ),
)
const updateUser = statement<Of & { name: string; role: string; tier: string; at: string }>('people-store.updateUser')(
  (db, arg) =>
    db
      .updateTable('users')
      .set({ name: arg('name'), role: arg('role'), tier: arg('tier'), updated_at: arg('at') })
      .where('tenant', '=', arg('tenant'))
      .where('id', '=', arg('id')),
)
const deleteUser = statement<Of>('people-store.deleteUser')((db, arg) =>
  db.deleteFrom('users').where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const countSignOut = statement<Of>('people-store.countSignOut')((db, arg) =>
  db
    .updateTable('users')
    .set((row) => ({ sign_outs: row('sign_outs', '+', 1) }))
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id')),
)
const signOutsOf = statement<Of>('people-store.signOutsOf')((db, arg) =>
  db.selectFrom('users').select('sign_outs').where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const findUser = statement<Of>('people-store.findUser')((db, arg) =>
  db.selectFrom('users').selectAll().where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const findUserById = statement<{ id: string }>('people-store.findUserById')((db, arg) =>
  db.selectFrom('users').selectAll().where('id', '=', arg('id')),
)
const findUserByEmail = statement<{ email: string }>('people-store.findUserByEmail')((db, arg) =>
  db.selectFrom('users').selectAll().where('email', '=', arg('email')),
)
const listUsers = statement<Listed>('people-store.listUsers')((db, arg) =>
  db.selectFrom('users').selectAll().where('tenant', '=', arg('tenant')).orderBy('email').limit(arg('limit')),
)
const countUsers = statement<object>('people-store.countUsers')((db) =>
  db.selectFrom('users').select((expression) => expression.fn.countAll<number>().as('count')),
)
const countUsersOfRole = statement<{ tenant: string; role: string }>('people-store.countUsersOfRole')((db, arg) =>
  db
    .selectFrom('users')
    .select((expression) => expression.fn.countAll<number>().as('count'))
    .where('tenant', '=', arg('tenant'))
    .where('role', '=', arg('role')),
)
const countInvitationsOfRole = statement<{ tenant: string; role: string; now: number }>(
  'people-store.countInvitationsOfRole',
)((db, arg) =>
  db
    .selectFrom('invitations')
    .select((expression) => expression.fn.countAll<number>().as('count'))
    .where('tenant', '=', arg('tenant'))
    .where('role', '=', arg('role'))
    .where('user_id', 'is', null)
    .where('accepted_at', 'is', null)
    .where('cancelled_at', 'is', null)
    .where('expires_at', '>', arg('now')),
)

const insertTeam = statement<TeamRow>('people-store.insertTeam')((db, _arg, { columns }) =>
  db.insertInto('user_teams').values(columns(['tenant', 'id', 'name', 'description', 'created_at', 'created_by'])),
)
const updateTeam = statement<Of & { name: string; description: string }>('people-store.updateTeam')((db, arg) =>
  db
    .updateTable('user_teams')
    .set({ name: arg('name'), description: arg('description') })
    .where('tenant', '=', arg('tenant'))
    .where('id', '=', arg('id')),
)
const deleteTeam = statement<Of>('people-store.deleteTeam')((db, arg) =>
  db.deleteFrom('user_teams').where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const findTeam = statement<{ tenant: string; named: string }>('people-store.findTeam')((db, arg) =>
  db
    .selectFrom('user_teams')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where((expression) => expression.or([expression('id', '=', arg('named')), expression('name', '=', arg('named'))])),
)
const listTeams = statement<Listed>('people-store.listTeams')((db, arg) =>
  db.selectFrom('user_teams').selectAll().where('tenant', '=', arg('tenant')).orderBy('name').limit(arg('limit')),
)
const addMember = statement<Member>('people-store.addMember')((db, arg) =>
  db
    .insertInto('user_team_members')
    .values({ tenant: arg('tenant'), team_id: arg('team_id'), user_id: arg('user_id') })
    .onConflict((conflict) => conflict.columns(['tenant', 'team_id', 'user_id']).doNothing()),
)
const removeMember = statement<Member>('people-store.removeMember')((db, arg) =>
  db
    .deleteFrom('user_team_members')
    .where('tenant', '=', arg('tenant'))
    .where('team_id', '=', arg('team_id'))
    .where('user_id', '=', arg('user_id')),
)
const listMembers = statement<{ tenant: string }>('people-store.listMembers')((db, arg) =>
  db
    .selectFrom('user_team_members')
    .select(['team_id', 'user_id'])
    .where('tenant', '=', arg('tenant'))
    .orderBy('team_id')
    .orderBy('user_id'),
)
const teamsOf = statement<{ user_id: string }>('people-store.teamsOf')((db, arg) =>
  db.selectFrom('user_team_members').select('team_id').where('user_id', '=', arg('user_id')).orderBy('team_id'),
)

const insertInvitation = statement<InvitationRow>('people-store.insertInvitation')((db, _arg, { columns }) =>
  db
    .insertInto('invitations')
    .values(
      columns([
        'tenant',
        'id',
        'token_hash',
        'email',
        'role',
        'tier',
        'teams',
        'user_id',
        'created_at',
        'created_by',
        'expires_at',
        'accepted_at',
        'cancelled_at',
      ]),
    ),
)
const findInvitation = statement<Of>('people-store.findInvitation')((db, arg) =>
  db.selectFrom('invitations').selectAll().where('tenant', '=', arg('tenant')).where('id', '=', arg('id')),
)
const findInvitationByHash = statement<{ hash: string }>('people-store.findInvitationByHash')((db, arg) =>
  db.selectFrom('invitations').selectAll().where('token_hash', '=', arg('hash')),
)
const findOpenInvitation = statement<{ tenant: string; email: string; now: number }>('people-store.findOpenInvitation')(
  (db, arg) =>
    db
      .selectFrom('invitations')
      .selectAll()
      .where('tenant', '=', arg('tenant'))
      .where('email', '=', arg('email'))
      .where('user_id', 'is', null)
      .where('accepted_at', 'is', null)
      .where('cancelled_at', 'is', null)
      .where('expires_at', '>', arg('now'))
      .orderBy('created_at', 'desc')
      .orderBy('id')
      .limit(1),
)
const openInvitationsBy = (column: 'email' | 'created_by') =>
  statement<{ tenant: string; value: string; now: number }>(`people-store.openInvitations.${column}`)((db, arg) =>
    db
      .selectFrom('invitations')
      .selectAll()
      .where('tenant', '=', arg('tenant'))
      .where(column, '=', arg('value'))
      .where('accepted_at', 'is', null)
      .where('cancelled_at', 'is', null)
      .where('expires_at', '>', arg('now'))
      .orderBy('created_at')
      .orderBy('id'),
  )
const openInvitationsFor = openInvitationsBy('email')
const openInvitationsOf = openInvitationsBy('created_by')
const endInvitation = (column: 'accepted_at' | 'cancelled_at') =>
  statement<Of & { at: number }>(`people-store.endInvitation.${column}`)((db, arg) =>
    db
      .updateTable('invitations')
      .set({ [column]: arg('at') })
      .where('tenant', '=', arg('tenant'))
      .where('id', '=', arg('id'))
      .where('accepted_at', 'is', null)
      .where('cancelled_at', 'is', null),
  )
const acceptInvitation = endInvitation('accepted_at')
const cancelInvitation = endInvitation('cancelled_at')

export const sqlPeopleStore: PeopleStore = {
  ...sqlSignInStore,
  async insertUser(tx, user) {
    const at = isoTime(user.createdAtMs)
    await sharedWriterOf(tx).run(insertUser, {
      id: user.id,
      tenant: user.tenant,
      name: user.name,
      email: user.email,
      email_verified: 1,
      image: null,
      role: user.role,
      tier: user.tier,
      created_by: user.createdBy,
      created_at: at,
      updated_at: at,
    })
  },
  async updateUser(tx, { tenant, id, name, role, tier }, atMs) {
    await sharedWriterOf(tx).run(updateUser, { tenant, id, name, role, tier, at: isoTime(atMs) })
  },
  async deleteUser(tx, tenant, id) {
    await endingProviderKeys.ofUser(tx, tenant, userIdentity(id))
    await sharedWriterOf(tx).run(deleteUser, { tenant, id })
  },
  async countSignOut(tx, tenant, id) {
    await sharedWriterOf(tx).run(countSignOut, { tenant, id })
  },
  async signOutsOf(tx, tenant, id) {
    return (await sessionOf(tx).get(signOutsOf, { tenant, id }))?.sign_outs
  },
  async findUser(tx, tenant, id) {
    return toUser(await sessionOf(tx).get(findUser, { tenant, id }))
  },
  async findUserById(tx, id) {
    return toUser(await sessionOf(tx).get(findUserById, { id }))
  },
  async findUserByEmail(tx, email) {
    return toUser(await sessionOf(tx).get(findUserByEmail, { email }))
  },
  async listUsers(tx, tenant, limit) {
    return (await sessionOf(tx).all(listUsers, { tenant, limit })).map((row) => toUser(row)!)
  },
  async countUsers(tx) {
    return (await sessionOf(tx).get(countUsers, {}))?.count ?? 0
  },
  async countOfRole(tx, tenant, role, now) {
    const session = sessionOf(tx)
    const users = await session.get(countUsersOfRole, { tenant, role })
    const invitations = await session.get(countInvitationsOfRole, { tenant, role, now })
    return { users: users?.count ?? 0, invitations: invitations?.count ?? 0 }
  },

  async insertTeam(tx, team) {
    await sharedWriterOf(tx).run(insertTeam, {
      tenant: team.tenant,
      id: team.id,
      name: team.name,
      description: team.description,
      created_at: team.createdAtMs,
      created_by: team.createdBy,
    })
  },
  async updateTeam(tx, { tenant, id, name, description }) {
    await sharedWriterOf(tx).run(updateTeam, { tenant, id, name, description })
  },
  async deleteTeam(tx, tenant, id) {
    await sharedTeams.forgetTeam(tx, tenant, id)
    await endingProviderKeys.ofNoTeam(tx, tenant)
    await sharedWriterOf(tx).run(deleteTeam, { tenant, id })
  },
  async findTeam(tx, tenant, named) {
    return toTeam(await sessionOf(tx).get(findTeam, { tenant, named }))
  },
  async listTeams(tx, tenant, limit) {
    return (await sessionOf(tx).all(listTeams, { tenant, limit })).map((row) => toTeam(row)!)
  },
  async addMember(tx, tenant, team_id, user_id) {
    await sharedWriterOf(tx).run(addMember, { tenant, team_id, user_id })
  },
  async removeMember(tx, tenant, team_id, user_id) {
    await sharedWriterOf(tx).run(removeMember, { tenant, team_id, user_id })
  },
  async listMembers(tx, tenant) {
    const rows = await sessionOf(tx).all(listMembers, { tenant })
    return rows.map(({ team_id, user_id }) => ({ teamId: team_id, userId: user_id }))
  },
  async teamsOf(tx, user_id) {
    return (await sessionOf(tx).all(teamsOf, { user_id })).map(({ team_id }) => team_id)
  },

  async insertInvitation(tx, invitation) {
    await sharedWriterOf(tx).run(insertInvitation, {
      tenant: invitation.tenant,
      id: invitation.id,
      token_hash: invitation.tokenHash,
      email: invitation.email,
      role: invitation.role,
      tier: invitation.tier,
      teams: JSON.stringify(invitation.teams),
      user_id: invitation.userId,
      created_at: invitation.createdAtMs,
      created_by: invitation.createdBy,
      expires_at: invitation.expiresAtMs,
      accepted_at: invitation.acceptedAtMs,
      cancelled_at: invitation.cancelledAtMs,
    })
  },
  async findInvitation(tx, tenant, id) {
    return toInvitation(await sessionOf(tx).get(findInvitation, { tenant, id }))
  },
  async findInvitationByHash(tx, hash) {
    return toInvitation(await sessionOf(tx).get(findInvitationByHash, { hash }))
  },
  async findOpenInvitation(tx, tenant, email, now) {
    return toInvitation(await sessionOf(tx).get(findOpenInvitation, { tenant, email, now }))
  },
  async listOpenInvitations(tx, tenant, email, now) {
    return (await sessionOf(tx).all(openInvitationsFor, { tenant, value: email, now })).map((row) => toInvitation(row)!)
  },
  async listOpenInvitationsBy(tx, tenant, by, now) {
    return (await sessionOf(tx).all(openInvitationsOf, { tenant, value: by, now })).map((row) => toInvitation(row)!)
  },
  async acceptInvitation(tx, tenant, id, atMs) {
    return (await sharedWriterOf(tx).run(acceptInvitation, { tenant, id, at: atMs })) > 0
  },
  async cancelInvitation(tx, tenant, id, atMs) {
    return (await sharedWriterOf(tx).run(cancelInvitation, { tenant, id, at: atMs })) > 0
  },
}

export function toUser(row: UserRow | undefined): User | undefined {
  if (row === undefined) return undefined
  return {
    tenant: tenantId(row.tenant),
    id: row.id,
    email: row.email,
    name: row.name,
    role: row.role,
    tier: row.tier as Tier,
    createdBy: row.created_by,
    createdAtMs: Date.parse(row.created_at),
  }
}

export function toTeam(row: TeamRow | undefined): UserTeam | undefined {
  if (row === undefined) return undefined
  return {
    tenant: tenantId(row.tenant),
    id: row.id,
    name: row.name,
    description: row.description,
    createdBy: row.created_by,
    createdAtMs: row.created_at,
  }
}

export function toInvitation(row: InvitationRow | undefined): Invitation | undefined {
  if (row === undefined) return undefined
  return {
    tenant: tenantId(row.tenant),
    id: row.id,
    tokenHash: row.token_hash,
    email: row.email,
    role: row.role,
    tier: row.tier as Tier,
    teams: JSON.parse(row.teams) as string[],
    userId: row.user_id,
    createdBy: row.created_by,
    createdAtMs: row.created_at,
    expiresAtMs: row.expires_at,
    acceptedAtMs: row.accepted_at,
    cancelledAtMs: row.cancelled_at,
  }
}
