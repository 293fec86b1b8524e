import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { isPermitted, isPreference, type Permission, rightsFrom } from '../../contract/permissions.ts'
import {
  type BuiltInRole,
  isBuiltInRole,
  isPlatformOperator,
  LOCAL_TENANT,
  type Principal,
  type Role,
  SYSTEM_TENANT,
  type TenantId,
  type Tier,
  tenantId,
  tierAllows,
} from '../../contract/principal.ts'
import { sha256Bytes } from '../../kernel/hash.ts'
import type { Invitation, SignInAttempt, User } from './ports.ts'

/** The scope of a command line that acts as the person does themselves. It is offered to nobody: other programs have no use for it. */
export const TERMINAL_SCOPE = 'terminal'
export const ACCESS_TOKEN_PREFIX = 'csa_'
/** The stored form of an OAuth token. */
export const hashOfToken = (token: string): string => sha256Bytes(token).toString('hex')

const EMAIL = /^[^\s@<>"'()[\]\\,;:\p{C}]{1,64}@[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/u
const TENANT = /^[a-z0-9][a-z0-9._-]{0,63}$/

const invalid = (field: string, message: string): AppError =>
  new AppError('ERR_INVALID_INPUT', `${field}: ${message}`, { field })
const denied = (message: string, details: Record<string, unknown> = {}): AppError =>
  new AppError('ERR_PERMISSION_DENIED', message, details)

export function checkEmail(text: string): string {
  const email = text.trim().toLowerCase()
  if (!EMAIL.test(email)) throw invalid('email', 'write an e-mail address such as ada@example.com')
  return email
}

export function checkPassword(password: string): string {
  const { passwordCharsMin: min, passwordCharsMax: max } = limits
  if (password.length >= min && password.length <= max) return password
  throw invalid('password', `use ${min} to ${max} characters`)
}

/** The organisation whose people are managed: the caller's own, or any for the operator of this installation. */
export function peopleTenant(principal: Principal, requested: string | undefined): TenantId {
  if (requested === undefined || requested === principal.tenant) return principal.tenant
  if (!TENANT.test(requested) || requested === SYSTEM_TENANT) {
    throw invalid('tenant', 'use 1 to 64 lower-case letters, digits, ".", "_" or "-", beginning with a letter or digit')
  }
  if (isPlatformOperator(principal)) return tenantId(requested)
  throw denied(`tenant: only an operator of the tenant '${LOCAL_TENANT}' may manage the people of another tenant`)
}

/** A person who deploys needs the tier for it, and an administrator the highest. */
const tierOfRole: Readonly<Record<BuiltInRole, Tier>> = { admin: 'operator', editor: 'system', member: 'user' }

/** A custom role says nothing about tiers, so its holders get the lowest one unless another is given. */
const usualTier = (role: Role): Tier => (isBuiltInRole(role) ? tierOfRole[role] : 'user')

/** Nobody grants more than they have: `granted` is what the role grants. The default tier is that of the role, as far as the granter has it. */
export function checkPersonRights(
  principal: Principal,
  { role, tier }: Readonly<{ role: Role; tier?: Tier | undefined }>,
  granted: ReadonlySet<Permission>,
): Readonly<{ role: Role; tier: Tier }> {
  const usual = usualTier(role)
  const allowed = tier ?? (tierAllows(principal.tier, usual) ? usual : principal.tier)
  if (!tierAllows(principal.tier, allowed))
    throw denied(`tier: you cannot grant a tier above your own, which is ${principal.tier}`)
  const beyond = [...granted].filter((permission) => !isPreference(permission) && !isPermitted(principal, permission))
  if (beyond.length > 0)
    throw denied('role: you cannot grant permissions that you do not have', { beyond_yours: beyond })
  return { role, tier: allowed }
}

type Had = Readonly<{ tier: Tier; granted: ReadonlySet<Permission> }>

/** A change that removes rights: what was started with them must end. */
export const losesRights = (before: Had, after: Had): boolean =>
  !tierAllows(after.tier, before.tier) || [...before.granted].some((permission) => !after.granted.has(permission))

/** A change that adds rights: who could act for the user before might not have them. */
export const gainsRights = (before: Had, after: Had): boolean =>
  !tierAllows(before.tier, after.tier) ||
  [...after.granted].some((permission) => !isPreference(permission) && !before.granted.has(permission))

/** `granted` is what the role grants now. */
export function principalOfUser(user: User, granted: ReadonlySet<Permission>, teams: readonly string[]): Principal {
  return Object.freeze({
    tenant: user.tenant,
    kind: 'user',
    actor: user.email,
    ...rightsFrom(user.role, granted),
    tier: user.tier,
    teams,
    user: user.id,
  })
}

export type InvitationStatus = 'open' | 'accepted' | 'cancelled' | 'expired'

export function invitationStatus(invitation: Invitation, nowMs: number): InvitationStatus {
  if (invitation.acceptedAtMs !== null) return 'accepted'
  if (invitation.cancelledAtMs !== null) return 'cancelled'
  return invitation.expiresAtMs <= nowMs ? 'expired' : 'open'
}

/** Failures since the last success, newest first. */
export function failuresOf(attempts: readonly SignInAttempt[]): readonly SignInAttempt[] {
  const lastSuccess = attempts.findIndex(({ outcome }) => outcome === 'signed_in')
  const since = lastSuccess === -1 ? attempts : attempts.slice(0, lastSuccess)
  return since.filter(({ outcome }) => outcome === 'refused')
}

/**
 * The wait before the next attempt at an address, from its latest attempts, newest first. The first few failures cost nothing;
 * each further one doubles the wait. A success resets it.
 */
export const signInWaitMs = (attempts: readonly SignInAttempt[], nowMs: number): number =>
  waitAfterMs(failuresOf(attempts), nowMs)

/** The wait after these failures, newest first. */
export function waitAfterMs(failures: readonly SignInAttempt[], nowMs: number): number {
  const beyond = failures.length - limits.signInFreeFailures
  if (beyond < 0) return 0
  const spanMs = Math.min(limits.signInWaitMs * 2 ** beyond, limits.signInWaitMsMax)
  return Math.max(0, failures[0]!.atMs + spanMs - nowMs)
}

export const tenantTaken = (what: string, max: number): AppError =>
  new AppError('ERR_QUOTA_EXCEEDED', `An organisation has at most ${max} ${what}.`, { max })
