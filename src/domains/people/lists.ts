import { limits } from '../../contract/limits.ts'
import {
  byName,
  type ListedPage,
  lastWrittenFirst,
  listPage,
  newestFirst,
  type PageInput,
} from '../../contract/list-page.ts'
import type { PeopleLists, PeopleStore, ServiceClient, SignInOutcome, User, UserTeam } from './ports.ts'
import { type InvitationStatus, peopleTenant } from './rules.ts'
import type { InTenant, PeopleReading } from './service.ts'
import { clientView, type ServiceClientView } from './service-clients.ts'
import {
  type AttemptView,
  attemptView,
  type InvitationView,
  invitationView,
  type ListedUserView,
  type TeamView,
  teamView,
  userView,
} from './views.ts'

type Requested = InTenant & PageInput
type Named = Requested & Readonly<{ name?: string | undefined }>
type OfEmail = Requested & Readonly<{ email?: string | undefined }>

/** The lists of an organisation, in pages. */
export type PeopleListMethods = Readonly<{
  listUsers(
    call: PeopleReading,
    input: Named & Readonly<{ role?: string | undefined }>,
  ): Promise<ListedPage & Readonly<{ users: readonly ListedUserView[] }>>
  listTeams(call: PeopleReading, input: Named): Promise<ListedPage & Readonly<{ teams: readonly TeamView[] }>>
  listClients(
    call: PeopleReading,
    input: Named,
  ): Promise<ListedPage & Readonly<{ clients: readonly ServiceClientView[] }>>
  listInvitations(
    call: PeopleReading,
    input: OfEmail & Readonly<{ status?: InvitationStatus | undefined }>,
  ): Promise<ListedPage & Readonly<{ invitations: readonly InvitationView[] }>>
  listAttempts(
    call: PeopleReading,
    input: OfEmail & Readonly<{ outcome?: SignInOutcome | undefined }>,
  ): Promise<ListedPage & Readonly<{ attempts: readonly AttemptView[] }>>
}>

export function createPeopleLists({
  store,
  lists,
}: Readonly<{ store: PeopleStore; lists: PeopleLists }>): PeopleListMethods {
  return {
    async listUsers({ principal, read }, input) {
      const tenant = peopleTenant(principal, input.tenant)
      const found = lists.users(read, tenant, { text: input.name, role: input.role })
      const { rows, page } = await listPage(
        input,
        byName<User>(({ email }) => email),
        found,
      )
      const members = Map.groupBy(await store.listMembers(read, tenant), ({ userId }) => userId)
      const known = await store.listTeams(read, tenant, limits.userTeamsPerTenantMax)
      const names = new Map(known.map(({ id, name }) => [id, name]))
      const withSignIn = new Set(await store.listUsersWithSignIn(read, tenant))
      const users = rows.map((user) => {
        const ids = (members.get(user.id) ?? []).map(({ teamId }) => teamId)
        const team_names = ids.map((id) => names.get(id) ?? id)
        return { ...userView(user, ids), team_names, can_sign_in: withSignIn.has(user.id) }
      })
      return { users, ...page }
    },

    async listTeams({ principal, read }, input) {
      const tenant = peopleTenant(principal, input.tenant)
      const { rows, page } = await listPage(
        input,
        byName<UserTeam>(({ name }) => name),
        lists.teams(read, tenant, { text: input.name }),
      )
      const members = Map.groupBy(await store.listMembers(read, tenant), ({ teamId }) => teamId)
      const people = await store.listUsers(read, tenant, limits.usersPerTenantMax)
      const emails = new Map(people.map(({ id, email }) => [id, email]))
      const teams = rows.map((team) => {
        const ids = (members.get(team.id) ?? []).map(({ userId }) => userId)
        return teamView(
          team,
          ids.flatMap((id) => (emails.has(id) ? [{ id, email: emails.get(id)! }] : [])),
        )
      })
      return { teams, ...page }
    },

    async listClients({ principal, read }, input) {
      const tenant = peopleTenant(principal, input.tenant)
      const { rows, page } = await listPage(
        input,
        byName<ServiceClient>(({ name }) => name),
        lists.clients(read, tenant, { text: input.name }),
      )
      return { clients: rows.map(clientView), ...page }
    },

    async listInvitations({ principal, read, nowMs }, input) {
      const tenant = peopleTenant(principal, input.tenant)
      const filter = { text: input.email, status: input.status }
      const { rows, page } = await listPage(input, newestFirst, lists.invitations(read, tenant, filter, nowMs))
      return { invitations: rows.map((invitation) => invitationView(invitation, nowMs)), ...page }
    },

    async listAttempts({ principal, read }, input) {
      const tenant = peopleTenant(principal, input.tenant)
      const filter = { text: input.email, outcome: input.outcome }
      const { rows, page } = await listPage(input, lastWrittenFirst, lists.attempts(read, tenant, filter))
      return { attempts: rows.map(attemptView), ...page }
    },
  }
}
