import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import { isPlatformOperator, LOCAL_TENANT } from '../../contract/principal.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { SteadyClock } from '../../kernel/steady-clock.ts'
import type { ClockFloorStore } from './ports.ts'

export type ClockKeeper = Awaited<ReturnType<typeof openClockKeeper>>

/**
 * Records the latest time in the store, so that nothing that had expired becomes valid again when the clock is set
 * back, not even after a restart. It is written periodically, at shutdown, and when something is refused as expired:
 * never for each call.
 */
export async function openClockKeeper(deps: {
  clock: SteadyClock
  database: Pick<Database, 'read' | 'write'>
  store: ClockFloorStore
  logger: Logger
}) {
  const { clock, database, store, logger } = deps
  let storedMs = (await store.find(database.read)) ?? Number.NEGATIVE_INFINITY
  clock.raise(storedMs)
  let isTold = false

  function problem(): string | undefined {
    const aheadMs = clock.aheadMs()
    if (aheadMs < limits.clockBehindToldMs) return undefined
    return `The clock of this machine is ${Math.ceil(aheadMs / 1000)} s behind the latest time that this store has seen, ${isoTime(clock.nowMs())}. So that nothing expired becomes valid again, time continues from there at half speed until the clock has caught up. If the later time was wrong, run castellan call clock_reset reason=WHY`
  }

  function tell(): void {
    const text = problem()
    if (text !== undefined && !isTold) logger.warn(text)
    isTold = text !== undefined
  }

  /** Never rejects: if writing fails, the next attempt writes it. */
  async function keep(): Promise<void> {
    tell()
    const nowMs = clock.nowMs()
    if (nowMs <= storedMs) return
    const before = storedMs
    storedMs = nowMs
    try {
      await database.write(LOCAL_TENANT, (tx) => store.raise(tx, nowMs))
    } catch (error) {
      storedMs = Math.min(storedMs, before)
      logger.warn('the latest time could not be saved', { cause: String(error) })
    }
  }

  async function reset(call: Call, input: { reason: string }) {
    if (!isPlatformOperator(call.principal)) {
      const message = `Only an operator of the tenant '${LOCAL_TENANT}' may set the time back.`
      throw new AppError('ERR_PERMISSION_DENIED', message, { rule: 'operator of the installation' })
    }
    const from = clock.nowMs()
    const to = from - clock.aheadMs()
    await call.transact((tx) => store.reset(tx, to))
    storedMs = to
    clock.accept()
    const body = { from: isoTime(from), to: isoTime(to), reason: input.reason }
    call.record({ kind: 'clock_reset', body })
    return { from: body.from, to: body.to }
  }

  tell()
  const timer = setInterval(() => void keep(), limits.clockSavedMs)
  timer.unref()
  return {
    problem,
    reset,
    /** Something was refused as expired at `atMs`, and must stay expired. */
    noteExpired(atMs: number): void {
      if (storedMs <= atMs) void keep()
    },
    async close(): Promise<void> {
      clearInterval(timer)
      await keep()
    },
  }
}
