import { AppError } from '../../contract/app-error.ts'
import type { Call, EffectRecord } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { isPermitted, type Permission } from '../../contract/permissions.ts'
import { isPerson } from '../../contract/person.ts'
import { type Principal, type Role, type TenantId, type Tier, tierAllows } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { isoTime } from '../../kernel/clock.ts'
import { type Random, randomId } from '../../kernel/random.ts'
import { createAdmins } from './admins.ts'
import { type AdmissionMethods, createAdmission, type ProviderRules, roleRemoved } from './admission.ts'
import { createInvitations, hashOfLink, type InvitationMethods, invitationEffect } from './invitations.ts'
import { createPeopleLists, type PeopleListMethods } from './lists.ts'
import { createOpenLinks, requireTeamsOf } from './open-links.ts'
import type { GrantingRoles, Invitation, Mailer, Passwords, PeopleLists, PeopleStore, User } from './ports.ts'
import { createRights } from './rights.ts'
import {
  checkEmail,
  gainsRights,
  invitationStatus,
  losesRights,
  peopleTenant,
  principalOfUser,
  tenantTaken,
} from './rules.ts'
import { createServiceClients, type ServiceClientDeps, type ServiceClientMethods } from './service-clients.ts'
import { signOut } from './sign-out.ts'
import { createTeamMethods, type TeamMethods } from './teams.ts'
import { grantView, passkeyView, type SessionView, sessionView, type UserView, userView } from './views.ts'

export type PeopleReading = Pick<Call, 'principal' | 'nowMs' | 'read'>
export type PeopleWriting = Pick<Call, 'principal' | 'nowMs' | 'read' | 'write' | 'record' | 'origin' | 'warn'>

export type InTenant = Readonly<{ tenant?: string | undefined }>
export type NewPerson = InTenant &
  Readonly<{
    email: string
    role: Role
    tier?: Tier | undefined
    teams?: readonly string[] | undefined
  }>

/** Names of the user's revoked keys, if there were any. */
type RevokedKeys = Readonly<{ revoked_keys?: readonly string[] }>

/** The people of an installation, their organisations and teams, and the links that admit them. */
export type PeopleService = TeamMethods &
  AdmissionMethods &
  InvitationMethods &
  ServiceClientMethods &
  PeopleListMethods &
  Readonly<{
    /** The link lets the person choose a password; it works once. */
    createUser(
      call: PeopleWriting,
      input: NewPerson & Readonly<{ name?: string | undefined }>,
    ): Promise<UserView & Readonly<{ link: string; link_expires_at: string }>>
    updateUser(
      call: PeopleWriting,
      input: InTenant &
        Readonly<{
          user: string
          name?: string | undefined
          role?: Role | undefined
          tier?: Tier | undefined
          new_link?: boolean | undefined
        }>,
    ): Promise<UserView & RevokedKeys & Readonly<{ link?: string; link_expires_at?: string }>>
    deleteUser(call: PeopleWriting, input: InTenant & Readonly<{ user: string }>): Promise<UserView & RevokedKeys>
    listSessions(
      call: PeopleReading & Pick<Call, 'transport'>,
      input: InTenant & Readonly<{ user?: string | undefined; kind?: SessionView['kind'] | undefined }>,
    ): Promise<Readonly<{ sessions: readonly SessionView[]; total: number }>>
    revokeSession(
      call: PeopleWriting & Pick<Call, 'transport'>,
      input: InTenant & Readonly<{ user?: string | undefined; session: string }>,
    ): Promise<Readonly<{ session: string; user: string; revoked: boolean }>>
    /** Hashing takes long and must not happen in a transaction, so it happens before, and only for a usable link. */
    hashPasswordOf(call: PeopleReading, input: Readonly<{ token: string; password: string }>): Promise<void>
    /** Called by the page, as the invited person, after `hashPasswordOf` with the same input. */
    acceptInvitation(
      call: PeopleWriting,
      input: Readonly<{ token: string; name?: string | undefined; password: string }>,
    ): Promise<UserView>
  }>

