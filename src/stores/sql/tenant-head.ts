import { firstRowId } from './row-ids.ts'
import { type Session, statement } from './statements.ts'
import { enterTrail } from './trail-index.ts'

/**
 * The head row of one tenant, held in memory while a batch of transactions runs: its log size, the peaks of the tree, and the
 * counters of the public numbers. It is read once under lock, changed by each transaction, restored if a transaction fails, and
 * written once before the commit.
 */
type HeadState = {
  size: number
  peaks: Buffer
  taskCount: number
  thoughtCount: number
  sessionCount: number
  /** Only in SQLite; see `trail-index.ts`. */
  trailTo: number
  /** Projects whose number of tasks is ahead of their row. Immutable. */
  projectCounts: ReadonlyMap<string, number> | undefined
  /** The newest deferred work of the batch. */
  deferred: Deferred | undefined
}

/** An immutable list, so that a failed transaction drops its own part with the state. */
type Deferred = Readonly<{ work: DeferredWork; earlier: Deferred | undefined }>
type DeferredWork = (session: Session) => Promise<void>

export type TenantHead = {
  readonly tenant: string
  /** Only in SQLite: the id of the first log entry. */
  readonly firstId: number
  state: HeadState
  changed: boolean
}

const insertHead = statement<{ tenant: string; peaks: Uint8Array }>('tenant-head.insertHead')(
  (db, arg, { dialect, sql }) =>
    db
      .insertInto('log_heads')
      .values({
        tenant: arg('tenant'),
        peaks: arg('peaks'),
        size: 0,
        task_count: 0,
        thought_count: 0,
        session_count: 0,
        ...(dialect === 'sqlite'
          ? { tenant_number: sql<number>`(select coalesce(max(tenant_number), 0) + 1 from log_heads)` }
          : {}),
      })
      .onConflict((conflict) => conflict.column('tenant').doNothing()),
)

const lockHead = statement<{ tenant: string }>('tenant-head.lockHead')((db, arg, { dialect }) => {
  const query = db.selectFrom('log_heads').selectAll().where('tenant', '=', arg('tenant'))
  return dialect === 'postgres' ? query.forUpdate() : query
})

const updateHead = statement<{
  tenant: string
  size: number
  peaks: Uint8Array
  task_count: number
  thought_count: number
  session_count: number
  trail_to: number
}>('tenant-head.updateHead')((db, arg, { dialect }) =>
  db
    .updateTable('log_heads')
    .set({
      size: arg('size'),
      peaks: arg('peaks'),
      task_count: arg('task_count'),
      thought_count: arg('thought_count'),
      session_count: arg('session_count'),
      ...(dialect === 'sqlite' ? { trail_to: arg('trail_to') } : {}),
    })
    .where('tenant', '=', arg('tenant')),
)

const storeProjectCount = statement<{ tenant: string; slug: string; task_count: number }>(
  'tenant-head.storeProjectCount',
)((db, arg) =>
  db
    .updateTable('projects')
    .set({ task_count: arg('task_count') })
    .where('tenant', '=', arg('tenant'))
    .where('slug', '=', arg('slug')),
)

/** Reads and locks the head; the first write of a tenant creates it. */
export async function lockTenantHead(session: Session, tenant: string): Promise<TenantHead> {
  let row = await session.get(lockHead, { tenant })
  if (row === undefined) {
    await session.run(insertHead, { tenant, peaks: new Uint8Array(0) })
    row = await session.get(lockHead, { tenant })
  }
  if (row === undefined) throw new Error('the head row of a tenant vanished under its lock')
  return {
    tenant,
    firstId: session.dialect === 'sqlite' ? firstRowId(row.tenant_number) : 0,
    changed: false,
    state: {
      size: row.size,
      peaks: Buffer.from(row.peaks),
      taskCount: row.task_count,
      thoughtCount: row.thought_count,
      sessionCount: row.session_count,
      trailTo: row.trail_to,
      projectCounts: undefined,
      deferred: undefined,
    },
  }
}

/** Written out because it runs for every transaction, and a spread costs several times as much. */
export const copyOfState = (state: HeadState): HeadState => ({
  size: state.size,
  peaks: state.peaks,
  taskCount: state.taskCount,
  thoughtCount: state.thoughtCount,
  sessionCount: state.sessionCount,
  trailTo: state.trailTo,
  projectCounts: state.projectCounts,
  deferred: state.deferred,
})

/**
 * Runs after all transactions of the batch. For an index that is cheap to update in bulk and expensive in single steps: SQLite's
 * full-text index flushes at every statement that could be rolled back.
 */
export function deferWork(head: TenantHead, work: DeferredWork): void {
  head.state.deferred = { work, earlier: head.state.deferred }
}

/** The same, unless this work was deferred last. */
export function deferOnce(head: TenantHead, work: DeferredWork): void {
  if (head.state.deferred?.work !== work) deferWork(head, work)
}

export async function runDeferred(session: Session, head: TenantHead): Promise<void> {
  const inOrder: DeferredWork[] = []
  for (let next = head.state.deferred; next !== undefined; next = next.earlier) inOrder.push(next.work)
  head.state.deferred = undefined
  for (const work of inOrder.reverse()) await work(session)
}

/** Updates the rows of projects; call it before they are read in a transaction that may have counted. */
export async function storeProjectCounts(session: Session, head: TenantHead): Promise<void> {
  const { projectCounts } = head.state
  if (projectCounts === undefined) return
  for (const [slug, task_count] of projectCounts) {
    await session.run(storeProjectCount, { tenant: head.tenant, slug, task_count })
  }
  head.state.projectCounts = undefined
}

export async function storeTenantHead(session: Session, head: TenantHead): Promise<void> {
  if (head.state.deferred !== undefined) await runDeferred(session, head)
  await storeProjectCounts(session, head)
  if (!head.changed) return
  if (session.dialect === 'sqlite') await enterTrail(session, head)
  const { size, peaks, taskCount, thoughtCount, sessionCount, trailTo } = head.state
  await session.run(updateHead, {
    tenant: head.tenant,
    size,
    peaks,
    task_count: taskCount,
    thought_count: thoughtCount,
    session_count: sessionCount,
    trail_to: trailTo,
  })
}
