import type { LogStore } from '../../audit/ports.ts'
import { createSessionTree } from '../../audit/session-tree.ts'
import { AppError } from '../../contract/app-error.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { requireTaskNumber } from '../tasks/find-task.ts'
import type { TaskStore } from '../tasks/ports.ts'
import { parseNumberedId } from '../tasks/rules.ts'
import type { RecordScope } from './chain-report.ts'
import type { AuditSession, TrailStore } from './ports.ts'

const SCOPE_TASKS_MAX = 10_000

/** The error for a missing session: the documents specify different codes for different tools. */
type MissingCode = 'ERR_SESSION_NOT_FOUND' | 'ERR_NOT_FOUND'

export type NamedScope = Readonly<{
  scope: RecordScope
  session?: Readonly<{ row: AuditSession; whole: boolean }>
}>

/**
 * Which records an audit session or a task covers. A session begins with its start and ends with its freeze. A shallow session
 * covers its task, a deep one also every task below it.
 */
export function createRecordScopes(deps: {
  trail: Pick<TrailStore, 'findSession'>
  tasks: Pick<TaskStore, 'hasTask' | 'childNumbers'>
  log: Pick<LogStore, 'trailRecords'>
}) {
  const { trail, tasks, log } = deps

  async function requireSession(
    tx: ReadTx,
    tenant: TenantId,
    sessionId: string,
    code: MissingCode = 'ERR_SESSION_NOT_FOUND',
  ): Promise<AuditSession> {
    const number = parseNumberedId('A', sessionId)
    const session = number === undefined ? undefined : await trail.findSession(tx, tenant, number)
    if (session !== undefined) return session
    throw new AppError(code, `Audit session '${sessionId}' does not exist. Start one with audit_session_start.`, {
      field: 'session_id',
    })
  }

  /** Up to `toSeq` while the session is open, and up to its freeze afterwards. */
  async function ofSession(
    tx: ReadTx,
    tenant: TenantId,
    session: AuditSession,
    toSeq: number,
  ): Promise<RecordScope & { tasks: ReadonlySet<number> }> {
    const fromSeq = session.startSeq
    const { finalized } = session
    const end = finalized?.endSeq ?? toSeq
    if (finalized !== null && finalized.onlyTaskNumber !== null) {
      return { tasks: new Set([finalized.onlyTaskNumber]), fromSeq, toSeq: end }
    }
    const covered = new Set([session.taskNumber])
    if (session.scope === 'deep') await addDescendants(tx, tenant, covered)
    return { tasks: covered, fromSeq, toSeq: end }
  }

  async function addDescendants(tx: ReadTx, tenant: TenantId, covered: Set<number>): Promise<void> {
    for (const number of covered) {
      for (const child of await tasks.childNumbers(tx, tenant, number)) covered.add(child)
      if (covered.size > SCOPE_TASKS_MAX) {
        throw new AppError('ERR_TOO_LARGE', `A deep session covers at most ${SCOPE_TASKS_MAX} tasks.`, {
          field: 'scope',
        })
      }
    }
  }

  /** The scope of a pair of optional ids. Both: the session's part of the task. Neither: everything. */
  async function named(
    tx: ReadTx,
    tenant: TenantId,
    input: { task_id?: string | undefined; session_id?: string | undefined },
    code: MissingCode,
  ): Promise<NamedScope> {
    const toSeq = Number.POSITIVE_INFINITY
    const session =
      input.session_id === undefined ? undefined : await requireSession(tx, tenant, input.session_id, code)
    const task = input.task_id === undefined ? undefined : await findTask(tx, tenant, input.task_id, code)
    if (session === undefined) {
      return { scope: { tasks: task === undefined ? 'all' : new Set([task]), fromSeq: 0, toSeq } }
    }
    const scope = await ofSession(tx, tenant, session, toSeq)
    if (task === undefined) return { scope, session: { row: session, whole: true } }
    const covered = new Set(scope.tasks.has(task) ? [task] : [])
    return { scope: { ...scope, tasks: covered }, session: { row: session, whole: false } }
  }

  async function findTask(tx: ReadTx, tenant: TenantId, taskId: string, code: MissingCode) {
    try {
      return await requireTaskNumber(tasks, tx, tenant, taskId, 'task_id')
    } catch (error) {
      if (code !== 'ERR_NOT_FOUND' || !(error instanceof AppError)) throw error
      throw new AppError('ERR_NOT_FOUND', error.message, error.details)
    }
  }

  async function requireCovered(
    tx: ReadTx,
    tenant: TenantId,
    covered: ReadonlySet<number>,
    taskId: string,
  ): Promise<number> {
    const number = await requireTaskNumber(tasks, tx, tenant, taskId, 'task_id')
    if (covered.has(number)) return number
    throw new AppError('ERR_INVALID_INPUT', `Task '${taskId}' is outside the scope of this session.`, {
      field: 'task_id',
      constraint: 'must be within the session',
    })
  }

  /** The document's Merkle tree over the records, in log order, and the time of the newest record. */
  async function treeOf(
    tx: ReadTx,
    tenant: TenantId,
    covered: ReadonlySet<number>,
    range: { fromSeq: number; toSeq: number },
  ) {
    const records: { seq: number; hash: string; atMs: number }[] = []
    for (const number of covered) {
      for (const record of await log.trailRecords(tx, tenant, number, range)) records.push(record)
    }
    records.sort((a, b) => a.seq - b.seq)
    const builder = createSessionTree()
    for (const record of records) builder.add(record.hash)
    return { tree: builder.summary(), lastAtMs: records.at(-1)?.atMs }
  }

  return { requireSession, ofSession, named, requireCovered, treeOf }
}
