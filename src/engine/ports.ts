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
  /** The agent or the workflow. */
  subjectId: string
  subjectName: string
  subjectVersion: string
  /** The identity that sees the run, besides administrators of the tenant; see `identityOf`. */
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
  /** The machine and directory of its workspaces. */
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
  /** Generated if absent. */
  id?: string
  kind: RunKind
  subjectId: string
  subjectName: string
  subjectVersion: string
  input: Json
  /** The identity it acts for, if not the caller that starts it. */
  principal?: Principal
  owner?: string
  /** Levels above it that do not count against the depth limit. */
  freeLevels?: number
  payload?: Json
  /** The root of the run that these rows were copied from. */
  copiedFrom?: string
  /** Rows that the journal begins with, as if the run had done their steps itself. */
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
 * Ordinary code whose decisions depend only on its input and on the results of its steps. After a restart it runs again from its
 * beginning, and recorded steps return at once.
 */
export type Program = (run: Run, steps: Steps) => Promise<ProgramEnd>

/** Cleans up after a run, however it ended, before it counts as ended. A cancellation does not stop its steps. */
export type Finalizer = (run: Run, steps: Steps, status: EndStatus) => Promise<void>

export type StepOptions = Readonly<{
  /** The type of the event with the result, unless the work sets another. */
  type?: string
  /** Record that the work starts, so that after a crash it is known that it may have been done. */
  intent?: boolean
  /** Written before the result; with `intent`, when the work starts. */
  began?: NewEvent
}>

/** Who sent a signal, whatever name the signal itself carries. Journals of earlier programs lack it. */
export type SignalActor = Readonly<{ name: string; identity: string; door?: Transport }>
type Signal = Readonly<{ kind: 'signal'; payload: Json; actor?: SignalActor }>

export type Steps = Readonly<{
  /** Aborted when the run is cancelled, and when the server shuts down. */
  signal: AbortSignal
  /** The time of the newest recorded fact that the program has seen. */
  nowMs(): number
  /**
   * Done once: afterwards the recorded result is returned. An AppError is recorded and thrown again in the same way; any other
   * error ends the run. `interrupted` says that an earlier attempt began and left no result; that is known only for steps with
   * `intent`.
   */
  once<T extends Json>(
    key: string,
    work: (
      attempt: Readonly<{ interrupted: boolean }>,
    ) => Promise<Readonly<{ result: T; events?: readonly NewEvent[]; type?: string }>>,
    options?: StepOptions,
  ): Promise<T>
  /** The recorded result or failure of a step. */
  recorded(key: string): Json | undefined
  /** The same, unless the step failed. */
  result(key: string): Json | undefined
  /** Written once, and committed with the next step. Not for parallel branches. */
  note(...events: readonly NewEvent[]): void
  /** Commits the notes, if the next step may take long and its state should be visible. */
  tell(): Promise<void>
  /** The progress of the run, for the caller; committed with the next step. */
  setPosition(at: Readonly<{ iteration?: number; state?: string | null }>): void
  /**
   * Waits for a signal with this key, or until the time. Meanwhile the run uses no slot, and no memory unless it waits inside a
   * step. One wait at a time. `alongside` is written in the transaction that begins the wait.
   */
  wait(
    key: string,
    options: Readonly<{ untilMs?: number; details: Json; alongside?: (tx: WriteTx, run: Run) => Promise<void> }>,
  ): Promise<Signal | Readonly<{ kind: 'timeout' }>>
  /** A child run, cancelled with this one; resolves when it ends. */
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
  /** In the transaction of the call; the run starts once that is committed. */
  start(call: StartingCall, run: NewRun): Promise<Run>
  /** Answers false for a run that has ended. Its child runs are cancelled too. */
  cancel(call: ChangingCall, id: string): Promise<boolean>
  /** Answers false if the run does not wait with that key: a signal reaches its own wait, or none. */
  signal(call: SignallingCall, id: string, payload: Json, key: string): Promise<boolean>
  find(tx: ReadTx, tenant: TenantId, id: string): Promise<Run | undefined>
  list(tx: ReadTx, tenant: TenantId, filter: RunFilter): Promise<Run[]>
  count(tx: ReadTx, tenant: TenantId, filter: Omit<RunFilter, 'limit' | 'offset'>): Promise<number>
  /** `total` counts all matches. */
  events(
    tx: ReadTx,
    run: Pick<Run, 'tenant' | 'id' | 'lastSequence'>,
    page: Readonly<{ limit: number; offset: number }>,
  ): Promise<Readonly<{ events: readonly RunEvent[]; total: number }>>
  /**
   * The run at its end, or as it is at `untilMs`, or when `signal` is aborted; undefined if there is none. A waiting caller is
   * notified of every change, and after `everyMs` without a change.
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
  /** The events of a subject's runs, by time; with `follow` it ends only with the signal. */
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
  /** Ends that owner's runs that may not continue. Only for speed: a run checks by itself before each step. */
  ownerRevoked(tenant: TenantId, owner: string): Promise<void>
  /** Resumes what an earlier process left. */
  begin(): Promise<void>
  close(): Promise<void>
}>

/** Each method reads or writes within the transaction that it is passed. */
export type RunStore = Readonly<{
  insertRun(tx: WriteTx, run: Run): Promise<void>
  /** Writes all mutable columns. */
  saveRun(tx: WriteTx, run: Run): Promise<void>
  deleteRun(tx: WriteTx, tenant: TenantId, id: string): Promise<void>
  findRun(tx: ReadTx | WriteTx, tenant: TenantId, id: string): Promise<Run | undefined>
  /** The newest first. */
  listRuns(tx: ReadTx, tenant: TenantId, filter: RunFilter): Promise<Run[]>
  countRuns(tx: ReadTx, tenant: TenantId, filter: Omit<RunFilter, 'limit' | 'offset'>): Promise<number>
  /** The progress of a subject's newest executions, the newest first. */
  runPositions(
    tx: ReadTx,
    tenant: TenantId,
    filter: Readonly<{ subjectId: string; owner?: string | undefined; limit: number }>,
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
