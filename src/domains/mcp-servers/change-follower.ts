import { limits } from '../../contract/limits.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { Clock } from '../../kernel/clock.ts'

type Followed = { timer: NodeJS.Timeout | undefined; nextAtMs: number; pauseMs: number }

/**
 * Follows servers that announce changed tools. The first time the list is fetched at once. A server that keeps announcing changes
 * is asked after pauses that double, because every changed list is written and announced to all its callers. Announcements during
 * a pause are followed when it ends.
 */
export function createChangeFollower(
  clock: Pick<Clock, 'monotonicMs'>,
  follow: (tenant: TenantId, key: string) => Promise<unknown>,
): (tenant: TenantId, key: string) => void {
  const followed = new Map<string, Followed>()

  function forgetQuiet(nowMs: number): void {
    for (const [key, { timer, nextAtMs, pauseMs }] of followed) {
      if (timer === undefined && nowMs >= nextAtMs + pauseMs) followed.delete(key)
    }
  }

  return (tenant, key) => {
    const nowMs = clock.monotonicMs()
    forgetQuiet(nowMs)
    let known = followed.get(key)
    if (known === undefined) {
      known = { timer: undefined, nextAtMs: nowMs, pauseMs: limits.mcpRelistMs }
      followed.set(key, known)
    }
    if (known.timer !== undefined) return
    const one = known
    one.timer = setTimeout(
      () => {
        one.timer = undefined
        one.nextAtMs = clock.monotonicMs() + one.pauseMs
        one.pauseMs = Math.min(one.pauseMs * 2, limits.mcpRelistMsMax)
        void follow(tenant, key)
      },
      Math.max(0, one.nextAtMs - nowMs),
    ).unref()
  }
}
