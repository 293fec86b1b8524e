import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { isPermitted } from '../../contract/permissions.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { randomId } from '../../kernel/random.ts'
import type { OpenLinks } from './open-links.ts'
import type { User, UserTeam } from './ports.ts'
import { peopleTenant, tenantTaken } from './rules.ts'
import type { PeopleDeps, PeopleReading, PeopleWriting } from './service.ts'
import { signOut } from './sign-out.ts'
import { type TeamView, teamView } from './views.ts'

type InTenant = Readonly<{ tenant?: string | undefined }>

/** Teams of people, for sharing. A team is named by its id or its name. */
export type TeamMethods = Readonly<{
  createTeam(
    call: PeopleWriting,
    input: InTenant &
      Readonly<{ name: string; description?: string | undefined; members?: readonly string[] | undefined }>,
  ): Promise<TeamView>
  updateTeam(
    call: PeopleWriting,
    input: InTenant &
      Readonly<{
        team: string
        name?: string | undefined
        description?: string | undefined
        add?: readonly string[] | undefined
        remove?: readonly string[] | undefined
      }>,
  ): Promise<TeamView>
  deleteTeam(call: PeopleWriting, input: InTenant & Readonly<{ team: string }>): Promise<TeamView>
}>

type TeamHelpers = Readonly<{
  /** Teams that the caller may add a person to: any, with the permission to change teams; else its own. */
  idsToJoin(call: PeopleReading, tenant: TenantId, named: readonly string[]): Promise<string[]>
}>

export function createTeamMethods(deps: PeopleDeps, links: Pick<OpenLinks, 'endFor'>): TeamMethods & TeamHelpers {
  const { store, random } = deps
  async function requireTeam(read: ReadTx, tenant: TenantId, named: string): Promise<UserTeam> {
    const found = await store.findTeam(read, tenant, named)
    if (found !== undefined) return found
    const message =
      'team: there is no team of people with this id or name; list them with castellan teams list (user_team_list)'
    throw new AppError('ERR_NOT_FOUND', message, { team: named.slice(0, 128) })
  }

  async function requireNewName(read: ReadTx, tenant: TenantId, name: string): Promise<string> {
    if ((await store.findTeam(read, tenant, name)) === undefined) return name
    throw new AppError('ERR_ALREADY_EXISTS', 'name: another team of people already has this name; choose another', {
      name,
    })
  }

  async function usersNamed(read: ReadTx, tenant: TenantId, named: readonly string[]): Promise<User[]> {
    const users: User[] = []
    for (const entry of named) {
      const user =
        (await store.findUser(read, tenant, entry)) ?? (await store.findUserByEmail(read, entry.toLowerCase()))
      if (user?.tenant !== tenant) {
        const message =
          'members: there is no user with this id or e-mail address; list them with castellan users list (user_list)'
        throw new AppError('ERR_NOT_FOUND', message, { user: entry.slice(0, 128) })
      }
      users.push(user)
    }
    return users
  }

  /** A team is more rights, which the creator of a link for the user may not have been able to give. */
  async function addMembers(call: PeopleWriting, team: UserTeam, users: readonly User[]): Promise<void> {
    const members = await store.listMembers(call.read, team.tenant)
    for (const user of users) {
      if (members.some(({ teamId, userId }) => teamId === team.id && userId === user.id)) continue
      await store.addMember(call.write, team.tenant, team.id, user.id)
      await links.endFor(call, user)
    }
  }

  async function viewOf(read: ReadTx, team: UserTeam): Promise<TeamView> {
    const members = (await store.listMembers(read, team.tenant)).filter(({ teamId }) => teamId === team.id)
    const users = await Promise.all(members.map(({ userId }) => store.findUser(read, team.tenant, userId)))
    return teamView(
      team,
      users.flatMap((user) => (user === undefined ? [] : [{ id: user.id, email: user.email }])),
    )
  }

  return {
    async idsToJoin({ principal, read }, tenant, named) {
      const ids = new Set<string>()
      for (const entry of named) ids.add((await requireTeam(read, tenant, entry)).id)
      const isOwn = (id: string): boolean => principal.teams.includes(id)
      if (isPermitted(principal, 'userTeam:update') || [...ids].every(isOwn)) return [...ids]
      const message =
        "teams: adding a user to a team that you do not belong to requires the permission 'userTeam:update'"
      throw new AppError('ERR_PERMISSION_DENIED', message, { field: 'teams', permission: 'userTeam:update' })
    },

    async createTeam(call, input) {
      const tenant = peopleTenant(call.principal, input.tenant)
      const name = await requireNewName(call.read, tenant, input.name)
      const max = limits.userTeamsPerTenantMax
      if ((await store.listTeams(call.read, tenant, max)).length >= max) throw tenantTaken('teams', max)
      const members = await usersNamed(call.read, tenant, input.members ?? [])
      const team: UserTeam = {
        tenant,
        id: randomId(random, 'team'),
        name,
        description: input.description ?? '',
        createdBy: call.principal.actor,
        createdAtMs: call.nowMs,
      }
      await store.insertTeam(call.write, team)
      await addMembers(call, team, members)
      call.record({ kind: 'user_team_created', body: { ...bodyOf(team), members: members.map(({ id }) => id) } })
      return await viewOf(call.read, team)
    },

    async updateTeam(call, input) {
      const tenant = peopleTenant(call.principal, input.tenant)
      const before = await requireTeam(call.read, tenant, input.team)
      const name =
        input.name === undefined || input.name === before.name
          ? before.name
          : await requireNewName(call.read, tenant, input.name)
      const after = { ...before, name, description: input.description ?? before.description }
      await store.updateTeam(call.write, after)
      const added = await usersNamed(call.read, tenant, input.add ?? [])
      const removed = await usersNamed(call.read, tenant, input.remove ?? [])
      await addMembers(call, after, added)
      for (const { id } of removed) {
        await store.removeMember(call.write, tenant, after.id, id)
        await signOut(deps, call.write, tenant, id)
      }
      const ids = { added: added.map(({ id }) => id), removed: removed.map(({ id }) => id) }
      call.record({ kind: 'user_team_updated', body: { ...bodyOf(after), ...ids } })
      return await viewOf(call.read, after)
    },

    async deleteTeam(call, input) {
      const tenant = peopleTenant(call.principal, input.tenant)
      const team = await requireTeam(call.read, tenant, input.team)
      const view = await viewOf(call.read, team)
      await store.deleteTeam(call.write, tenant, team.id)
      call.record({ kind: 'user_team_deleted', body: bodyOf(team) })
      for (const { id } of view.members) await signOut(deps, call.write, tenant, id)
      deps.noteTeamRemoved(tenant, team.id)
      return view
    },
  }
}

const bodyOf = ({ id, tenant, name, description }: UserTeam) => ({ id, tenant, name, description })
