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
 * The context of a new session: the one asked for, if there is such a one and the identity may have it. All other
 * outcomes are the same refusal, which names no context: it tells nobody which there are.
 */
export function chooseContext(
  principal: Principal,
  asked: Readonly<{ security_context?: string | undefined; zaru_tier?: string | undefined }>,
  contexts: ContextDirectory,
): SecurityContext {
  const name = asked.security_context ?? contextOfZaruTier(asked.zaru_tier)
  const context = contexts.find(name)
  const isOfTenant = TENANT_CONTEXT.exec(name)?.[1] ?? principal.tenant
  if (context === undefined || isOfTenant !== principal.tenant || !tierAllows(principal.tier, tierOfContext(name))) {
    throw new AppError(
      'ERR_CONTEXT_NOT_ALLOWED',
      'security_context: your identity may not have this one. Ask for another, or leave it out.',
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

/** Sessions are for those who came by themselves: a session, an agent or a run cannot make another one with more rights. */
export function identityOf(principal: Principal): string {
  if (principal.securityContexts === undefined) {
    if (principal.keyId !== undefined) return principal.keyId
    if (principal.kind === 'owner') return OWNER_IDENTITY
  }
  throw new AppError(
    'ERR_PERMISSION_DENIED',
    'Only the local owner and API keys may begin a session; what acts for them in a session or a run may not.',
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

/** Who acts in a session: the identity that began it, with no more than the context gives. */
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

/** What is wrong with a signed call; `reason` is the name that newer clients know it by. */
export const unauthenticated = (reason: string, message: string): AppError =>
  new AppError('ERR_UNAUTHENTICATED', message, { reason })

export const inactive = (): AppError =>
  new AppError('ERR_PERMISSION_DENIED', 'The session is no longer active. Attest again.', {
    reason: 'SESSION_INACTIVE',
  })

/** A session of another tenant or identity is no session. */
export const noSuchSession = (id: string): AppError =>
  new AppError('ERR_NOT_FOUND', 'session_id: there is no such session. seal_session_list shows them.', {
    session_id: id.slice(0, 128),
  })

export const mayManage = (principal: Principal, session: SealSession): boolean =>
  administers(principal, 'seal') || identityOf(principal) === session.identity