export type PeopleDeps = ServiceClientDeps &
  Readonly<{
    store: PeopleStore
    lists: PeopleLists
    roles: GrantingRoles
    random: Random
    passwords: Pick<Passwords, 'hash'>
    /** Where links lead if a call does not come over HTTP; the warning is for the caller. */
    linkAddress(): Readonly<{ origin: string; warning?: string }>
    /** Undefined where no mail server is configured. */
    mailer: (() => Promise<Mailer>) | undefined
    providers: readonly ProviderRules[]
    /** Called within the transaction that removes a user or a user's rights. */
    noteRevoked(tenant: TenantId, userId: string): void
    /** The same for a team: its keys end with it. */
    noteTeamRemoved(tenant: TenantId, teamId: string): void
    /** The user of an identity: that user, or the one who created the key. */
    userBehind(read: ReadTx, tenant: TenantId, identity: string): Promise<string | undefined>
    /** Revokes the keys that a user created: all of them, or those that could do more than the user may. Returns their names. */
    endKeys(
      call: PeopleWriting,
      input: Readonly<{ tenant: TenantId; userId: string; remaining?: Principal }>,
    ): Promise<readonly string[]>
  }>

const LINK_TOKEN = /^[A-Za-z0-9_-]{43}$/

/** The invitation of a link, while it can be used. */
export async function openInvitation(
  store: PeopleStore,
  read: ReadTx,
  token: string,
  nowMs: number,
): Promise<Invitation | undefined> {
  const found = LINK_TOKEN.test(token) ? await store.findInvitationByHash(read, hashOfLink(token)) : undefined
  return found !== undefined && invitationStatus(found, nowMs) === 'open' ? found : undefined
}

const uselessLink = (): AppError =>
  new AppError('ERR_NOT_FOUND', 'token: this link was used, was cancelled or has expired. Ask for a new one.', {
    field: 'token',
  })

