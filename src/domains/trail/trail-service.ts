import type { LogStore } from '../../audit/ports.ts'
import { createSessionTree, type SessionTreeSummary } from '../../audit/session-tree.ts'
import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadUnit } from '../../contract/unit.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { isoTime } from '../../kernel/clock.ts'
import { requireTask } from '../tasks/find-task.ts'
import type { TaskStore } from '../tasks/ports.ts'
import { formatSessionId, formatTaskId, formatThoughtId, parseNumberedId } from '../tasks/rules.ts'
import type { AuditSession, Thought, ThoughtFilter, ThoughtType, TrailStore } from './ports.ts'
import { thoughtBody, thoughtHash } from './thought-hash.ts'

export type ThoughtRecordInput = Readonly<{
  task_id: string
  type: ThoughtType
  content: string
  branch?: string | undefined
  commit_sha?: string | undefined
  tests_run?: readonly string[] | undefined
  blockers?: readonly string[] | undefined
  metadata?: Readonly<Record<string, Json>> | undefined
}>

export type ThoughtListInput = Readonly<{
  task_id?: string | undefined
  session_id?: string | undefined
  type?: ThoughtType | undefined
  limit: number
  offset: number
  verify_chain: boolean
}>

/** Which records a session or a task covers: these tasks, in `[fromSeq, toSeq)` of the log. */
export type RecordScope = Readonly<{ taskNumbers: ReadonlySet<number>; fromSeq: number; toSeq: number }>

export type ChainReport = Readonly<{
  valid: boolean
  totalRecords: number
  integrityScore: number
  broken: readonly Readonly<{
    position: number
    expectedHash: string
    actualHash: string
    chainPosition: number | null
  }>[]
  trace: readonly Readonly<{ position: number; kind: string; task_id: string; hash: string; log_seq: number }>[]
  log: Readonly<{
    size: number
    valid: boolean
    first_bad_seq: number | null
    checkpoint: 'matched' | 'mismatch' | 'none'
  }>
}>

/** Checks records against the log, the log against its tree, and the tree against the checkpoint kept outside. */
export type ChainVerifier = (
  unit: ReadUnit,
  tenant: TenantId,
  scope: RecordScope,
  options: { signal: AbortSignal; progress: (done: number, total: number) => void },
) => Promise<ChainReport>

export type TrailService = ReturnType<typeof createTrailService>

const SCOPE_TASKS_MAX = 10_000
const TRACE_MAX = 10_000

