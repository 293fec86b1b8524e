import { openCheckpoint } from '../../audit/checkpoint.ts'
import type { AnchorStore, CheckpointStore, LogHead, LogStore, RawLogEntry } from '../../audit/ports.ts'
import { createStoredTree, rootOrUndefined, rootsFromLeaves, type StoredTree } from '../../audit/stored-tree.ts'
import { AppError } from '../../contract/app-error.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { TaskStore } from '../tasks/ports.ts'
import { type ChainVerifier, createTally, MISSING, UNKNOWN, type VerifyOptions } from './chain-report.ts'
import { createRecordCheck } from './check-records.ts'
import { createSessionCheck } from './check-session.ts'
import type { TrailStore } from './ports.ts'
import { createTaskRows } from './task-rows.ts'
import { createThoughtRows } from './thought-rows.ts'

/**
 * Verifies the records of a scope. The log is the authority and is itself verified from its first entry:
 *
 * 1. Every entry's text must hash to the leaf stored beside it, and every stored node must follow from its children.
 * 2. Positions must have no gap, the head must name the resulting tree, and the checkpoint stored outside the database must be
 *    a prefix of it: otherwise the log was truncated or history was rewritten.
 * 3. A record is verified if its entry is, its own hash can be recomputed, a thought links to the one before it in its task,
 *    and the index and the row in the thoughts table match exactly.
 * 4. A thought row without an entry counts as one broken record. So does a lost or damaged entry, unless it is known to have
 *    been another task's.
 * 5. If an inner node is wrong, the records below it count as broken, unless one of them already does or the leaves alone
 *    still give the known roots.
 * 6. If the log verifies, the row of a task is rebuilt from all its records; a row that differs counts as one broken record.
 * 7. A head, a checkpoint or a session that does not verify, without a broken record that explains it, counts as one.
 */
const PAGE = 500

type ChainVerifierDeps = Readonly<{
  log: Pick<LogStore, 'head' | 'rawEntries'>
  trail: Pick<TrailStore, 'listThoughts' | 'countThoughts'>
  checkpoints: Pick<CheckpointStore, 'read'>
  anchors: Pick<AnchorStore, 'find'>
  tasks: Pick<TaskStore, 'findTask' | 'dependencyNumbers'>
  verifierKey: string
}>

export function createChainVerifier(deps: ChainVerifierDeps): ChainVerifier {
  return async (tenant) => {
    const note = await deps.checkpoints.read(tenant)
    const isMissing = note === undefined && (await deps.anchors.find(tenant)) !== undefined
    const anchor = isMissing ? unreadable : readAnchor(note, deps.verifierKey)
    return async (tx, scope, options) => {
      const head = await deps.log.head(tx, tenant)
      const tally = createTally()
      const session =
        options.session === undefined ? undefined : createSessionCheck(options.session.row, options.session.whole)
      const taskRows = options.withTaskRows === true ? createTaskRows({ tasks: deps.tasks, tx, tenant }) : undefined
      const records = createRecordCheck({
        taskRows,
        scope,
        tally,
        rows: createThoughtRows(deps.trail, tx, tenant, scope),
        trail: deps.trail,
        tx,
        tenant,
        headSize: head.size,
        noRecordAt: options.session?.row.startSeq,
        traceMax: options.traceMax,
        onHash: (hash) => session?.leaf(hash),
      })
      const pages = () => readPages(deps, tx, tenant, head.size, options)
      const tree = createStoredTree()
      const roots = createRootNotes(tree, [head.size, anchor.size])
      for await (const page of pages()) {
        for (const entry of page) {
          if (entry.seq > tree.size()) await records.lost(tree.size(), entry.seq, UNKNOWN)
          const leafIntact = tree.add(entry)
          roots.note()
          session?.entry(entry)
          const unusual = records.entry(entry, leafIntact, tree.lastLeaf)
          if (unusual !== undefined) await unusual
        }
      }
      await records.lost(tree.size(), head.size, UNKNOWN)
      await records.lost(Math.max(tree.size(), head.size), anchor.size, anchor.root ?? UNKNOWN)
      await records.rowsWithoutEntry()
      const known = await judgeTree({ tree, roots: roots.known, head, anchor, pages, distrust: tally.distrust })
      const anchored = known.headHolds && known.checkpoint !== 'mismatch'
      const unexplained = !anchored && records.logDamage() === 0 && !known.distrusts
      const wrong = session?.problem(tally.brokenCount() === 0) ?? (unexplained ? known.statement : undefined)
      if (wrong !== undefined) tally.bad(anchorLink(...wrong))
      const valid = tree.firstBadSeq() === null && anchored && tree.size() === head.size
      if (valid && taskRows !== undefined && scope.tasks !== 'all') {
        const problems = await taskRows.problems(scope.tasks)
        for (const problem of problems) tally.bad({ ...problem, what: 'task', chainPosition: null })
      }
      return {
        ...tally.summary(),
        trace: records.trace,
        log: {
          size: tree.size(),
          valid,
          first_bad_seq: tree.firstBadSeq() ?? firstLost(tree.size(), head.size, anchor.size),
          checkpoint: known.checkpoint,
        },
      }
    }
  }
}