export function createPeopleService(deps: PeopleDeps): PeopleService {
  const { store, random } = deps
  const rights = createRights(deps.roles)
  const admins = createAdmins(store, deps.userBehind)
  const links = createOpenLinks(store, rights)
  const teams = createTeamMethods(deps, links)
  const hashes = new WeakMap<object, string>()

  async function requireUser(read: ReadTx, tenant: TenantId, named: string): Promise<User> {
    const found =
      (await store.findUser(read, tenant, named)) ?? (await store.findUserByEmail(read, named.toLowerCase()))
    if (found?.tenant === tenant) return found
    const message =
      'user: there is no user with this id or e-mail address; list them with castellan users list (user_list)'
    throw new AppError('ERR_NOT_FOUND', message, { user: named.slice(0, 128) })
  }

  /** The user whose sessions are meant: a person reaches their own without a permission, and learns nothing of others. */
  async function holderOf(
    call: PeopleReading & Pick<Call, 'transport'>,
    input: InTenant & Readonly<{ user?: string | undefined }>,
    permission: Permission,
  ): Promise<User> {
    const { principal, read } = call
    const own = isPerson(call) ? principal.user : undefined
    const named = input.user ?? own
    if (named === undefined) {
      throw new AppError('ERR_INVALID_INPUT', 'user: you are not a user, so name one; user_list lists them', {
        field: 'user',
      })
    }
    const isOwn = own !== undefined && (named === own || named.toLowerCase() === principal.actor)
    if (!isOwn && !isPermitted(principal, permission)) {
      const message = `user: without the permission '${permission}' you reach only your own sessions; leave it out`
      throw new AppError('ERR_PERMISSION_DENIED', message, { field: 'user', permission })
    }
    return await requireUser(read, peopleTenant(principal, input.tenant), isOwn ? own : named)
  }

  async function requireInvitation(read: ReadTx, token: string, nowMs: number): Promise<Invitation> {
    const found = await openInvitation(store, read, token, nowMs)
    if (found === undefined) throw uselessLink()
    return found
  }

  async function requireNewEmail(read: ReadTx, text: string): Promise<string> {
    const email = checkEmail(text)
    if ((await store.findUserByEmail(read, email)) === undefined) return email
    throw new AppError('ERR_ALREADY_EXISTS', 'email: another user already has this address', {
      email,
    })
  }

  /** An address in another organisation is not revealed: the person learns of it when they accept. */
  async function requireNewMember(read: ReadTx, tenant: TenantId, text: string): Promise<string> {
    const email = checkEmail(text)
    return (await store.findUserByEmail(read, email))?.tenant === tenant ? await requireNewEmail(read, email) : email
  }

  const { newLink, ...invitations } = createInvitations(deps, {
    requireNewMember,
    rights,
    teamsToJoin: teams.idsToJoin,
  })

  async function insertUser(
    call: Pick<Call, 'write' | 'record'>,
    user: User,
    teamIds: readonly string[],
  ): Promise<void> {
    await store.insertUser(call.write, user)
    for (const teamId of teamIds) await store.addMember(call.write, user.tenant, teamId, user.id)
    call.record(userEffect('user_created', user, { teams: [...teamIds] }))
  }

  async function requireRole({ read, write }: PeopleWriting, tenant: TenantId, role: Role): Promise<void> {
    await deps.roles.hold(write, tenant, role)
    if ((await deps.roles.grantedBy(read, tenant, role)).size === 0) throw roleRemoved()
  }

  const teamsOf = (read: ReadTx, user: User): Promise<string[]> => store.teamsOf(read, user.id)

  /** A team may have been removed since the invitation was written. */
  async function knownTeams({ read }: PeopleReading, { tenant, teams: invited }: Invitation): Promise<string[]> {
    const known = new Set((await store.listTeams(read, tenant, limits.userTeamsPerTenantMax)).map(({ id }) => id))
    return invited.filter((id) => known.has(id))
  }

  /** The other links for the same person become invalid, so that nobody who finds one can use it. */
  async function noteAccepted(call: PeopleWriting, invitation: Invitation, userId: string): Promise<void> {
    const { tenant, email } = invitation
    call.record(invitationEffect('invitation_accepted', invitation, { user_id: userId }))
    await links.cancel(call, await store.listOpenInvitations(call.read, tenant, email, call.nowMs))
  }

  /** The user's keys that end when the user has only these rights, or none. */
  async function endKeys(call: PeopleWriting, user: User, remaining?: Principal): Promise<RevokedKeys> {
    const ended = await deps.endKeys(call, { tenant: user.tenant, userId: user.id, ...(remaining && { remaining }) })
    return ended.length === 0 ? {} : { revoked_keys: ended.toSorted() }
  }

  return {
    ...teams,
    ...invitations,
    ...createServiceClients(deps, rights),
    ...createPeopleLists(deps),
    ...createAdmission(deps, { insertUser, knownTeams, noteAccepted }),

    async createUser(call, input) {
      const tenant = peopleTenant(call.principal, input.tenant)
      const { role, tier } = await rights.toGive(call, tenant, input, call.write)
      const email = await requireNewEmail(call.read, input.email)
      const teamIds = await teams.idsToJoin(call, tenant, input.teams ?? [])
      if ((await store.listUsers(call.read, tenant, limits.usersPerTenantMax)).length >= limits.usersPerTenantMax) {
        throw tenantTaken('users', limits.usersPerTenantMax)
      }
      const user: User = {
        tenant,
        id: randomId(random, 'user'),
        email,
        name: input.name ?? email.slice(0, email.indexOf('@')),
        role,
        tier,
        createdBy: call.principal.actor,
        createdAtMs: call.nowMs,
      }
      await insertUser(call, user, teamIds)
      const person = { tenant, email, role, tier, teams: teamIds, userId: user.id }
      const { link, invitation } = await newLink(call, person, limits.invitationMs)
      return { ...userView(user, teamIds), link, link_expires_at: isoTime(invitation.expiresAtMs) }
    },

    async updateUser(call, input) {
      const tenant = peopleTenant(call.principal, input.tenant)
      const before = await requireUser(call.read, tenant, input.user)
      const had = { tier: before.tier, granted: await rights.requireOver(call, before) }
      const isChanged = input.role !== undefined || input.tier !== undefined
      const has = isChanged
        ? await rights.toGive(call, tenant, { role: input.role ?? before.role, tier: input.tier }, call.write)
        : { ...had, role: before.role }
      const { role, tier } = has
      if (role !== before.role) await admins.noteLeaving(call, before)
      else if (!tierAllows(tier, before.tier)) await admins.requireTier(call, before)
      const after: User = { ...before, name: input.name ?? before.name, role, tier }
      await store.updateUser(call.write, after, call.nowMs)
      call.record(userEffect('user_updated', after))
      const teamIds = await teamsOf(call.read, after)
      const remaining = principalOfUser(after, has.granted, teamIds)
      const isLess = losesRights(had, has)
      if (isLess) await signOut(deps, call.write, tenant, after.id)
      const ended = isLess ? await endKeys(call, after, remaining) : {}
      if (isLess) await links.endOf(call, after, ended.revoked_keys, remaining)
      if (gainsRights(had, has)) await links.endFor(call, after)
      const view = { ...userView(after, teamIds), ...ended }
      if (input.new_link !== true) return view
      requireTeamsOf(call, teamIds)
      const person = { tenant, email: after.email, role, tier, teams: [], userId: after.id }
      const { link, invitation } = await newLink(call, person, limits.invitationMs)
      return { ...view, link, link_expires_at: isoTime(invitation.expiresAtMs) }
    },

    async deleteUser(call, input) {
      const tenant = peopleTenant(call.principal, input.tenant)
      const user = await requireUser(call.read, tenant, input.user)
      await rights.requireOver(call, user)
      await admins.noteLeaving(call, user)
      const view = userView(user, await teamsOf(call.read, user))
      const ended = await endKeys(call, user)
      await links.endOf(call, user, ended.revoked_keys)
      await store.deleteUser(call.write, tenant, user.id)
      call.record(userEffect('user_deleted', user))
      deps.noteRevoked(tenant, user.id)
      return { ...view, ...ended }
    },

    async listSessions(call, input) {
      const { read, nowMs } = call
      const user = await holderOf(call, input, 'member:read')
      const sessions = await store.listSessions(read, user.id, nowMs)
      const grants = await store.listGrants(read, user.id)
      const views = [
        ...sessions.map((session) => sessionView(session, user.email)),
        ...grants.map((grant) => grantView(grant, user.email)),
        ...(await store.listPasskeys(read, user.id)).map((passkey) => passkeyView(passkey, user.email)),
      ]
      const found = views.filter(({ kind }) => input.kind === undefined || kind === input.kind)
      return { sessions: found, total: found.length }
    },

    async revokeSession(call, input) {
      const user = await holderOf(call, input, 'member:update')
      const { tenant } = user
      await rights.requireOver(call, user)
      const revoked =
        (await store.deleteSession(call.write, user.id, input.session)) ||
        (await store.deleteGrant(call.write, user.id, input.session)) ||
        (await store.deletePasskey(call.write, user.id, input.session))
      if (!revoked) {
        const message = 'session: this user has no such session; user_session_list shows them'
        throw new AppError('ERR_NOT_FOUND', message, { session: input.session.slice(0, 128) })
      }
      call.record({ kind: 'user_session_revoked', body: { user_id: user.id, tenant, session: input.session } })
      await signOut(deps, call.write, tenant, user.id)
      return { session: input.session, user: user.email, revoked }
    },

    async hashPasswordOf({ read, nowMs }, input) {
      await requireInvitation(read, input.token, nowMs)
      hashes.set(input, await deps.passwords.hash(input.password))
    },

    async acceptInvitation(call, input) {
      const { nowMs, read, write } = call
      const invitation = await requireInvitation(read, input.token, nowMs)
      if (!(await store.acceptInvitation(write, invitation.tenant, invitation.id, nowMs))) throw uselessLink()
      const { tenant, email, role, tier } = invitation
      const existing = invitation.userId === null ? undefined : await store.findUser(read, tenant, invitation.userId)
      if (existing === undefined) await requireRole(call, tenant, role)
      const user: User = existing ?? {
        ...{ tenant, email: await requireNewEmail(read, email), role, tier },
        id: randomId(random, 'user'),
        name: input.name ?? email.slice(0, email.indexOf('@')),
        createdBy: invitation.createdBy,
        createdAtMs: nowMs,
      }
      if (existing === undefined) await insertUser(call, user, await knownTeams(call, invitation))
      const account = { id: randomId(random, 'acc'), userId: user.id, hash: hashes.get(input)!, atMs: nowMs }
      await store.setPassword(write, account)
      // The old password, every session and every passkey become invalid: a thief of the password may have added one.
      await store.deleteAllSessions(write, user.id)
      await signOut(deps, write, tenant, user.id)
      await noteAccepted(call, invitation, user.id)
      return userView(user, await teamsOf(read, user))
    },
  }
}

const userEffect = (kind: string, user: User, more: EffectRecord['body'] = {}): EffectRecord => ({
  kind,
  body: {
    id: user.id,
    tenant: user.tenant,
    email: user.email,
    name: user.name,
    role: user.role,
    tier: user.tier,
    ...more,
  },
})
