import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { inScope, type RecordScope } from './chain-report.ts'
import type { Thought, TrailStore } from './ports.ts'

/**
 * The thought rows of a scope, by number, which is log order unless someone tampered with them. Rows that the log names out of
 * order are looked up by number; rows that it never names are left over at the end.
 */
export type ThoughtRows = Readonly<{
  /** Whether `fill` must be called before `next`. */
  isDry(): boolean
  fill(): Promise<void>
  /** The next row in order, without taking it. */
  next(): Thought | undefined
  takeNext(): void
  take(number: number): Promise<Thought | undefined>
  rest(): Promise<Thought[]>
}>

const PAGE = 500
/** Up to this many rows of the named tasks are read at once; beyond it, they are filtered from all rows, page by page. */
const AT_ONCE_MAX = 2_000
const TASKS_AT_ONCE_MAX = 500

export function createThoughtRows(
  trail: Pick<TrailStore, 'listThoughts' | 'countThoughts'>,
  tx: ReadTx,
  tenant: TenantId,
  scope: RecordScope,
): ThoughtRows {
  const skipped = new Map<number, Thought>()
  let page: readonly Thought[] = []
  let at = 0
  let lastNumber: number | undefined
  let finished = false

  const belongs = (row: Thought): boolean =>
    inScope(scope, row.taskNumber) && row.logSeq >= scope.fromSeq && row.logSeq < scope.toSeq

  async function readAtOnce(tasks: ReadonlySet<number>): Promise<boolean> {
    if (tasks.size > TASKS_AT_ONCE_MAX) return false
    const filter = { taskNumbers: [...tasks] }
    if ((await trail.countThoughts(tx, tenant, filter)) > AT_ONCE_MAX) return false
    page = (await trail.listThoughts(tx, tenant, filter, { limit: AT_ONCE_MAX, offset: 0 })).filter(belongs)
    finished = true
    return true
  }

  async function fill(): Promise<void> {
    if (lastNumber === undefined) {
      lastNumber = Number.MIN_SAFE_INTEGER
      if (scope.tasks !== 'all' && (await readAtOnce(scope.tasks))) return
    }
    while (at >= page.length && !finished) {
      const rows = await trail.listThoughts(tx, tenant, { afterNumber: lastNumber }, { limit: PAGE, offset: 0 })
      finished = rows.length < PAGE
      lastNumber = rows.at(-1)?.number ?? lastNumber
      page = rows.filter(belongs)
      at = 0
    }
  }

  const isDry = (): boolean => at >= page.length && !finished
  const next = (): Thought | undefined => page[at]

  return {
    isDry,
    fill,
    next,
    takeNext() {
      at++
    },
    async take(number) {
      const known = skipped.get(number)
      if (known !== undefined) {
        skipped.delete(number)
        return known
      }
      for (;;) {
        if (isDry()) await fill()
        const row = next()
        if (row === undefined || row.number > number) return undefined
        at++
        if (row.number === number) return row
        skipped.set(row.number, row)
      }
    },
    async rest() {
      const rows = [...skipped.values()]
      for (;;) {
        if (isDry()) await fill()
        const row = next()
        if (row === undefined) return rows.sort((left, right) => left.number - right.number)
        rows.push(row)
        at++
      }
    },
  }
}
