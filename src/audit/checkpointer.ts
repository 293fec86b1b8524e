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
  const last = new Map<TenantId, Statement>()
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
      // A tenant with a note but without a log is one whose log is gone.
      const tenants = new Set([...(await deps.log.tenants(deps.read)), ...(await deps.checkpoints.tenants())])
      for (const tenant of tenants) await tryTenant(tenant)
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
    if (problems.has(tenant)) return
    try {
      const { size, peaks } = await deps.log.head(deps.read, tenant)
      const root = rootOf(size, peaks)
      const before = last.get(tenant) ?? (await readStored(tenant))
      if (before !== undefined && !(await isExtended(tenant, before, { size, root }))) throw notExtended(tenant)
      if (last.get(tenant)?.size === size) return
      const origin = checkpointOrigin(deps.logId, tenant)
      await deps.checkpoints.write(tenant, signCheckpoint({ origin, size, root }, deps.signer))
      last.set(tenant, { size, root })
    } catch (error) {
      if (!(error instanceof AppError && error.code === 'ERR_LOG_INVALID')) throw error
      problems.set(tenant, error.message)
    }
  }

  async function readStored(tenant: TenantId): Promise<Statement | undefined> {
    const note = await deps.checkpoints.read(tenant)
    if (note === undefined) return undefined
    try {
      return openCheckpoint(note, deps.signer.verifierKey)
    } catch (error) {
      if (error instanceof AppError) throw unreadable(tenant)
      throw error
    }
  }

  /** Asked each time: whoever meddles with the store does not wait for this process to end. */
  async function isExtended(tenant: TenantId, before: Statement, now: Statement): Promise<boolean> {
    if (before.size > now.size) return false
    const root = before.size === now.size ? now.root : await deps.rootAt(deps.read, tenant, before.size)
    return root.equals(before.root)
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

type Statement = Readonly<{ size: number; root: Buffer }>

const notExtended = (tenant: TenantId): AppError =>
  new AppError(
    'ERR_LOG_INVALID',
    `The log of tenant '${tenant}' does not extend its last checkpoint: entries were removed or rewritten.`,
  )

const unreadable = (tenant: TenantId): AppError =>
  new AppError('ERR_LOG_INVALID', `The checkpoint of tenant '${tenant}' cannot be read: its file was altered.`)
