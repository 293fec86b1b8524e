import type { LogStore } from '../audit/ports.ts'
import { AppError } from '../contract/app-error.ts'
import type { Database } from '../contract/database.ts'
import { limits } from '../contract/limits.ts'
import type { OwnerDirectory } from '../contract/owner-directory.ts'
import { identityOf, type Principal } from '../contract/principal.ts'
import type { ReadTx, WriteTx } from '../contract/tx.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Logger } from '../kernel/logger.ts'
import type { EndStatus, NewRun, Run, RunOutcome, RunStore } from './ports.ts'

export type EngineDeps = Readonly<{
  store: RunStore
  log: LogStore
  database: Pick<Database, 'read' | 'write' | 'flush' | 'kind'>
  clock: Clock
  logger: Logger
  newId(): string
  /** The machine and directory of the workspaces; runs of other nodes are left alone. */
  node: string
  /** Names this server process in the rows of the runs that it owns. */
  bootId: string
  isAlive(bootId: string): boolean | Promise<boolean>
  /** Runs of an owner end when the owner is revoked. */
  owners: Pick<OwnerDirectory, 'isRevoked'>
  /** Called for a new run in the transaction that creates it. `caller` is the caller, or the parent run. */
  noteStarted?(tx: WriteTx, run: Run, caller: Principal, copiedFrom: string | undefined): Promise<void>
  /** A read-only server runs nothing. */
  isReadOnly: boolean
  /** Runs that are active at once, without their child runs. */
  concurrentMax: number
  /** Pending runs of one owner. */
  pendingMax: number
  /** How often a store that other processes also write to is reconciled. */
  reconcileMs: number
}>

export function newRunOf(
  deps: Pick<EngineDeps, 'newId' | 'node' | 'bootId'>,
  start: NewRun,
  caller: Principal,
  nowMs: number,
  parent: Run | undefined,
): Run {
  const id = start.id ?? deps.newId()
  const depth = parent === undefined ? 0 : parent.depth + 1
  if (depth - (start.freeLevels ?? 0) > limits.runDepthMax) {
    throw new AppError(
      'ERR_DEPTH_EXCEEDED',
      `'${start.subjectName.slice(0, 64).toWellFormed()}' would exceed the limit of ${limits.runDepthMax} levels of child runs. Use fewer levels of judges and sub-workflows.`,
      { depth, depth_max: limits.runDepthMax },
    )
  }
  // A run is bound by its owner's rights, not by the gateway through which it was started.
  const { gateway: _, ...owner } = start.principal ?? caller
  const rootId = parent?.rootId ?? id
  const principal = { ...owner, runRootId: rootId }
  return {
    tenant: principal.tenant,
    id,
    kind: start.kind,
    subjectId: start.subjectId,
    subjectName: start.subjectName,
    subjectVersion: start.subjectVersion,
    owner: start.owner ?? parent?.owner ?? identityOf(principal),
    principal,
    parentId: parent?.id ?? null,
    rootId,
    depth,
    input: start.input,
    status: 'pending',
    output: null,
    error: null,
    iteration: 0,
    state: null,
    startedAtMs: nowMs,
    changedAtMs: nowMs,
    endedAtMs: null,
    wakeAtMs: null,
    waitingFor: null,
    node: deps.node,
    claim: deps.bootId,
    cancelRequested: false,
    lastSequence: 0,
  }
}

/** The identity that a run acts for, and its owner: the run continues while both are valid. */
export async function isAbandoned(
  { owners }: Pick<EngineDeps, 'owners'>,
  tx: ReadTx | WriteTx,
  { tenant, owner, principal }: Run,
): Promise<boolean> {
  if (await owners.isRevoked(tx, tenant, owner)) return true
  const identity = identityOf(principal)
  return identity !== owner && (await owners.isRevoked(tx, tenant, identity))
}

export const ownerRevokedError = (): AppError =>
  new AppError(
    'ERR_STARTER_GONE',
    'The API key that started this run was revoked or has expired, so the run was ended. Start it again with a valid key.',
  )

export const outcomeOf = ({ id, status, output, error }: Run): RunOutcome => ({
  id,
  status: status as EndStatus,
  output,
  error,
})
