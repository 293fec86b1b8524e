import { AppError } from '../contract/app-error.ts'
import type { TenantId } from '../contract/principal.ts'
import type { ReadTx } from '../contract/tx.ts'
import { createKeyedMutex } from '../kernel/keyed-mutex.ts'
import type { Logger } from '../kernel/logger.ts'
import { checkpointOrigin, type NoteSigner, openCheckpoint, signCheckpoint } from './checkpoint.ts'
import type { AnchorStore, CheckpointStore, LogStore } from './ports.ts'
import { rootOf } from './tree.ts'

/**
 * Stands between the log of each tenant and the code that continues or signs it. Like a witness, it keeps a checkpoint
 * outside the store and lets a log grow only from there:
 *
 * 1. A log that does not extend the checkpoint that is kept of it is halted: nothing is written to it or signed of it.
 * 2. So is a log whose checkpoint cannot be read, or is gone although the store knows that one was kept here.
 * 3. Nothing is signed for anybody before a checkpoint that covers it is kept.
 * 4. Only `recover` lets a halted log go on, and puts the checkpoint aside as evidence.
 */
export type LogGuard = Readonly<{
  /** Throws for a halted log. The first time for each tenant it looks, which takes a moment; then it only knows. */
  requireSound(tenant: TenantId): void | Promise<void>
  /** To be asked inside a transaction: throws, and halts the log, when it has become shorter than its checkpoint. */
  requireGrown(tenant: TenantId, size: number): void
  /** Brings the checkpoint up to date; throws for a halted log. `isLast` also replaces one that was removed. */
  keep(tenant: TenantId, isLast?: boolean): Promise<void>
  /** The signed note over a state of the log that the caller has read. */
  sign(tenant: TenantId, statement: Statement): Promise<string>
  halted(): readonly TenantId[]
  /** What is wrong with each of them. */
  problems(): readonly string[]
  /** Undefined when the log is not halted. It counts once the call that asked for it is in the log. */
  recover(tenant: TenantId, name: string): Promise<Recovery | undefined>
}>

type Statement = Readonly<{ size: number; root: Buffer }>

/** The log as it goes on, and what was given up: the checkpoint as it was, if there was one, and where it is kept now. */
export type Recovery = Readonly<{
  problem: string
  size: number
  root: string
  oldCheckpoint: string | null
  evidence: string | null
}>

export function createLogGuard(deps: {
  read: ReadTx
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
  /** Logs that were recovered, until their new checkpoint is kept, with the size they had. */
  const released = new Map<TenantId, number>()
  /** Two that compare and replace the same checkpoint could each undo the other's. */
  const { withLock } = createKeyedMutex()

  function halt(tenant: TenantId, problem: AppError): AppError {
    if (!problems.has(tenant)) deps.logger.error(problem.message, { tenant })
    problems.set(tenant, problem)
    sound.delete(tenant)
    return problem
  }

  /** The log as it is now, compared with what is kept of it. Asked each time: nobody who meddles waits for our end. */
  async function examine(tenant: TenantId): Promise<{ now: Statement; before: Statement | undefined }> {
    const known = problems.get(tenant)
    if (known !== undefined) throw known
    try {
      const { size, peaks } = await deps.log.head(deps.read, tenant)
      const now = { size, root: rootOf(size, peaks) }
      const before = released.has(tenant) ? undefined : (last.get(tenant) ?? (await readRetained(tenant)))
      if (before !== undefined && !(await isExtended(tenant, before, now))) throw notExtended(tenant, before, now)
      if (before !== undefined) last.set(tenant, before)
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
      // Another process in the same directory may have kept the first one between both looks.
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
    // Nobody goes on from a recovery that is not in the log, and a log without entries has nothing to be cut.
    if (now.size === released.get(tenant) || (now.size === 0 && before === undefined)) return
    const isRetained = before?.size === now.size && !(isLast && (await checkpoints.read(tenant)) === undefined)
    if (!isRetained) await checkpoints.write(tenant, noteOf(tenant, now))
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

const NEXT_STEPS =
  'Nothing is written to this log or signed of it. Run castellan verify, and put the right files back; to go on from here on purpose, call log_recover, which keeps the checkpoint as evidence'

const invalid = (tenant: TenantId, problem: string): AppError =>
  new AppError('ERR_LOG_INVALID', `${problem} ${NEXT_STEPS}: castellan call log_recover tenant=${tenant} reason=WHY`, {
    tenant,
  })

const notExtended = (tenant: TenantId, before: Statement, now: Pick<Statement, 'size'>): AppError =>
  invalid(
    tenant,
    `The log of tenant '${tenant}' does not extend its last checkpoint, which covers ${before.size} entries; it has ${now.size}. Entries were removed or rewritten, or an older database was put back.`,
  )

const unreadable = (tenant: TenantId): AppError =>
  invalid(tenant, `The checkpoint of tenant '${tenant}' cannot be read: its file was altered.`)

const checkpointMissing = (tenant: TenantId, size: number): AppError =>
  invalid(
    tenant,
    `The checkpoint of tenant '${tenant}' is gone: the store knows that one was kept here when the log had ${size} entries.`,
  )
