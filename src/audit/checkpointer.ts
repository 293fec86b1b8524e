import { AppError } from '../contract/app-error.ts'
import type { TenantId } from '../contract/principal.ts'
import type { ReadUnit } from '../contract/unit.ts'
import type { Logger } from '../kernel/logger.ts'
import { checkpointOrigin, type NoteSigner, openCheckpoint, signCheckpoint } from './checkpoint.ts'
import type { CheckpointStore, LogStore } from './ports.ts'
import { rootOf } from './tree.ts'

/**
 * Keeps a signed checkpoint of every tenant's log outside the store. Like a witness, it replaces a checkpoint only by one
 * that extends it: a log that was cut short or rewritten keeps its evidence, and the problem is reported.
 */
export type Checkpointer = Readonly<{
  /** Brings all checkpoints up to date. */
  run(): Promise<void>
  problems(): readonly string[]
  close(): Promise<void>
}>

export function createCheckpointer(deps: {
  read: ReadUnit
  log: Pick<LogStore, 'tenants' | 'head'>
  rootAt(unit: ReadUnit, tenant: TenantId, size: number): Promise<Buffer>
  checkpoints: CheckpointStore
  logId: string
  signer: NoteSigner
  intervalMs: number
  logger: Logger
}): Checkpointer {
  const written = new Map<TenantId, number>()
  const problems = new Map<TenantId, string>()
  let current: Promise<void> | undefined
  let closed = false

  const run = (): Promise<void> => {
    current ??= runOnce().finally(() => {
      current = undefined
    })
    return current
  }

  /** Never rejects: a checkpoint that cannot be written now is written by a later run. */
  async function runOnce(): Promise<void> {
    try {
      for (const tenant of await deps.log.tenants(deps.read)) await tryTenant(tenant)
    } catch (error) {
      deps.logger.warn('no checkpoint could be written', { cause: String(error) })
    }
  }

  async function tryTenant(tenant: TenantId): Promise<void> {
    try {
      await checkpointTenant(tenant)
    } catch (error) {
      deps.logger.warn('a checkpoint could not be written', { tenant, cause: String(error) })
    }
  }

  async function checkpointTenant(tenant: TenantId): Promise<void> {
    const { size, peaks } = await deps.log.head(deps.read, tenant)
    const last = written.get(tenant)
    if (last === size || problems.has(tenant)) return
    if (last === undefined && !(await extendsStored(tenant, size))) {
      problems.set(
        tenant,
        `The log of tenant '${tenant}' does not extend its last checkpoint: entries were removed or rewritten.`,
      )
      return
    }
    const origin = checkpointOrigin(deps.logId, tenant)
    await deps.checkpoints.write(tenant, signCheckpoint({ origin, size, root: rootOf(size, peaks) }, deps.signer))
    written.set(tenant, size)
  }

  /** Asked once per tenant and start: afterwards this process is the one that writes both. */
  async function extendsStored(tenant: TenantId, size: number): Promise<boolean> {
    const note = await deps.checkpoints.read(tenant)
    if (note === undefined) return true
    try {
      const stored = openCheckpoint(note, deps.signer.verifierKey)
      if (stored.size > size) return false
      return (await deps.rootAt(deps.read, tenant, stored.size)).equals(stored.root)
    } catch (error) {
      // A store that fails for a moment says nothing about the log; the next run asks again.
      if (error instanceof AppError && error.code !== 'ERR_STORE_UNAVAILABLE') return false
      throw error
    }
  }

  const timer = setInterval(() => void run(), deps.intervalMs)
  timer.unref()
  return {
    run,
    problems: () => [...problems.values()],
    async close() {
      if (closed) return
      closed = true
      clearInterval(timer)
      await current
      await run()
    },
  }
}
