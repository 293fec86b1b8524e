import { limits } from '../../contract/limits.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { Background } from '../../kernel/background.ts'
import type { Clock } from '../../kernel/clock.ts'

type Followed = {
  timer: NodeJS.Timeout | undefined
  isFollowing: boolean
  /** Changes were announced while the list was being fetched. */
  isStale: boolean
  nextAtMs: number
  pauseMs: number
}

/**
 * Follows servers that announce changed tools. The first time the list is fetched at once. A server that keeps announcing changes
 * is asked after pauses that double, because every changed list is written and announced to all its callers. A list that takes
 * long is fetched so rarely that it takes only a small part of the time. Announcements during a pause, or while the list is being
 * fetched, are followed once, when the pause ends.
 */
export function createChangeFollower(
  clock: Pick<Clock, 'monotonicMs'>,
  background: Pick<Background, 'run' | 'closed'>,
  follow: (tenant: TenantId, key: string, closed: AbortSignal) => Promise<unknown>,
): (tenant: TenantId, key: string) => void {
  const followed = new Map<string, Followed>()

  function forgetQuiet(nowMs: number): void {
    for (const [key, { timer, isFollowing, nextAtMs, pauseMs }] of followed) {
      if (timer === undefined && !isFollowing && nowMs >= nextAtMs + pauseMs) followed.delete(key)
    }
  }

  function schedule(tenant: TenantId, key: string, one: Followed): void {
    const start = (): void => {
      one.timer = undefined
      one.isFollowing = true
      background.run((closed) => followOnce(tenant, key, one, closed))
    }
    one.timer = setTimeout(start, Math.max(0, one.nextAtMs - clock.monotonicMs())).unref()
  }

  async function followOnce(tenant: TenantId, key: string, one: Followed, closed: AbortSignal): Promise<void> {
    const startMs = clock.monotonicMs()
    one.isStale = false
    try {
      await follow(tenant, key, closed)
    } finally {
      const nowMs = clock.monotonicMs()
      const restMs = Math.min((nowMs - startMs) * limits.mcpRelistRestFactor, limits.mcpRelistMsMax)
      one.nextAtMs = nowMs + Math.max(one.pauseMs, restMs)
      one.pauseMs = Math.min(one.pauseMs * 2, limits.mcpRelistMsMax)
      one.isFollowing = false
      if (one.isStale && !closed.aborted) schedule(tenant, key, one)
    }
  }

  background.closed.addEventListener('abort', () => {
    for (const { timer } of followed.values()) clearTimeout(timer)
    followed.clear()
  })

  return (tenant, key) => {
    if (background.closed.aborted) return
    const nowMs = clock.monotonicMs()
    forgetQuiet(nowMs)
    const state = { timer: undefined, isFollowing: false, isStale: false }
    const one: Followed = followed.get(key) ?? { ...state, nextAtMs: nowMs, pauseMs: limits.mcpRelistMs }
    followed.set(key, one)
    one.isStale = true
    if (one.timer === undefined && !one.isFollowing) schedule(tenant, key, one)
  }
}