export function createTrailService(deps: {
  trail: TrailStore
  tasks: Pick<TaskStore, 'findTask' | 'childNumbers'>
  log: Pick<LogStore, 'nextSeq' | 'head' | 'trailRecords'>
  verify: ChainVerifier
}) {
  const { trail, tasks, log } = deps

  async function recordThought(call: Call, input: ThoughtRecordInput) {
    const { tenant, actor } = call.principal
    const task = await requireTask(tasks, call.read, tenant, input.task_id, 'task_id')
    const last = await trail.lastThought(call.read, tenant, task.number)
    const taskId = formatTaskId(task.number)
    const recordedAt = isoTime(call.nowMs)
    const previousHash = last?.hash ?? null
    const thought: Thought = {
      number: trail.takeThoughtNumber(call.write, tenant),
      taskNumber: task.number,
      chainPosition: (last?.chainPosition ?? 0) + 1,
      logSeq: log.nextSeq(call.write, tenant),
      type: input.type,
      content: input.content,
      branch: input.branch ?? null,
      commitSha: input.commit_sha ?? null,
      testsRun: input.tests_run ?? null,
      blockers: input.blockers ?? null,
      metadata: input.metadata ?? null,
      hash: thoughtHash({
        task_id: taskId,
        type: input.type,
        content: input.content,
        previous_hash: previousHash,
        recorded_at: recordedAt,
        recorded_by: actor,
      }),
      previousHash,
      recordedAtMs: call.nowMs,
      recordedBy: actor,
    }
    await trail.insertThought(call.write, tenant, thought)
    call.record({
      kind: 'thought_recorded',
      subject: `task:${task.number}`,
      hash: thought.hash,
      body: thoughtBody(thought),
    })
    return {
      thought_id: formatThoughtId(thought.number),
      task_id: taskId,
      type: thought.type,
      hash: thought.hash,
      previous_hash: previousHash,
      recorded_at: recordedAt,
      recorded_by: actor,
      chain_position: thought.chainPosition,
    }
  }

  async function listThoughts(call: Call, input: ThoughtListInput) {
    const { tenant } = call.principal
    return await call.snapshot(async (unit) => {
      const scope = await scopeOf(unit, tenant, input, 'ERR_SESSION_NOT_FOUND')
      const filter: ThoughtFilter = {
        ...(scope === undefined
          ? {}
          : { taskNumbers: [...scope.taskNumbers], fromSeq: scope.fromSeq, toSeq: scope.toSeq }),
        ...(input.type === undefined ? {} : { type: input.type }),
      }
      const thoughts = await trail.listThoughts(unit, tenant, filter, input)
      const report = input.verify_chain
        ? await deps.verify(unit, tenant, scope ?? (await wholeLog(unit, tenant)), verifyOptions(call))
        : undefined
      const links = report?.broken.map((link) => link.chainPosition ?? link.position)
      return {
        ...(input.task_id === undefined ? {} : { task_id: input.task_id }),
        ...(input.session_id === undefined ? {} : { session_id: input.session_id }),
        thought_count: await trail.countThoughts(unit, tenant, filter),
        thoughts: thoughts.map((thought) => ({
          thought_id: formatThoughtId(thought.number),
          task_id: formatTaskId(thought.taskNumber),
          type: thought.type,
          content: thought.content,
          hash: thought.hash,
          previous_hash: thought.previousHash,
          recorded_at: isoTime(thought.recordedAtMs),
          recorded_by: thought.recordedBy,
          chain_position: thought.chainPosition,
          ...(thought.branch === null ? {} : { branch: thought.branch }),
          ...(thought.commitSha === null ? {} : { commit_sha: thought.commitSha }),
          ...(thought.testsRun === null ? {} : { tests_run: [...thought.testsRun] }),
          ...(thought.blockers === null ? {} : { blockers: [...thought.blockers] }),
          ...(thought.metadata === null ? {} : { metadata: { ...thought.metadata } }),
        })),
        ...(report === undefined ? {} : { chain_valid: report.valid }),
        ...(links === undefined || links.length === 0 ? {} : { invalid_links: links }),
      }
    })
  }

  async function startSession(
    call: Call,
    input: { task_id: string; auditor_id: string; reason?: string | undefined; scope: 'shallow' | 'deep' },
  ) {
    const { tenant, actor } = call.principal
    const task = await requireTask(tasks, call.read, tenant, input.task_id, 'task_id')
    const session: AuditSession = {
      number: trail.takeSessionNumber(call.write, tenant),
      taskNumber: task.number,
      auditorId: input.auditor_id,
      reason: input.reason ?? null,
      scope: input.scope,
      startedAtMs: call.nowMs,
      startedBy: actor,
      startSeq: log.nextSeq(call.write, tenant),
      finalized: null,
    }
    await trail.insertSession(call.write, tenant, session)
    const body = {
      session_id: formatSessionId(session.number),
      task_id: formatTaskId(task.number),
      auditor_id: session.auditorId,
      reason: session.reason,
      scope: session.scope,
      started_at: isoTime(call.nowMs),
      started_by: actor,
      start_seq: session.startSeq,
    }
    call.record({ kind: 'session_started', body })
    const { session_id, task_id, auditor_id, started_at, scope } = body
    return { session_id, task_id, auditor_id, started_at, scope }
  }

  async function verifyChain(
    call: Call,
    input: { session_id?: string | undefined; task_id?: string | undefined; full_trace: boolean },
  ) {
    const { tenant } = call.principal
    if (input.session_id === undefined && input.task_id === undefined) {
      throw new AppError('ERR_INVALID_INPUT', "Give 'session_id' or 'task_id': one of them says what to verify.", {
        field: 'session_id',
        constraint: 'session_id or task_id is required',
      })
    }
    const report = await call.snapshot(async (unit) => {
      const scope = await scopeOf(unit, tenant, input, 'ERR_NOT_FOUND')
      return await deps.verify(unit, tenant, scope!, verifyOptions(call))
    })
    return {
      ...(input.session_id === undefined ? {} : { session_id: input.session_id }),
      ...(input.task_id === undefined ? {} : { task_id: input.task_id }),
      chain_valid: report.valid,
      total_records: report.totalRecords,
      integrity_score: report.integrityScore,
      broken_links: report.broken.map((link) => ({
        position: link.position,
        expected_hash: link.expectedHash,
        actual_hash: link.actualHash,
      })),
      verified_at: isoTime(call.nowMs),
      log: report.log,
      ...(input.full_trace
        ? { trace: report.trace.slice(0, TRACE_MAX), trace_truncated: report.trace.length > TRACE_MAX }
        : {}),
    }
  }

  async function finalize(call: Call, input: { session_id: string; task_id?: string | undefined }) {
    const { tenant } = call.principal
    const session = await requireSession(call.read, call.principal.tenant, input.session_id, 'ERR_SESSION_NOT_FOUND')
    if (session.finalized !== null) throw alreadyFinalized(session)
    const endSeq = log.nextSeq(call.write, tenant)
    const scope = await sessionScope(call.read, tenant, session, endSeq)
    const only = input.task_id === undefined ? null : await requireInScope(call, scope, input.task_id)
    const { tree } = await sessionRecords(
      call.read,
      tenant,
      only === null ? scope : { ...scope, taskNumbers: new Set([only]) },
    )
    const finalized = {
      endSeq,
      atMs: call.nowMs,
      onlyTaskNumber: only,
      merkleRoot: tree.root,
      treeDepth: tree.depth,
      leafCount: tree.leafCount,
    }
    if (!(await trail.finalizeSession(call.write, tenant, session.number, finalized))) throw alreadyFinalized(session)
    const finalizedAt = isoTime(call.nowMs)
    call.record({
      kind: 'session_finalized',
      body: {
        session_id: formatSessionId(session.number),
        task_id: only === null ? null : formatTaskId(only),
        merkle_root: tree.root,
        tree_depth: tree.depth,
        leaf_count: tree.leafCount,
        finalized_at: finalizedAt,
        end_seq: endSeq,
      },
    })
    return {
      session_id: formatSessionId(session.number),
      merkle_root: tree.root,
      tree_depth: tree.depth,
      leaf_count: tree.leafCount,
      finalized_at: finalizedAt,
      frozen: true as const,
    }
  }

  async function merkleRoot(call: Call, input: { session_id: string }) {
    const session = await requireSession(call.read, call.principal.tenant, input.session_id, 'ERR_SESSION_NOT_FOUND')
    const sessionId = formatSessionId(session.number)
    if (session.finalized !== null) {
      const { merkleRoot: root, atMs } = session.finalized
      return { session_id: sessionId, merkle_root: root, is_finalized: true, as_of: isoTime(atMs) }
    }
    return await call.snapshot(async (unit) => {
      const { tenant } = call.principal
      const { size } = await log.head(unit, tenant)
      const scope = await sessionScope(unit, tenant, session, size)
      const { tree, lastAtMs } = await sessionRecords(unit, tenant, scope)
      return {
        session_id: sessionId,
        merkle_root: tree.root,
        is_finalized: false,
        as_of: isoTime(lastAtMs ?? session.startedAtMs),
      }
    })
  }

  async function sessionRecords(unit: ReadUnit, tenant: TenantId, scope: RecordScope) {
    const records: { seq: number; hash: string; atMs: number }[] = []
    for (const number of scope.taskNumbers) records.push(...(await log.trailRecords(unit, tenant, number, scope)))
    records.sort((a, b) => a.seq - b.seq)
    const builder = createSessionTree()
    for (const record of records) builder.add(record.hash)
    const tree: SessionTreeSummary = builder.summary()
    return { tree, lastAtMs: records.at(-1)?.atMs }
  }

  async function sessionScope(
    unit: ReadUnit,
    tenant: TenantId,
    session: AuditSession,
    toSeq: number,
  ): Promise<RecordScope> {
    const taskNumbers = new Set([session.taskNumber])
    if (session.scope === 'deep') await addDescendants(unit, tenant, taskNumbers)
    const end = session.finalized?.endSeq ?? toSeq
    const only = session.finalized?.onlyTaskNumber ?? null
    return {
      taskNumbers: only === null ? taskNumbers : new Set([only]),
      fromSeq: session.startSeq,
      toSeq: end,
    }
  }

  async function addDescendants(unit: ReadUnit, tenant: TenantId, taskNumbers: Set<number>): Promise<void> {
    for (const number of taskNumbers) {
      for (const child of await tasks.childNumbers(unit, tenant, number)) taskNumbers.add(child)
      if (taskNumbers.size > SCOPE_TASKS_MAX) {
        throw new AppError('ERR_TOO_LARGE', `A deep session covers at most ${SCOPE_TASKS_MAX} tasks.`, {
          field: 'scope',
        })
      }
    }
  }

  /** What a pair of optional ids covers; undefined when neither is given. Both together: the session's part of the task. */
  async function scopeOf(
    unit: ReadUnit,
    tenant: TenantId,
    input: { task_id?: string | undefined; session_id?: string | undefined },
    missingSession: 'ERR_SESSION_NOT_FOUND' | 'ERR_NOT_FOUND',
  ): Promise<RecordScope | undefined> {
    const { size } = await log.head(unit, tenant)
    const session =
      input.session_id === undefined ? undefined : await requireSession(unit, tenant, input.session_id, missingSession)
    const task = input.task_id === undefined ? undefined : await findTask(unit, tenant, input.task_id, missingSession)
    if (session === undefined) {
      return task === undefined ? undefined : { taskNumbers: new Set([task.number]), fromSeq: 0, toSeq: size }
    }
    const scope = await sessionScope(unit, tenant, session, size)
    if (task === undefined) return scope
    const inScope = scope.taskNumbers.has(task.number)
    return { ...scope, taskNumbers: new Set(inScope ? [task.number] : []) }
  }

  async function findTask(
    unit: ReadUnit,
    tenant: TenantId,
    taskId: string,
    missing: 'ERR_SESSION_NOT_FOUND' | 'ERR_NOT_FOUND',
  ) {
    try {
      return await requireTask(tasks, unit, tenant, taskId, 'task_id')
    } catch (error) {
      const isMissing = error instanceof AppError && error.code === 'ERR_TASK_NOT_FOUND'
      if (missing !== 'ERR_NOT_FOUND' || !isMissing) throw error
      throw new AppError('ERR_NOT_FOUND', error.message, error.details)
    }
  }

  async function requireSession(
    unit: ReadUnit,
    tenant: TenantId,
    sessionId: string,
    code: 'ERR_SESSION_NOT_FOUND' | 'ERR_NOT_FOUND',
  ): Promise<AuditSession> {
    const number = parseNumberedId('A', sessionId)
    const session = number === undefined ? undefined : await trail.findSession(unit, tenant, number)
    if (session !== undefined) return session
    throw new AppError(code, `Audit session '${sessionId}' does not exist. Start one with audit_session_start.`, {
      field: 'session_id',
    })
  }

  async function requireInScope(call: Call, scope: RecordScope, taskId: string): Promise<number> {
    const task = await requireTask(tasks, call.read, call.principal.tenant, taskId, 'task_id')
    if (scope.taskNumbers.has(task.number)) return task.number
    throw new AppError('ERR_INVALID_INPUT', `Task '${taskId}' is outside the scope of this session.`, {
      field: 'task_id',
      constraint: 'must be within the session',
    })
  }

  async function wholeLog(unit: ReadUnit, tenant: TenantId): Promise<RecordScope> {
    const { size } = await log.head(unit, tenant)
    return { taskNumbers: everyTask, fromSeq: 0, toSeq: size }
  }

  async function thoughtIds(unit: ReadUnit, tenant: TenantId, taskNumber: number, limit: number): Promise<string[]> {
    return (await trail.thoughtNumbers(unit, tenant, taskNumber, limit)).map(formatThoughtId)
  }

  return { recordThought, listThoughts, startSession, verifyChain, finalize, merkleRoot, thoughtIds }
}

/** A scope that no task is outside of. */
const everyTask: ReadonlySet<number> = Object.assign(new Set<number>(), { has: () => true })

const verifyOptions = (call: Call) => ({
  signal: call.signal,
  progress: (done: number, total: number) => call.progress({ progress: done, total }),
})

const alreadyFinalized = (session: AuditSession) =>
  new AppError('ERR_ALREADY_FINALIZED', `Audit session '${formatSessionId(session.number)}' is already finalised.`, {
    field: 'session_id',
  })
