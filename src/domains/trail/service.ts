import type { LogStore } from '../../audit/ports.ts'
import { thoughtHash } from '../../audit/thought-chain.ts'
import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { isoTime } from '../../kernel/clock.ts'
import { requireTaskNumber } from '../tasks/find-task.ts'
import type { TaskStore } from '../tasks/ports.ts'
import { formatSessionId, formatTaskId, formatThoughtId } from '../tasks/rules.ts'
import { BROKEN_LINKS_MAX, type ChainReport, type ChainVerifier } from './chain-report.ts'
import { finalizedBody, startedBody } from './check-session.ts'
import type { AuditSession, Thought, ThoughtFilter, ThoughtType, TrailStore } from './ports.ts'
import { createRecordScopes, type NamedScope } from './record-scopes.ts'
import { thoughtBody } from './thought-hash.ts'

type ThoughtRecordInput = Readonly<{
  task_id: string
  type: ThoughtType
  content: string
  branch?: string | undefined
  commit_sha?: string | undefined
  tests_run?: readonly string[] | undefined
  blockers?: readonly string[] | undefined
  metadata?: Readonly<Record<string, Json>> | undefined
}>

type ThoughtListInput = Readonly<{
  task_id?: string | undefined
  session_id?: string | undefined
  type?: ThoughtType | undefined
  limit: number
  offset: number
  verify_chain: boolean
}>

export type TrailService = ReturnType<typeof createTrailService>

const TRACE_MAX = 10_000

