import type { Call, Transport } from '../contract/call.ts'
import type { ErrorCode } from '../contract/error-codes.ts'
import type { Principal, TenantId } from '../contract/principal.ts'
import type { RunStatus } from '../contract/run-status.ts'
import type { ReadTx, WriteTx } from '../contract/tx.ts'
import type { Json } from '../kernel/canonical-json.ts'
import type { FeedCursor, SubjectEvent } from './subject-feed.ts'

export type RunKind = 'execution' | 'workflow' | 'intent'
export type { RunStatus } from '../contract/run-status.ts'
export type EndStatus = 'completed' | 'failed' | 'cancelled'
export type RunError = Readonly<{
  code: ErrorCode
  message: string
  details: Readonly<Record<string, Json | undefined>>
}>

/** One run of a program: its input, its progress, its outcome. */
export type Run = Readonly<{
  tenant: TenantId
  id: string
  kind: RunKind
  /** What is run: the agent or the workflow. */
  subjectId: string
  subjectName: string
  subjectVersion: string
  /** The identity that sees it, besides the administrators of the tenant; see `identityOf`. */
  owner: string
  /** The caller that started it. */
  principal: Principal
  parentId: string | null
  rootId: string
  depth: number
  input: Json
  status: RunStatus
  output: Json
  error: RunError | null
  iteration: number
  state: string | null
  startedAtMs: number
  changedAtMs: number
  endedAtMs: number | null
  /** When the run continues without an answer to what it waits for. */
  wakeAtMs: number | null
  /** The key of the wait that a signal answers. */
  waitingFor: string | null
  /** The machine and directory that its workspaces are on. */
  node: string
  /** The server process that runs it. */
  claim: string | null
  cancelRequested: boolean
  lastSequence: number
}>

/** Rows of the journal, numbered from 1 without gaps. */
export type RunEvent = Readonly<{
  sequence: number
  type: string
  /** Set when the row is the result of a step. */
  key: string | null
  payload: Json
  state: string | null
  iteration: number | null
  atMs: number
}>
export type NewEvent = Readonly<{ type: string; payload?: Json }>

export type NewRun = Readonly<{
  /** Made up if absent. */
  id?: string
  kind: RunKind
  subjectId: string
  subjectName: string
  subjectVersion: string
  input: Json
  /** Who it acts for, where that is not the caller that starts it. */
  principal?: Principal
  owner?: string
  /** Levels above it that do not count against the depth limit. */
  freeLevels?: number
  payload?: Json
  /** The root of the run that these rows are of. */
  copiedFrom?: string
  /** Rows that it begins with, as if it had done their steps itself. */
  journal?: readonly Pick<RunEvent, 'type' | 'key' | 'payload' | 'iteration'>[]
}>

export type RunOutcome = Readonly<{ id: string; status: EndStatus; output: Json; error: RunError | null }>

export type ProgramEnd = Readonly<{
  status: 'completed' | 'failed'
  output: Json
  error?: RunError
  /** Written as the last event, instead of `…_completed` and `…_failed`. */
  event?: NewEvent
}>

/**
 * Ordinary code that decides by nothing but its input and what its steps answer. After a restart it is run again from its
 * beginning, and the steps that are recorded answer at once.
 */
export type Program = (run: Run, steps: Steps) => Promise<ProgramEnd>

/** Cleans up after a run, however it ended, before it counts as ended. Its steps are not stopped by a cancellation. */
export type Finalizer = (run: Run, steps: Steps, status: EndStatus) => Promise<void>

export type StepOptions = Readonly<{
  /** The type of the event that carries the result, unless the work says another. */
  type?: string
  /** Record that the work starts, so that after a crash it is known that it may have been done. */
  intent?: boolean
  /** Written before the result; with `intent`, when the work starts. */
  began?: NewEvent
}>

/** Who gave a signal, whatever name the signal itself carries. Journals of earlier programs do not have it. */
export type SignalActor = Readonly<{ name: string; identity: string; door?: Transport }>
type Signal = Readonly<{ kind: 'signal'; payload: Json; actor?: SignalActor }>

export type Steps = Readonly<{
  /** Aborted when the run is cancelled, and when the server ends. */
  signal: AbortSignal
  /** The time of the newest recorded fact that the program has seen. */
  nowMs(): number
  /**
   * Done once: afterwards the recorded result is returned. An AppError is recorded and thrown again in the same way; anything
   * else that is thrown ends the run. `interrupted` says that an earlier try began and left no result; that is known only
   * of steps with `intent`.
   */
  once<T extends Json>(
    key: string,
    work: (
      attempt: Readonly<{ interrupted: boolean }>,
    ) => Promise<Readonly<{ result: T; events?: readonly NewEvent[]; type?: string }>>,
    options?: StepOptions,
  ): Promise<T>
  /** What is recorded of a step already: its result, or its failure. */
  recorded(key: string): Json | undefined
  /** The same, unless the step failed. */
  result(key: string): Json | undefined
  /** Written once, and committed with the next step. Not for parallel branches. */
  note(...events: readonly NewEvent[]): void
  /** Commits what was noted, where the next step may take long and its state should be visible. */
  tell(): Promise<void>
  /** Where the run is, for the caller; committed with the next step. */
  setPosition(at: Readonly<{ iteration?: number; state?: string | null }>): void
  /**
   * Until a signal for this key, or until the time. Meanwhile the run uses no slot, and unless it waits inside a step no memory. One wait
   * at a time. `alongside` is written in the transaction in which the wait begins.
   */
  wait(
    key: string,
    options: Readonly<{ untilMs?: number; details: Json; alongside?: (tx: WriteTx, run: Run) => Promise<void> }>,
  ): Promise<Signal | Readonly<{ kind: 'timeout' }>>
  /** A run of its own, cancelled with this one; resolves at its end. */
  child(key: string, start: NewRun): Promise<RunOutcome>
}>

