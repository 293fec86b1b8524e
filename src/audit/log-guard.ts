import { AppError } from '../contract/app-error.ts'
import type { TenantId } from '../contract/principal.ts'
import type { ReadTx } from '../contract/tx.ts'
import { counted } from '../kernel/counted.ts'
import { createKeyedMutex } from '../kernel/keyed-mutex.ts'
import type { Logger } from '../kernel/logger.ts'
import { checkpointOrigin, type NoteSigner, openCheckpoint, signCheckpoint } from './checkpoint.ts'
import type { AnchorStore, CheckpointStore, LogStore } from './ports.ts'
import { rootOf } from './tree.ts'

/**
 * Stands between the log of each tenant and the code that continues or signs it. Like a witness, it stores a checkpoint outside
 * the store and lets a log grow only from there:
 *
 * 1. A log that does not extend its stored checkpoint is halted: nothing is written to it, and none of it is signed.
 * 2. So is a log whose checkpoint cannot be read, or is missing although the store records that there was one.
 * 3. Nothing is signed before a checkpoint that covers it is stored, and no checkpoint is stored before the log is on disk: a
 *    power cut could otherwise leave a log that is shorter than its checkpoint.
 * 4. Only `recover` lets a halted log continue, and it stores the checkpoint as evidence.
 */
export type LogGuard = Readonly<{
  /** Throws for a halted log. The first call for a tenant reads the log; later calls use the result. */
  requireSound(tenant: TenantId): void | Promise<void>
  /** Call this inside a transaction: throws, and halts the log, if it has become shorter than its checkpoint. */
  requireGrown(tenant: TenantId, size: number): void
  /** Updates the checkpoint; throws for a halted log. `isLast` also replaces one that was removed. */
  keep(tenant: TenantId, isLast?: boolean): Promise<void>
  /** The signed note over a state of the log that the caller has read. */
  sign(tenant: TenantId, statement: Statement): Promise<string>
  halted(): readonly TenantId[]
  /** The problem of each halted log. */
  problems(): readonly string[]
  /** Undefined if the log is not halted. It takes effect once the call that requested it is in the log. */
  recover(tenant: TenantId, name: string): Promise<Recovery | undefined>
}>

type Statement = Readonly<{ size: number; root: Buffer }>

/** The log as it continues, and what was abandoned: the former checkpoint, if there was one, and where it is stored now. */
export type Recovery = Readonly<{
  problem: string
  size: number
  root: string
  oldCheckpoint: string | null
  evidence: string | null
}>

