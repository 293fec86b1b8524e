import type { RefusedConnection } from '../domains/workspaces/backend.ts'
import type { Clock } from '../kernel/clock.ts'

/** Of one workspace; the one that is longest ago makes room. */
const RETAINED_MAX = 50
const HOST_CHARS_MAX = 260

/** What each workspace was refused on its way out, to explain why something does not work. */
export function createRefusals({ clock }: Readonly<{ clock: Clock }>) {
  const retained = new Map<string, Map<string, RefusedConnection>>()
  return {
    note(client: string, target: string, reason: string): void {
      if (target === '') return
      const own = retained.get(client) ?? new Map<string, RefusedConnection>()
      retained.set(client, own)
      const host = target.slice(0, HOST_CHARS_MAX)
      const key = `${host} ${reason}`
      const count = (own.get(key)?.count ?? 0) + 1
      own.delete(key)
      own.set(key, { host, reason, count, lastAtMs: clock.nowMs() })
      if (own.size > RETAINED_MAX) own.delete(own.keys().next().value!)
    },
    /** The newest first. */
    of: (client: string): readonly RefusedConnection[] => [...(retained.get(client)?.values() ?? [])].reverse(),
    forget: (client: string): void => void retained.delete(client),
  }
}