export type StartingCall = Pick<Call, 'write' | 'principal' | 'nowMs'>
export type ChangingCall = Pick<Call, 'write' | 'principal' | 'nowMs' | 'record'>
export type SignallingCall = ChangingCall & Partial<Pick<Call, 'transport'>>
export type RunFilter = Readonly<{
  kind: RunKind
  subjectId?: string | undefined
  owner?: string | undefined
  status?: RunStatus | undefined
  rootsOnly?: boolean | undefined
  limit: number
  offset?: number | undefined
}>

export type Engine = Readonly<{
  register(kind: RunKind, program: Program, finalizer?: Finalizer): void
  /** In the transaction of the call; the run begins once that is committed. */
  start(call: StartingCall, run: NewRun): Promise<Run>
  /** Answers false for a run that has ended. Its child runs are cancelled too. */
  cancel(call: ChangingCall, id: string): Promise<boolean>
  /** Answers false when the run does not wait with that key: an answer reaches the wait that it was given for, or none. */
  signal(call: SignallingCall, id: string, payload: Json, key: string): Promise<boolean>
  find(tx: ReadTx, tenant: TenantId, id: string): Promise<Run | undefined>
  list(tx: ReadTx, tenant: TenantId, filter: RunFilter): Promise<Run[]>
  count(tx: ReadTx, tenant: TenantId, filter: Omit<RunFilter, 'limit' | 'offset'>): Promise<number>
  /** `total` counts all there are. */
  events(
    tx: ReadTx,
    run: Pick<Run, 'tenant' | 'id' | 'lastSequence'>,
    page: Readonly<{ limit: number; offset: number }>,
  ): Promise<Readonly<{ events: readonly RunEvent[]; total: number }>>
  /**
   * The run at its end, or as it is at `untilMs`, or when `signal` is aborted; undefined when there is none. A caller that waits
   * hears of every change, and after `everyMs` without one that nothing has changed.
   */
  waitForEnd(
    tenant: TenantId,
    id: string,
    options: Readonly<{
      untilMs: number
      signal: AbortSignal
      everyMs?: number
      onProgress?: (run: Run) => void | Promise<void>
    }>,
  ): Promise<Run | undefined>
  /** Events after `fromSequence`, those to come included, up to the end of the run. */
  subscribe(
    tenant: TenantId,
    id: string,
    options: Readonly<{ fromSequence: number; signal: AbortSignal }>,
  ): AsyncIterable<RunEvent>
  /** What the runs of a subject did and do, by time; with `follow` it ends only with the signal. */
  subscribeSubject(
    tenant: TenantId,
    options: Readonly<{
      subjectId: string
      /** Only that owner's runs. */
      owner?: string | undefined
      from?: FeedCursor | undefined
      follow: boolean
      signal: AbortSignal
    }>,
  ): AsyncIterable<SubjectEvent>
  /** Removes an ended run with its child runs; answers false when it has not ended. */
  remove(call: ChangingCall, id: string): Promise<boolean>
  /** Ends the runs of that owner that may not continue. Only to be quick: a run checks by itself before each step. */
  ownerRevoked(tenant: TenantId, owner: string): Promise<void>
  /** Takes up what an earlier process left. */
  begin(): Promise<void>
  close(): Promise<void>
}>

/** Each method reads or writes within the transaction that it is passed. */
export type RunStore = Readonly<{
  insertRun(tx: WriteTx, run: Run): Promise<void>
  /** Writes all that can change. */
  saveRun(tx: WriteTx, run: Run): Promise<void>
  deleteRun(tx: WriteTx, tenant: TenantId, id: string): Promise<void>
  findRun(tx: ReadTx | WriteTx, tenant: TenantId, id: string): Promise<Run | undefined>
  /** The newest first. */
  listRuns(tx: ReadTx, tenant: TenantId, filter: RunFilter): Promise<Run[]>
  countRuns(tx: ReadTx, tenant: TenantId, filter: Omit<RunFilter, 'limit' | 'offset'>): Promise<number>
  /** How far the newest executions of a subject are, the newest first. */
  runPositions(
    tx: ReadTx,
    tenant: TenantId,
    wanted: Readonly<{ subjectId: string; owner?: string | undefined; limit: number }>,
  ): Promise<RunPosition[]>
  /** All runs with that root, the first first. */
  runsUnder(tx: ReadTx | WriteTx, tenant: TenantId, rootId: string): Promise<Run[]>
  /** What has not ended on a node, over all tenants, the oldest first. */
  openRunsOnNode(tx: ReadTx, node: string): Promise<Run[]>
  insertEvent(tx: WriteTx, tenant: TenantId, runId: string, event: StoredEvent): Promise<void>
  listEvents(
    tx: ReadTx | WriteTx,
    tenant: TenantId,
    runId: string,
    page: Readonly<{ after: number; limit: number }>,
  ): Promise<StoredEvent[]>
}>

export type RunPosition = Readonly<{ id: string; changedAtMs: number; lastSequence: number }>

/** An event with its payload as the text that the log has the digest of. */
export type StoredEvent = Readonly<Omit<RunEvent, 'payload'> & { payloadText: string }>

export const isEnded = ({ status }: Pick<Run, 'status'>): boolean =>
  status === 'completed' || status === 'failed' || status === 'cancelled'
