import { AppError } from '../contract/app-error.ts'
import type { TenantId } from '../contract/principal.ts'
import type { ReadTx } from '../contract/tx.ts'
import type { Logger } from '../kernel/logger.ts'
import type { LogGuard } from './log-guard.ts'
import type { CheckpointStore, LogStore } from './ports.ts'

/** Updates the checkpoint of every tenant's log while the program runs, and at its end. */
export type Checkpointer = Readonly<{
  /** Updates all checkpoints. The guard knows what it finds wrong. */
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
      // A tenant with a note but without a log has lost its log.
      const tenants = new Set([...(await deps.log.tenants(deps.read)), ...(await deps.checkpoints.tenants())])
      for (const tenant of tenants) await tryTenant(tenant, isLast)
    } catch (error) {
      deps.logger.warn('checkpoint run failed', { cause: String(error) })
    }
  }

  async function tryTenant(tenant: TenantId, isLast: boolean): Promise<void> {
    try {
      await deps.guard.keep(tenant, isLast)
    } catch (error) {
      // A halted log was reported when it was found.
      if (error instanceof AppError && error.code === 'ERR_LOG_INVALID') return
      deps.logger.warn('checkpoint could not be written', { tenant, cause: String(error) })
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