export function createTrailService(deps: {
  trail: TrailStore
  tasks: Pick<TaskStore, 'findTask' | 'childNumbers' | 'hasTask'>
  log: Pick<LogStore, 'nextSeq' | 'head' | 'trailRecords'>
  verify: ChainVerifier
}) {
  const { trail, tasks, log } = deps
  const scopes = createRecordScopes(deps)

  async function recordThought(call: Call, input: ThoughtRecordInput) {
    const { tenant, actor } = call.principal
    const taskNumber = await requireTaskNumber(tasks, call.read, tenant, input.task_id, 'task_id')
    const last = await trail.lastThought(call.read, tenant, taskNumber)
    const taskId = formatTaskId(taskNumber)
    const recordedAt = isoTime(call.nowMs)
    const previousHash = last?.hash ?? null
    const thought: Thought = {
      number: trail.takeThoughtNumber(call.write, tenant),
      taskNumber,
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
      subject: `task:${taskNumber}`,
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
    const verify = input.verify_chain ? await deps.verify(tenant) : undefined
    return await call.snapshot(async (tx) => {
      const named = await scopes.named(tx, tenant, input, 'ERR_SESSION_NOT_FOUND')
      const filter = toFilter(named, input.type)
      const thoughts = await trail.listThoughts(tx, tenant, filter, input)
      const report = await verify?.(tx, named.scope, { ...verifyOptions(call), traceMax: 0 })
      return {
        ...(input.task_id === undefined ? {} : { task_id: input.task_id }),
        ...(input.session_id === undefined ? {} : { session_id: input.session_id }),
        thought_count: await trail.countThoughts(tx, tenant, filter),
        thoughts: thoughts.map((thought) => toListed(requireReadable(thought))),
        ...(report === undefined ? {} : chainVerdict(report)),
      }
    })
  }

  async function startSession(
    call: Call,
    input: { task_id: string; auditor_id: string; reason?: string | undefined; scope: 'shallow' | 'deep' },
  ) {
    const { tenant, actor } = call.principal
    const taskNumber = await requireTaskNumber(tasks, call.read, tenant, input.task_id, 'task_id')
    const session: AuditSession = {
      number: trail.takeSessionNumber(call.write, tenant),
      taskNumber,
      auditorId: input.auditor_id,
      reason: input.reason ?? null,
      scope: input.scope,
      startedAtMs: call.nowMs,
      startedBy: actor,
      startSeq: log.nextSeq(call.write, tenant),
      finalized: null,
    }
    await trail.insertSession(call.write, tenant, session)
    const body = startedBody(session)
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
      throw new AppError('ERR_INVALID_INPUT', "Pass 'session_id' or 'task_id' to say what to verify.", {
        field: 'session_id',
        constraint: 'session_id or task_id is required',
      })
    }
    const verify = await deps.verify(tenant)
    const traceMax = input.full_trace ? TRACE_MAX : 0
    const report = await call.snapshot(async (tx) => {
      const { scope, session } = await scopes.named(tx, tenant, input, 'ERR_NOT_FOUND')
      const more = { traceMax, withTaskRows: true as const, ...(session && { session }) }
      return await verify(tx, scope, { ...verifyOptions(call), ...more })
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
      ...(report.brokenCount > BROKEN_LINKS_MAX ? { broken_links_truncated: true as const } : {}),
      ...(input.full_trace ? { trace: report.trace, trace_truncated: report.totalRecords > TRACE_MAX } : {}),
    }
  }

  async function finalize(call: Call, input: { session_id: string; task_id?: string | undefined }) {
    const { tenant } = call.principal
    const session = await scopes.requireSession(call.read, tenant, input.session_id)
    if (session.finalized !== null) throw alreadyFinalized(session)
    const endSeq = log.nextSeq(call.write, tenant)
    const scope = await scopes.ofSession(call.read, tenant, session, endSeq)
    const only =
      input.task_id === undefined ? null : await scopes.requireCovered(call.read, tenant, scope.tasks, input.task_id)
    const { tree } = await scopes.treeOf(call.read, tenant, only === null ? scope.tasks : new Set([only]), scope)
    const finalized = {
      endSeq,
      atMs: call.nowMs,
      onlyTaskNumber: only,
      merkleRoot: tree.root,
      treeDepth: tree.depth,
      leafCount: tree.leafCount,
    }
    if (!(await trail.finalizeSession(call.write, tenant, session.number, finalized))) throw alreadyFinalized(session)
    call.record({ kind: 'session_finalized', body: finalizedBody(session, finalized) })
    return {
      session_id: formatSessionId(session.number),
      merkle_root: tree.root,
      tree_depth: tree.depth,
      leaf_count: tree.leafCount,
      finalized_at: isoTime(call.nowMs),
      frozen: true as const,
    }
  }

  async function merkleRoot(call: Call, input: { session_id: string }) {
    const { tenant } = call.principal
    const session = await scopes.requireSession(call.read, tenant, input.session_id)
    const sessionId = formatSessionId(session.number)
    if (session.finalized !== null) {
      const { merkleRoot: root, atMs } = session.finalized
      return { session_id: sessionId, merkle_root: root, is_finalized: true, as_of: isoTime(atMs) }
    }
    return await call.snapshot(async (tx) => {
      const { size } = await log.head(tx, tenant)
      const scope = await scopes.ofSession(tx, tenant, session, size)
      const { tree, lastAtMs } = await scopes.treeOf(tx, tenant, scope.tasks, scope)
      return {
        session_id: sessionId,
        merkle_root: tree.root,
        is_finalized: false,
        as_of: isoTime(lastAtMs ?? session.startedAtMs),
      }
    })
  }

  async function thoughtIds(tx: ReadTx, tenant: TenantId, taskNumber: number, limit: number): Promise<string[]> {
    return (await trail.thoughtNumbers(tx, tenant, taskNumber, limit)).map(formatThoughtId)
  }

  return { recordThought, listThoughts, startSession, verifyChain, finalize, merkleRoot, thoughtIds }
}

function toFilter({ scope }: NamedScope, type: ThoughtType | undefined): ThoughtFilter {
  return {
    ...(scope.tasks === 'all' ? {} : { taskNumbers: [...scope.tasks] }),
    ...(scope.fromSeq === 0 ? {} : { fromSeq: scope.fromSeq }),
    ...(Number.isFinite(scope.toSeq) ? { toSeq: scope.toSeq } : {}),
    ...(type === undefined ? {} : { type }),
  }
}

/** A row that this program did not write can be verified, but not displayed. */
function requireReadable(thought: Thought): Thought {
  const isList = (value: unknown) => value === null || Array.isArray(value)
  const { testsRun, blockers, metadata, recordedAtMs } = thought
  const hasTime = !Number.isNaN(new Date(recordedAtMs).getTime())
  if (isList(testsRun) && isList(blockers) && typeof metadata === 'object' && hasTime) return thought
  throw new AppError(
    'ERR_LOG_INVALID',
    `Thought '${formatThoughtId(thought.number)}' is damaged in the store. Use audit_verify_chain to find other damage.`,
    { thought_id: formatThoughtId(thought.number) },
  )
}

const toListed = (thought: Thought) => ({
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
})

/** A list of thoughts concerns thoughts only: audit_verify_chain reports an invalid task record. */
function chainVerdict({ broken }: ChainReport): { chain_valid: boolean; invalid_links?: number[] } {
  const concerning = broken.filter((link) => link.what !== 'task')
  const links = concerning.flatMap((link) => (link.chainPosition === null ? [] : [link.chainPosition]))
  const positions = [...new Set(links)].sort((left, right) => left - right)
  return {
    chain_valid: concerning.length === 0,
    ...(positions.length === 0 ? {} : { invalid_links: positions }),
  }
}

const verifyOptions = (call: Call) => ({
  signal: call.signal,
  progress: (done: number, total: number) => call.progress({ progress: done, total }),
})

const alreadyFinalized = (session: AuditSession) =>
  new AppError('ERR_ALREADY_FINALIZED', `Audit session '${formatSessionId(session.number)}' is already finalised.`, {
    field: 'session_id',
  })