export function createLogGuard(deps: {
  read: ReadTx
  /** Resolves when everything that can be read is on disk. */
  synced(): Promise<void>
  log: Pick<LogStore, 'head'>
  rootAt(tx: ReadTx, tenant: TenantId, size: number): Promise<Buffer>
  checkpoints: CheckpointStore
  anchors: AnchorStore
  logId: string
  signer: NoteSigner
  logger: Logger
}): LogGuard {
  const { checkpoints, anchors } = deps
  const last = new Map<TenantId, Statement>()
  const problems = new Map<TenantId, AppError>()
  const sound = new Set<TenantId>()
  const anchored = new Set<TenantId>()
  /** Recovered logs, with their size, until their new checkpoint is stored. */
  const released = new Map<TenantId, number>()
  /** Two processes that compare and replace the same checkpoint could undo each other's change. */
  const { withLock } = createKeyedMutex()

  function halt(tenant: TenantId, problem: AppError): AppError {
    if (!problems.has(tenant)) deps.logger.error(problem.message, { tenant })
    problems.set(tenant, problem)
    sound.delete(tenant)
    return problem
  }

  /**
   * The log as it is now, compared with its checkpoint. Checked each time, because tampering can happen while the process runs.
   */
  async function examine(tenant: TenantId): Promise<{ now: Statement; before: Statement | undefined }> {
    const known = problems.get(tenant)
    if (known !== undefined) throw known
    try {
      const { size, peaks } = await deps.log.head(deps.read, tenant)
      const now = { size, root: rootOf(size, peaks) }
      const before = released.has(tenant) ? undefined : (last.get(tenant) ?? (await readRetained(tenant)))
      if (before !== undefined && !(await isExtended(tenant, before, now))) throw notExtended(tenant, before, now)
      if (before !== undefined) last.set(tenant, before)
      else if (size > 0 && !sound.has(tenant) && !released.has(tenant)) deps.logger.warn(UNPROTECTED, { tenant, size })
      sound.add(tenant)
      return { now, before }
    } catch (error) {
      if (error instanceof AppError && error.code === 'ERR_LOG_INVALID') throw halt(tenant, error)
      throw error
    }
  }

  async function readRetained(tenant: TenantId): Promise<Statement | undefined> {
    let note = await checkpoints.read(tenant)
    if (note === undefined) {
      const size = await anchors.find(tenant)
      if (size === undefined) return undefined
      // Another process in the same directory may have stored the first one between the two reads.
      note = await checkpoints.read(tenant)
      if (note === undefined) throw checkpointMissing(tenant, size)
    }
    try {
      const opened = openCheckpoint(note, deps.signer.verifierKey)
      if (opened.origin === checkpointOrigin(deps.logId, tenant)) return opened
    } catch (error) {
      if (!(error instanceof AppError)) throw error
    }
    throw unreadable(tenant)
  }

  async function isExtended(tenant: TenantId, before: Statement, now: Statement): Promise<boolean> {
    if (before.size > now.size) return false
    const root = before.size === now.size ? now.root : await deps.rootAt(deps.read, tenant, before.size)
    return root.equals(before.root)
  }

  const noteOf = (tenant: TenantId, { size, root }: Statement): string =>
    signCheckpoint({ origin: checkpointOrigin(deps.logId, tenant), size, root }, deps.signer)

  async function keepNow(tenant: TenantId, isLast: boolean): Promise<void> {
    const { now, before } = await examine(tenant)
    // A recovery does not count until it is in the log, and a log without entries cannot be truncated.
    if (now.size === released.get(tenant) || (now.size === 0 && before === undefined)) return
    const isRetained = before?.size === now.size && !(isLast && (await checkpoints.read(tenant)) === undefined)
    if (!isRetained) {
      await deps.synced()
      await checkpoints.write(tenant, noteOf(tenant, now))
    }
    last.set(tenant, now)
    released.delete(tenant)
    if (anchored.has(tenant)) return
    if ((await anchors.find(tenant)) === undefined) await anchors.note(tenant, now.size)
    anchored.add(tenant)
  }

  return {
    requireSound(tenant) {
      if (sound.has(tenant)) return undefined
      const problem = problems.get(tenant)
      if (problem !== undefined) throw problem
      return withLock(tenant, async () => {
        if (!sound.has(tenant)) await examine(tenant)
      })
    },
    requireGrown(tenant, size) {
      const before = last.get(tenant)
      if (before === undefined || size >= before.size) return
      throw halt(tenant, notExtended(tenant, before, { size }))
    },
    keep: (tenant, isLast = false) => withLock(tenant, () => keepNow(tenant, isLast)),
    async sign(tenant, statement) {
      await withLock(tenant, async () => {
        const retained = last.get(tenant)
        if (retained !== undefined && retained.size >= statement.size) await examine(tenant)
        else await keepNow(tenant, false)
      })
      return noteOf(tenant, statement)
    },
    halted: () => [...problems.keys()],
    problems: () => [...problems.values()].map(({ message }) => message),
    recover: (tenant, name) =>
      withLock(tenant, async () => {
        await examine(tenant).catch(() => {})
        const problem = problems.get(tenant)
        if (problem === undefined) return undefined
        const { size, peaks } = await deps.log.head(deps.read, tenant)
        const oldCheckpoint = (await checkpoints.read(tenant)) ?? null
        const evidence = oldCheckpoint === null ? null : await checkpoints.setAside(tenant, oldCheckpoint, name)
        last.delete(tenant)
        problems.delete(tenant)
        released.set(tenant, size)
        sound.add(tenant)
        const root = rootOf(size, peaks).toString('hex')
        return { problem: problem.message, size, root, oldCheckpoint, evidence }
      }),
  }
}

const UNPROTECTED =
  'The log has entries, but neither a checkpoint nor a mark that there was one. It continues as it is, with a new checkpoint. Unless this program was killed in its first second or has just joined, compare the log with a checkpoint that you saved elsewhere.'

const NEXT_STEPS =
  'Until this is resolved, nothing is written to the log and no checkpoint is signed. Run castellan verify, then restore the correct files. To continue from the present state instead, call log_recover, which keeps the checkpoint as evidence'

const invalid = (tenant: TenantId, problem: string): AppError =>
  new AppError('ERR_LOG_INVALID', `${problem} ${NEXT_STEPS}: castellan call log_recover tenant=${tenant} reason=WHY`, {
    tenant,
  })

const notExtended = (tenant: TenantId, before: Statement, now: Pick<Statement, 'size'>): AppError =>
  invalid(
    tenant,
    `The log of tenant '${tenant}' has ${counted(now.size, 'entry', 'entries')} and does not extend its last checkpoint, which covers ${before.size}. Entries were removed or rewritten, or an older database was restored.`,
  )

const unreadable = (tenant: TenantId): AppError =>
  invalid(tenant, `The checkpoint of tenant '${tenant}' cannot be read. Its file was altered.`)

const checkpointMissing = (tenant: TenantId, size: number): AppError =>
  invalid(
    tenant,
    `The checkpoint of tenant '${tenant}' is missing. The store records that one was written when the log had ${counted(size, 'entry', 'entries')}.`,
  )