type Anchor = Readonly<{ state: 'none' | 'unreadable' | 'signed'; size: number; root: string | undefined }>

function readAnchor(note: string | undefined, verifierKey: string): Anchor {
  if (note === undefined) return { state: 'none', size: 0, root: undefined }
  try {
    const { size, root } = openCheckpoint(note, verifierKey)
    return { state: 'signed', size, root: root.toString('hex') }
  } catch (error) {
    if (error instanceof AppError) return unreadable
    throw error
  }
}

const unreadable: Anchor = { state: 'unreadable', size: 0, root: undefined }

async function* readPages(
  deps: ChainVerifierDeps,
  tx: ReadTx,
  tenant: TenantId,
  total: number,
  options: VerifyOptions,
): AsyncGenerator<readonly RawLogEntry[]> {
  for (let from = 0; ; ) {
    options.signal.throwIfAborted()
    const page = await deps.log.rawEntries(tx, tenant, from, PAGE)
    if (page.length === 0) return
    yield page
    from = page.at(-1)!.seq + 1
    options.progress(Math.min(from, total), total)
    // Yields between two pages.
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** Records the roots of the stored tree at the sizes that a checkpoint or the head names. */
function createRootNotes(tree: StoredTree, sizes: readonly [number, number]) {
  const known = new Map<number, string | undefined>()
  const [first, second] = sizes
  const note = () => {
    const size = tree.size()
    if (size === first || size === second) known.set(size, rootOrUndefined(size, tree.peaks()))
  }
  note()
  return { note, known }
}

async function judgeTree(the: {
  tree: StoredTree
  roots: ReadonlyMap<number, string | undefined>
  head: LogHead
  anchor: Anchor
  pages(): AsyncIterable<readonly RawLogEntry[]>
  distrust: ReturnType<typeof createTally>['distrust']
}) {
  const { tree, head, anchor } = the
  const judge = (roots: ReadonlyMap<number, string | undefined>) => {
    const holds = anchor.state === 'signed' && roots.get(anchor.size) === anchor.root
    const checkpoint =
      anchor.state === 'none' ? ('none' as const) : holds ? ('matched' as const) : ('mismatch' as const)
    return {
      headHolds: roots.get(head.size) !== undefined && roots.get(head.size) === headRoot(head),
      checkpoint,
      /** The root that the checkpoint or head claims, and the root of the tree. */
      statement:
        checkpoint === 'mismatch'
          ? ([anchor.root, roots.get(anchor.size)] as const)
          : ([headRoot(head), roots.get(head.size)] as const),
      distrusts: false,
    }
  }
  if (tree.distrusted().length === 0) return judge(the.roots)
  const byLeaves = judge(await rootsFromLeaves(the.pages(), [head.size, anchor.size]))
  if (byLeaves.headHolds && byLeaves.checkpoint !== 'mismatch') return byLeaves
  const concerns = tree.distrusted().map((range) => the.distrust(range))
  return { ...judge(the.roots), distrusts: concerns.includes(true) }
}

const headRoot = (head: LogHead): string | undefined => rootOrUndefined(head.size, head.peaks)

const firstLost = (size: number, headSize: number, checkpointSize: number): number | null =>
  size === headSize ? (checkpointSize > size ? size : null) : Math.min(size, headSize)

const anchorLink = (expected: string | undefined, actual: string | undefined) => ({
  expectedHash: expected ?? MISSING,
  actualHash: actual ?? MISSING,
  what: 'anchor' as const,
  chainPosition: null,
})
