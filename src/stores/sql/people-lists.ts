import type { PeopleLists } from '../../domains/people/ports.ts'
import { hasText, isAfterNewest, isValue, type NewestArgs, newestArgs } from './pages.ts'
import { toInvitation, toTeam, toUser } from './people-store.ts'
import { toClient } from './service-client-store.ts'
import { toAttempt } from './sign-in-store.ts'
import { statement } from './statements.ts'
import { sessionOf } from './tx.ts'

type Part<Filter, After> = { tenant: string } & Filter & After & { limit: number }
type ByName = { after: string }
type Named = { text: string }

type UserFilter = { text: string; role: string }
const USER_TEXTS = ['email', 'name']
const listUsers = statement<Part<UserFilter, ByName>>('people-lists.users')((db, arg, kit) =>
  db
    .selectFrom('users')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('email', '>', arg('after'))
    .where(hasText(arg('text'), USER_TEXTS, kit))
    .where(isValue(arg('role'), 'role', kit))
    .orderBy('email')
    .limit(arg('limit')),
)
const countUsers = statement<{ tenant: string } & UserFilter>('people-lists.countUsers')((db, arg, kit) =>
  db
    .selectFrom('users')
    .select((expression) => expression.fn.countAll<number>().as('count'))
    .where('tenant', '=', arg('tenant'))
    .where(hasText(arg('text'), USER_TEXTS, kit))
    .where(isValue(arg('role'), 'role', kit)),
)

const listTeams = statement<Part<Named, ByName>>('people-lists.teams')((db, arg, kit) =>
  db
    .selectFrom('user_teams')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('name', '>', arg('after'))
    .where(hasText(arg('text'), ['name'], kit))
    .orderBy('name')
    .limit(arg('limit')),
)
const countTeams = statement<{ tenant: string } & Named>('people-lists.countTeams')((db, arg, kit) =>
  db
    .selectFrom('user_teams')
    .select((expression) => expression.fn.countAll<number>().as('count'))
    .where('tenant', '=', arg('tenant'))
    .where(hasText(arg('text'), ['name'], kit)),
)

const listClients = statement<Part<Named, ByName>>('people-lists.clients')((db, arg, kit) =>
  db
    .selectFrom('service_clients')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('name', '>', arg('after'))
    .where(hasText(arg('text'), ['name'], kit))
    .orderBy('name')
    .limit(arg('limit')),
)
const countClients = statement<{ tenant: string } & Named>('people-lists.countClients')((db, arg, kit) =>
  db
    .selectFrom('service_clients')
    .select((expression) => expression.fn.countAll<number>().as('count'))
    .where('tenant', '=', arg('tenant'))
    .where(hasText(arg('text'), ['name'], kit)),
)

type InvitationFilter = { text: string; status: string; now: number }
type Arguments<Args> = <Name extends keyof Args & string>(name: Name) => Args[Name]
/** The same rule as `invitationStatus`. */
const hasStatus = (
  arg: Arguments<Pick<InvitationFilter, 'status' | 'now'>>,
  { dialect, sql }: Parameters<typeof hasText>[2],
) => {
  const status = dialect === 'postgres' ? sql`${arg('status')}::text` : sql`${arg('status')}`
  return sql<boolean>`(${status} = '' or ${status} = case
    when accepted_at is not null then 'accepted'
    when cancelled_at is not null then 'cancelled'
    when expires_at <= ${arg('now')} then 'expired'
    else 'open' end)`
}
const listInvitations = statement<Part<InvitationFilter, NewestArgs>>('people-lists.invitations')((db, arg, kit) =>
  db
    .selectFrom('invitations')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where(isAfterNewest(arg, kit))
    .where(hasText(arg('text'), ['email'], kit))
    .where(hasStatus(arg, kit))
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .limit(arg('limit')),
)
const countInvitations = statement<{ tenant: string } & InvitationFilter>('people-lists.countInvitations')(
  (db, arg, kit) =>
    db
      .selectFrom('invitations')
      .select((expression) => expression.fn.countAll<number>().as('count'))
      .where('tenant', '=', arg('tenant'))
      .where(hasText(arg('text'), ['email'], kit))
      .where(hasStatus(arg, kit)),
)

type AttemptFilter = { text: string; outcome: string }
const listAttempts = statement<Part<AttemptFilter, { before: number }>>('people-lists.attempts')((db, arg, kit) =>
  db
    .selectFrom('sign_in_attempts')
    .select(['row_id', 'at', 'email', 'address', 'outcome', 'tenant', 'user_id'])
    .where('tenant', '=', arg('tenant'))
    .where('row_id', '<', arg('before'))
    .where(hasText(arg('text'), ['email'], kit))
    .where(isValue(arg('outcome'), 'outcome', kit))
    .orderBy('row_id', 'desc')
    .limit(arg('limit')),
)
const countAttempts = statement<{ tenant: string } & AttemptFilter>('people-lists.countAttempts')((db, arg, kit) =>
  db
    .selectFrom('sign_in_attempts')
    .select((expression) => expression.fn.countAll<number>().as('count'))
    .where('tenant', '=', arg('tenant'))
    .where(hasText(arg('text'), ['email'], kit))
    .where(isValue(arg('outcome'), 'outcome', kit)),
)

export const sqlPeopleLists: PeopleLists = {
  users(tx, tenant, { text = '', role = '' }) {
    const filter = { tenant, text, role }
    return {
      rows: async (after, limit) =>
        (await sessionOf(tx).all(listUsers, { ...filter, after, limit })).map((row) => toUser(row)!),
      count: async () => (await sessionOf(tx).get(countUsers, filter))?.count ?? 0,
    }
  },
  teams(tx, tenant, { text = '' }) {
    const filter = { tenant, text }
    return {
      rows: async (after, limit) =>
        (await sessionOf(tx).all(listTeams, { ...filter, after, limit })).map((row) => toTeam(row)!),
      count: async () => (await sessionOf(tx).get(countTeams, filter))?.count ?? 0,
    }
  },
  clients(tx, tenant, { text = '' }) {
    const filter = { tenant, text }
    return {
      rows: async (after, limit) => (await sessionOf(tx).all(listClients, { ...filter, after, limit })).map(toClient),
      count: async () => (await sessionOf(tx).get(countClients, filter))?.count ?? 0,
    }
  },
  invitations(tx, tenant, { text = '', status = '' }, nowMs) {
    const filter = { tenant, text, status, now: nowMs }
    return {
      rows: async (after, limit) =>
        (await sessionOf(tx).all(listInvitations, { ...filter, ...newestArgs(after), limit })).map(
          (row) => toInvitation(row)!,
        ),
      count: async () => (await sessionOf(tx).get(countInvitations, filter))?.count ?? 0,
    }
  },
  attempts(tx, tenant, { text = '', outcome = '' }) {
    const filter = { tenant, text, outcome }
    return {
      rows: async (before, limit) =>
        (await sessionOf(tx).all(listAttempts, { ...filter, before, limit })).map(({ row_id, ...row }) => ({
          ...toAttempt(row),
          row: row_id,
        })),
      count: async () => (await sessionOf(tx).get(countAttempts, filter))?.count ?? 0,
    }
  },
}
