import type { Call } from '../../contract/call.ts'
import { LOCAL_TENANT } from '../../contract/principal.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'

type ServerMode = 'FULL' | 'READONLY' | 'TEST' | 'MINIMAL'
export type ServerService = ReturnType<typeof createServerService>

export function createServerService(deps: {
  clock: Clock
  version: string
  mode: ServerMode
  stages: readonly string[]
  governance: 'permissive' | 'restrictive'
  toolCount(): number
  /** Absent while no store is open. */
  store(): Readonly<{ schemaVersion: number; location: string }> | undefined
  ownerPid(): number
  process(): Readonly<{ pid: number; rssBytes: number; heapUsedBytes: number }>
  /** All present problems, for an operator. */
  problems(): Promise<readonly string[]>
}) {
  const startedMs = deps.clock.monotonicMs()
  return {
    ping: (call: Pick<Call, 'nowMs'>) => ({ ok: true as const, timestamp: isoTime(call.nowMs) }),
    async health(call: Pick<Call, 'nowMs'> & Partial<Pick<Call, 'principal'>>) {
      // The location and problems of the state are only for the people of this installation.
      const isOurs = call.principal === undefined || call.principal.tenant === LOCAL_TENANT
      const store = deps.store()
      const problems = await deps.problems()
      const usage = deps.process()
      return {
        status: problems.length === 0 ? ('ok' as const) : ('degraded' as const),
        mode: deps.mode,
        uptime_ms: Math.round(deps.clock.monotonicMs() - startedMs),
        db: {
          open: store !== undefined,
          user_version: store?.schemaVersion ?? 0,
          path: (isOurs ? store?.location : undefined) ?? '',
        },
        middleware: { stages: [...deps.stages] },
        governance: deps.governance,
        tools: { registered: deps.toolCount() },
        version: deps.version,
        timestamp: isoTime(call.nowMs),
        owner_pid: deps.ownerPid(),
        process: { pid: usage.pid, rss_bytes: usage.rssBytes, heap_used_bytes: usage.heapUsedBytes },
        problems: isOurs ? [...problems] : problems.map(() => 'Ask the operator of this installation.'),
      }
    },
  }
}
