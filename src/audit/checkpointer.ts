import { AppError } from '../contract/app-error.ts'
import type { TenantId } from '../contract/principal.ts'
import type { ReadTx } from '../contract/tx.ts'
import type { Logger } from '../kernel/logger.ts'
import type { LogGuard } from './log-guard.ts'
import type { CheckpointStore, LogStore } from './ports.ts'

/** Keeps the checkpoint of every tenant's log up to date while the program runs, and at its end. */
export type Checkpointer = Readonly<{
  /** Brings all checkpoints up to date. What it finds wrong is with the guard. */
  run(): Promise<void>
  close(): Promise<void>
}>

export function createCheckpointer(deps: {
  read: ReadTx
  log: Pick<LogStore, 'tenants'>
  checkpoints: Pick<CheckpointStore, 'tenants'>
  guard: LogGuard
  intervalMs: number
  logger: Logger
}): Checkpointer {
  let current: Promise<void> | undefined
  let closed = false

  const run = (isLast = false): Promise<void> => {
    current ??= runOnce(isLast).finally(() => {
      current = undefined
    })
    return current
  }

  /** Never rejects: a checkpoint that cannot be written now is written by a later run. */
  async function runOnce(isLast: boolean): Promise<void> {
    try {
      // A tenant with a note but without a log is one whose log is gone.
      const tenants = new Set([...(await deps.log.tenants(deps.read)), ...(await deps.checkpoints.tenants())])
      for (const tenant of tenants) await tryTenant(tenant, isLast)
    } catch (error) {
      deps.logger.warn('no checkpoint could be written', { cause: String(error) })
    }
  }

  async function tryTenant(tenant: TenantId, isLast: boolean): Promise<void> {
    try {
      await deps.guard.keep(tenant, isLast)
    } catch (error) {
      // A halted log was told when it was found.
      if (error instanceof AppError && error.code === 'ERR_LOG_INVALID') return
      deps.logger.warn('a checkpoint could not be written', { tenant, cause: String(error) })
    }
  }

  const timer = setInterval(() => void run(), deps.intervalMs)
  timer.unref()
  return {
    run,
    async close() {
      if (closed) return
      closed = true
      clearInterval(timer)
      await current
      await run(true)
    },
  }
}
