import { AppError } from '../../contract/app-error.ts'
import { administers } from '../../contract/permissions.ts'
import { type Principal, type Tier, tierAllows, tiers } from '../../contract/principal.ts'
import type { SecurityContext } from '../../contract/security-context.ts'
import type { ContextDirectory, SealSession } from './ports.ts'

const OWNER_IDENTITY = 'owner'
const zaruTiers = ['free', 'pro', 'business', 'enterprise'] as const
const DEFAULT_CONTEXT = 'zaru-free'
const TENANT_CONTEXT = /^tenant-(.+)-[^-]+$/

/** The highest tier of tools that a session of the context reaches; its capabilities narrow it further. */
function tierOfContext(name: string): Tier {
  if (!name.startsWith('aegis-system-')) return 'user'
  return name === 'aegis-system-agent-runtime' ? 'system' : 'operator'
}

/**
 * The context of a new session: the requested one, if it exists and the identity may use it. All other outcomes are the same
 * refusal, which does not reveal which contexts exist.
 */
export function chooseContext(
  principal: Principal,
  requested: Readonly<{ security_context?: string | undefined; zaru_tier?: string | undefined }>,
  contexts: ContextDirectory,
): SecurityContext {
  const name = requested.security_context ?? contextOfZaruTier(requested.zaru_tier)
  const context = contexts.find(name)
  const isOfTenant = TENANT_CONTEXT.exec(name)?.[1] ?? principal.tenant
  if (context === undefined || isOfTenant !== principal.tenant || !tierAllows(principal.tier, tierOfContext(name))) {
    throw new AppError(
      'ERR_CONTEXT_NOT_ALLOWED',
      'security_context: you may not use this context. Choose another, or omit the field.',
      { field: 'security_context' },
    )
  }
  return context
}

function contextOfZaruTier(written: string | undefined): string {
  if (written === undefined) return DEFAULT_CONTEXT
  const tier = zaruTiers.find((known) => known === written.toLowerCase())
  if (tier === undefined) {
    throw new AppError('ERR_INVALID_INPUT', `zaru_tier: use one of ${zaruTiers.join(', ')}.`, { field: 'zaru_tier' })
  }
  return `zaru-${tier}`
}

/** The identity under which a caller has sessions; undefined for those who cannot have one. */
export function identityOf(principal: Principal): string | undefined {
  if (principal.securityContexts !== undefined) return undefined
  return principal.keyId ?? (principal.kind === 'owner' ? OWNER_IDENTITY : undefined)
}

/** Only direct callers open sessions: a session, an agent or a run cannot open another one with more rights. */
export function requireIdentity(principal: Principal): string {
  const identity = identityOf(principal)
  if (identity !== undefined) return identity
  throw new AppError(
    'ERR_PERMISSION_DENIED',
    'Only the local owner and API keys may start a session. Callers inside a session or a run may not.',
  )
}

export const isOwnerIdentity = (identity: string): boolean => identity === OWNER_IDENTITY

export function requireOwnTenant(principal: Principal, input: string | undefined): void {
  if (input === undefined || input === principal.tenant) return
  throw new AppError('ERR_PERMISSION_DENIED', 'tenant_id: must be your own tenant; leave it out.', {
    field: 'tenant_id',
    reason: 'TENANT_MISMATCH',
  })
}

/** The principal of a session: the identity that opened it, limited by the context. */
export function sessionPrincipal(identity: Principal, context: SecurityContext, sessionId?: string): Principal {
  const tier = tiers[Math.min(tiers.indexOf(identity.tier), tiers.indexOf(tierOfContext(context.name)))]!
  return Object.freeze({
    ...identity,
    tier,
    securityContexts: [context],
    ...(sessionId === undefined ? {} : { sealSessionId: sessionId }),
  })
}

export type SealSessionStatus = 'active' | 'expired' | 'revoked'

export function sessionStatus(
  session: Pick<SealSession, 'revokedAtMs' | 'expiresAtMs'>,
  nowMs: number,
): SealSessionStatus {
  if (session.revokedAtMs !== null) return 'revoked'
  return session.expiresAtMs <= nowMs ? 'expired' : 'active'
}

/** The error of a signed call; `reason` is the newer error code. */
export const unauthenticated = (reason: string, message: string): AppError =>
  new AppError('ERR_UNAUTHENTICATED', message, { reason })

export const inactive = (): AppError =>
  new AppError('ERR_PERMISSION_DENIED', 'The session is no longer active. Attest again.', {
    reason: 'SESSION_INACTIVE',
  })

/** A session of another tenant or identity does not exist. */
export const noSuchSession = (id: string): AppError =>
  new AppError('ERR_NOT_FOUND', 'session_id: there is no such session. seal_session_list shows them.', {
    session_id: id.slice(0, 128),
  })

export const mayManage = (principal: Principal, session: SealSession): boolean =>
  administers(principal, 'seal') || identityOf(principal) === session.identity
