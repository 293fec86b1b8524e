import { canonicalText, type EntityName, entities, idNumber, type Members, type Row } from './entities.ts'
import type { ReportFinding } from './findings.ts'

type Rows = AsyncIterable<Members>

/** Compares a table with the rebuilt rows, in any order of the table. Returns the number of rows read. */
export async function compareTable(
  table: EntityName,
  actualRows: Rows,
  expectedRows: ReadonlyMap<string, Row>,
  report: ReportFinding,
): Promise<number> {
  const missing = new Set(expectedRows.keys())
  let count = 0
  for await (const actual of actualRows) {
    count++
    const key = String(actual[entities[table].key])
    const expected = expectedRows.get(key)
    if (expected === undefined || !missing.delete(key)) report({ table, row: key, rule: 'row.extra' })
    else compareRow(table, key, actual, expected, report)
  }
  for (const key of missing) report({ table, row: key, rule: 'row.missing' })
  return count
}

/** Compares immutable rows with the log while it is read, so that neither has to be held in memory. */
type OrderedComparison = Readonly<{
  /** The rows that the log creates, in order of their number. */
  expect(expected: Row): Promise<void>
  /** Everything left in the table is extra. Returns the number of rows read. */
  finish(): Promise<number>
  close(): Promise<void>
}>

export function createOrderedComparison(table: EntityName, rows: Rows, report: ReportFinding): OrderedComparison {
  const { key, idLetter } = entities[table]
  const iterator = rows[Symbol.asyncIterator]()
  let waiting: Members | undefined
  let count = 0
  let isDone = false

  const peek = async (): Promise<Members | undefined> => {
    if (waiting !== undefined || isDone) return waiting
    const { done, value } = await iterator.next()
    if (done === true) {
      isDone = true
      return undefined
    }
    count++
    waiting = value
    return value
  }

  return {
    async expect(expected) {
      const id = String(expected[key])
      const number = idNumber(idLetter!, id)!
      for (let row = await peek(); row !== undefined; row = await peek()) {
        const actual = idNumber(idLetter!, row[key])
        if (actual !== undefined && actual > number) break
        waiting = undefined
        if (actual === number) return compareRow(table, id, row, expected, report)
        report({ table, row: String(row[key]), rule: 'row.extra' })
      }
      report({ table, row: id, rule: 'row.missing' })
    },
    async finish() {
      for (let row = await peek(); row !== undefined; row = await peek()) {
        waiting = undefined
        report({ table, row: String(row[key]), rule: 'row.extra' })
      }
      return count
    },
    async close() {
      if (!isDone) await iterator.return?.()
    },
  }
}

function compareRow(table: EntityName, key: string, actual: Members, expected: Row, report: ReportFinding): void {
  for (const field of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
    const [want, have] = [expected[field] ?? null, actual[field] ?? null]
    if (want === have) continue
    const expectedText = canonicalText(want)
    if (expectedText !== undefined && expectedText === canonicalText(have)) continue
    report({ table, row: key, rule: 'row.field', field, expected: want, actual: have })
  }
}
