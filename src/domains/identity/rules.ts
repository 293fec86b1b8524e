import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { isPermitted, isPreference, narrowed, type Permission, permissions } from '../../contract/permissions.ts'
import {
  isPlatformOperator,
  LOCAL_TENANT,
  type Principal,
  SYSTEM_TENANT,
  type TenantId,
  type Tier,
  tenantId,
  tierAllows,
  tiers,
} from '../../contract/principal.ts'
import { isoTime } from '../../kernel/clock.ts'
import { nearestName } from '../../kernel/nearest-name.ts'
import type { ApiKey } from './ports.ts'

/** Names of actors that are not keys: a key with such a name could impersonate them. */
const RESERVED_NAMES = ['owner', 'system', 'unassigned']
const NAME = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/
const TENANT = /^[a-z0-9][a-z0-9._-]{0,63}$/
const DURATION = /^([1-9][0-9]{0,8})(s|m|h|d)?$/
const UNIT_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/

type KeyRights = Readonly<{ role: string; tier: Tier; scopes: readonly Permission[] | null }>

const invalid = (field: string, message: string, details: Record<string, unknown> = {}): AppError =>
  new AppError('ERR_INVALID_INPUT', `${field}: ${message}`, { field, ...details })

/** A caller's text in a message: short, and whole characters only. */
export const quoted = (text: string): string => `'${text.slice(0, 64).toWellFormed()}'`

const denied = (message: string, details: Record<string, unknown> = {}): AppError =>
  new AppError('ERR_PERMISSION_DENIED', message, details)

export function requirePermission(principal: Principal, permission: Permission): void {
  if (!isPermitted(principal, permission)) throw denied(`${permission} is needed for this`, { permission })
}

/** Whether the caller has all rights of the key, whose role grants these. */
export const hasRightsOf = (
  principal: Principal,
  { tier, scopes }: Pick<KeyRights, 'tier' | 'scopes'>,
  granted: ReadonlySet<Permission>,
): boolean => tierAllows(principal.tier, tier) && excessOf(principal, narrowed(granted, scopes)).length === 0

/** The permissions that the caller lacks. */
export const excessOf = (principal: Principal, requested: ReadonlySet<Permission>): readonly Permission[] =>
  [...requested].filter((permission) => !isPermitted(principal, permission) && !isPreference(permission)).sort()

export function checkKeyName(name: string): string {
  if (!NAME.test(name)) {
    throw invalid('name', 'use 1 to 64 letters, digits, ".", "_", "@" or "-", beginning with a letter or digit')
  }
  if (RESERVED_NAMES.includes(name.toLowerCase())) throw invalid('name', 'this name is reserved; choose another')
  return name
}

/** The tenant whose keys or roles are managed: the principal's own, or any for the operator of this installation. */
export function keyTenant(
  principal: Principal,
  requested: string | undefined,
  managed: 'keys' | 'roles' = 'keys',
): TenantId {
  if (requested === undefined || requested === principal.tenant) return principal.tenant
  if (!TENANT.test(requested)) {
    throw invalid('tenant', 'use 1 to 64 lower-case letters, digits, ".", "_" or "-", beginning with a letter or digit')
  }
  if (requested === SYSTEM_TENANT) throw denied(`tenant: this one holds what all tenants share, and has no ${managed}`)
  if (!isPlatformOperator(principal)) {
    throw denied(`tenant: only an operator of the tenant '${LOCAL_TENANT}' may manage the ${managed} of another tenant`)
  }
  return tenantId(requested)
}

/**
 * The rights of a new key. They never exceed the creator's: the creator has each permission of the key. Omitted scopes are the
 * creator's own.
 */
export function checkRights(
  principal: Principal,
  requested: Readonly<{ role: string; tier: string; scopes?: readonly string[] | undefined }>,
  granted: ReadonlySet<Permission>,
): KeyRights {
  const { role } = requested
  const tier = tiers.find((known) => known === requested.tier)
  if (tier === undefined) throw invalid('tier', `use one of ${tiers.join(', ')}`)
  if (!tierAllows(principal.tier, tier))
    throw denied(`tier: a key cannot have more than your own tier, ${principal.tier}`)
  const scopes =
    requested.scopes === undefined ? inheritedScopes(principal, granted) : scopesOf(requested.scopes, role, granted)
  const excess = excessOf(principal, narrowed(granted, scopes))
  if (excess.length > 0) {
    throw denied('role, scopes: a key cannot be permitted more than you are', { beyond_yours: excess })
  }
  return { role, tier, scopes }
}

