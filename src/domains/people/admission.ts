import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Role, TenantId } from '../../contract/principal.ts'
import { isPlatformOperator } from '../../contract/principal.ts'
import { randomId } from '../../kernel/random.ts'
import type { Invitation, User } from './ports.ts'
import { checkEmail, checkPersonRights, tenantTaken } from './rules.ts'
import type { PeopleDeps, PeopleWriting } from './service.ts'
import { type UserView, userView } from './views.ts'

/** An identity provider, as far as it decides who becomes a user: the organisation, and the role. */
export type ProviderRules = Readonly<{
  id: string
  tenant: TenantId
  /** Whether only invited people are admitted, or everybody whom the provider vouches for. */
  newUsers: 'invited' | 'create'
  /** Of people who are created. */
  role: Role
  /** Domains of e-mail addresses; empty for all. */
  emailDomains: readonly string[]
}>

export type AdmissionMethods = Readonly<{
  /** Makes a person whom a provider vouched for a user; returns the existing user if there is one. */
  admitUser(
    call: PeopleWriting,
    input: Readonly<{ provider: string; email: string; name?: string | undefined }>,
  ): Promise<UserView>
}>

type Helpers = Readonly<{
  insertUser(call: PeopleWriting, user: User, teamIds: readonly string[]): Promise<void>
  /** The teams of an invitation that still exist. */
  knownTeams(call: PeopleWriting, invitation: Invitation): Promise<readonly string[]>
  noteAccepted(call: PeopleWriting, invitation: Invitation, userId: string): Promise<void>
}>

/**
 * 1. A provider is for one organisation: a user of another is refused like a person who is not a user.
 * 2. An open invitation is accepted, with its role and teams. Without one, the settings of the provider decide.
 */
export function createAdmission({ store, roles, random, providers }: PeopleDeps, helpers: Helpers): AdmissionMethods {
  return {
    async admitUser(call, input) {
      const { principal, read, write, nowMs } = call
      const provider = providers.find(({ id }) => id === input.provider)
      if (provider === undefined || (provider.tenant !== principal.tenant && !isPlatformOperator(principal))) {
        const message = 'provider: there is no identity provider with this id in the configuration (oidc_providers)'
        throw new AppError('ERR_NOT_FOUND', message, { provider: input.provider.slice(0, 64) })
      }
      const { tenant } = provider
      const email = checkEmail(input.email)
      const existing = await store.findUserByEmail(read, email)
      if (!mayVouchFor(provider, email, existing)) throw notAdmitted()
      if (existing !== undefined) return userView(existing, await store.teamsOf(read, existing.id))

      const invitation = await store.findOpenInvitation(read, tenant, email, nowMs)
      if (invitation === undefined && provider.newUsers !== 'create') throw notAdmitted()
      if ((await store.listUsers(read, tenant, limits.usersPerTenantMax)).length >= limits.usersPerTenantMax) {
        throw tenantTaken('users', limits.usersPerTenantMax)
      }
      const requested = invitation ?? { role: provider.role }
      await roles.hold(write, tenant, requested.role)
      const granted = await roles.grantedBy(read, tenant, requested.role)
      if (granted.size === 0) throw invitation === undefined ? noDefaultRole() : roleRemoved()
      const user: User = {
        tenant,
        id: randomId(random, 'user'),
        email,
        name: input.name ?? email.slice(0, email.indexOf('@')),
        ...checkPersonRights(principal, requested, granted),
        createdBy: invitation?.createdBy ?? principal.actor,
        createdAtMs: nowMs,
      }
      const teamIds = invitation === undefined ? [] : await helpers.knownTeams(call, invitation)
      await helpers.insertUser(call, user, teamIds)
      if (invitation !== undefined) {
        await store.acceptInvitation(write, tenant, invitation.id, nowMs)
        await helpers.noteAccepted(call, invitation, user.id)
      }
      return userView(user, teamIds)
    },
  }
}

/** Whether the provider is trusted for an e-mail address, and for a user who came with it before. */
export const mayVouchFor = (
  { tenant, emailDomains }: ProviderRules,
  email: string,
  user: Pick<User, 'tenant'> | undefined,
): boolean =>
  (user === undefined || user.tenant === tenant) &&
  (emailDomains.length === 0 || emailDomains.includes(email.slice(email.lastIndexOf('@') + 1)))

const noDefaultRole = (): AppError =>
  new AppError(
    'ERR_NOT_FOUND',
    'The organisation does not have the role that new users of this identity provider get. An administrator can create it with role_create, or change default_role of the provider in the configuration.',
  )

/** The role of an invitation is not deleted while the invitation is open, so this is for a store that was changed otherwise. */
export const roleRemoved = (): AppError =>
  new AppError('ERR_NOT_FOUND', 'The role in this invitation no longer exists. Ask for a new invitation.')

export const notAdmitted = (): AppError =>
  new AppError('ERR_PERMISSION_DENIED', 'This e-mail address may not sign in here. Ask an administrator to invite you.')
