import type { ServerResponse } from 'node:http'
import type { GatewayDirectory } from '../contract/gateway-directory.ts'
import { type Principal, SYSTEM_TENANT, type TenantId } from '../contract/principal.ts'
import type { Logger } from '../kernel/logger.ts'
import type { Presence } from '../tools/runtime/presence.ts'
import type { HttpSessions } from './http-sessions.ts'
import { isOf } from './session-identity.ts'

/** Who may use the address of a gateway or an agent; without it, nobody loses the right. */
export type GatewaySource = (() => Promise<Pick<GatewayDirectory, 'find'> | undefined>) | undefined

type Deps = Readonly<{
  presence: Presence
  gateways: GatewaySource
  sessions: Pick<HttpSessions, 'all' | 'end'>
  logger: Logger
}>

/** Open responses of the SDK, including streams. They end if their caller is revoked or loses access to the gateway. */
export type OpenResponses = Readonly<{
  watch(res: ServerResponse, principal: Principal): void
  /**
   * Ends open responses at a gateway or an agent that was removed, or that the caller may no longer use; for one tenant or for
   * all. What the platform has is open to all.
   */
  reviewGateways(tenant?: TenantId): Promise<void>
  close(): void
}>

/** A change of access is announced. This is for one that was not, such as one whose announcement failed. */
const REVIEW_MS = 30_000

export function createOpenResponses({ presence, gateways, sessions, logger }: Deps): OpenResponses {
  const open = new Map<ServerResponse, Principal>()
  presence.onRevoked((tenant, owner) => {
    for (const [res, principal] of open) if (isOf(principal, tenant, owner)) res.destroy()
  })
  async function reviewGateways(tenant?: TenantId): Promise<void> {
    const isMeant = (principal: Principal): boolean =>
      principal.gateway !== undefined &&
      (tenant === undefined || tenant === SYSTEM_TENANT || principal.tenant === tenant)
    const ofSessions = [...sessions.all()].filter(({ latest }) => isMeant(latest))
    const responses = [...open].filter(([, principal]) => isMeant(principal))
    const directory = ofSessions.length + responses.length === 0 ? undefined : await gateways?.()
    if (directory === undefined) return
    const isUnshared = async (principal: Principal): Promise<boolean> =>
      (await directory.find(principal, principal.gateway!)) !== principal.gateway
    for (const session of ofSessions) if (await isUnshared(session.latest)) sessions.end(session)
    for (const [res, principal] of responses) if (await isUnshared(principal)) res.destroy()
  }
  const timer = setInterval(() => {
    reviewGateways().catch((error) => logger.warn('review of open gateway streams failed', { cause: String(error) }))
  }, REVIEW_MS)
  timer.unref()
  return {
    watch(res, principal) {
      if (res.closed || (principal.kind === 'owner' && principal.gateway === undefined)) return
      const stopWatching = presence.watch(principal)
      open.set(res, principal)
      res.once('close', () => {
        stopWatching()
        open.delete(res)
      })
    },
    reviewGateways,
    close: () => clearInterval(timer),
  }
}