const inheritedScopes = (principal: Principal, granted: ReadonlySet<Permission>): readonly Permission[] | null =>
  principal.scopes === undefined ? null : principal.scopes.filter((scope) => granted.has(scope))

/**
 * `task:*` stands for every present permission of the role on tasks; the list is stored, so that a later version of the program
 * does not widen a key. A permission that is written out must belong to the role.
 */
export function scopesOf(
  written: readonly string[],
  role: string,
  granted: ReadonlySet<Permission>,
): readonly Permission[] {
  if (written.length === 0)
    throw invalid('scopes', 'list at least one, or leave scopes out for all that the role may do')
  const expanded = new Set<Permission>()
  for (const scope of written) {
    const usable = permissionsNamed(scope, 'scopes').filter((permission) => granted.has(permission))
    if (usable.length === 0) throw invalid('scopes', `the role ${role} does not have ${quoted(scope)}`, { scope })
    for (const permission of usable) expanded.add(permission)
  }
  return [...expanded].sort()
}

/** The permissions that a scope names. */
export function permissionsNamed(written: string, field: string): readonly Permission[] {
  const named = written.endsWith(':*')
    ? permissions.filter((permission) => permission.startsWith(written.slice(0, -1)))
    : permissions.filter((permission) => permission === written)
  if (named.length > 0) return named
  const areas = new Set(permissions.map((permission) => `${permission.split(':')[0]}:*`))
  const near = nearestName(written, written.endsWith(':*') ? areas : permissions)
  const next = near === undefined ? 'role_list shows all of them' : `did you mean ${near}?`
  throw invalid(field, `${quoted(written)} is not a permission; ${next}`, { scope: written })
}

/**
 * `expires_in` is a number of seconds, also as a string, or a string such as `12h` or `90d`; `expires_at` an ISO 8601 instant
 * with its zone.
 */
export function checkExpiry(
  requested: Readonly<{ expires_in?: string | number | undefined; expires_at?: string | undefined }>,
  nowMs: number,
): number | null {
  if (requested.expires_in !== undefined && requested.expires_at !== undefined) {
    throw invalid('expires_at', 'give expires_in or expires_at, not both')
  }
  if (requested.expires_in !== undefined)
    return inLifetime('expires_in', nowMs + durationMs(requested.expires_in), nowMs)
  if (requested.expires_at === undefined) return null
  const atMs = INSTANT.test(requested.expires_at) ? Date.parse(requested.expires_at) : Number.NaN
  if (Number.isNaN(atMs)) throw invalid('expires_at', 'write an instant such as 2030-01-31T12:00:00Z')
  return inLifetime('expires_at', atMs, nowMs)
}

function durationMs(written: string | number): number {
  const match = DURATION.exec(String(written))
  if (match === null) {
    throw invalid(
      'expires_in',
      `${quoted(String(written))} is not a lifetime; write whole seconds from 1, such as 3600, or a whole number with s, m, h or d, such as 90d`,
    )
  }
  return Number(match[1]) * UNIT_MS[(match[2] ?? 's') as keyof typeof UNIT_MS]
}

function inLifetime(field: string, atMs: number, nowMs: number): number {
  if (atMs <= nowMs) throw invalid(field, 'must be in the future')
  if (atMs - nowMs > limits.apiKeyLifetimeMsMax)
    throw invalid(field, 'must be within ten years; leave it out for no expiry')
  return atMs
}

/** A key inherits the expiry of its creator: otherwise a stolen short-lived key could replace itself by a permanent one. */
export function checkCreatorKey(creator: ApiKey | undefined, expiresAtMs: number | null, nowMs: number): void {
  if (creator === undefined || keyStatus(creator, nowMs) !== 'live')
    throw denied('the key that you use is no longer valid')
  if (creator.expiresAtMs !== null && (expiresAtMs === null || expiresAtMs > creator.expiresAtMs)) {
    throw denied('expires_at: a key cannot outlive the key that creates it', {
      latest_expires_at: isoTime(creator.expiresAtMs),
    })
  }
}

export type KeyStatus = 'live' | 'expired' | 'revoked'

export function keyStatus(key: Pick<ApiKey, 'revokedAtMs' | 'expiresAtMs'>, nowMs: number): KeyStatus {
  if (key.revokedAtMs !== null) return 'revoked'
  return key.expiresAtMs !== null && key.expiresAtMs <= nowMs ? 'expired' : 'live'
}
