import { textTable } from './terminal.ts'

type Row = Readonly<Record<string, unknown>>

const CELL_CHARACTERS_MAX = 48

/**
 * An answer that is a list, as a table with what stands beside the list below it; undefined for an answer of another shape.
 * Columns are the plain fields of the rows, as many as fit into the width.
 */
export function answerTable(answer: Row, width: number): string | undefined {
  const lists = Object.entries(answer).filter((pair): pair is [string, Row[]] => isRows(pair[1]))
  const others = Object.entries(answer).filter(([, value]) => !isRows(value))
  const [list] = lists
  if (list === undefined || lists.length > 1 || others.some(([, value]) => !isPlain(value))) return undefined
  const [, rows] = list
  const columns = columnsOf(rows).filter((column) => rows.some((row) => cell(row[column]) !== ''))
  const cells = rows.map((row) => columns.map((column) => cell(row[column])))
  const table = [columns.map((column) => column.toUpperCase()), ...cells]
  const count = fitting(table, width)
  if (count === 0) return undefined
  const hidden = columns.slice(count)
  const more = hidden.length === 0 ? '' : `Not shown: ${hidden.join(', ')}. Use --json for everything.\n`
  const rest = others.map(([key, value]) => `${key}: ${cell(value)}\n`).join('')
  return `${textTable(table.map((row) => row.slice(0, count)))}${more}${rest}`
}

const isRows = (value: unknown): value is Row[] =>
  Array.isArray(value) &&
  value.length > 0 &&
  value.every((item) => typeof item === 'object' && item !== null && !Array.isArray(item))

const isPlain = (value: unknown): boolean => typeof value !== 'object' || value === null

/** Of all rows, in the order in which they first appear; what no row has as a plain value is no column. */
function columnsOf(rows: readonly Row[]): string[] {
  const names = new Set(rows.flatMap((row) => Object.keys(row)))
  return [...names].filter((name) => rows.every((row) => isPlain(row[name]) || isWords(row[name])))
}

const isWords = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string')

/** One line, without anything that a terminal would obey. */
function cell(value: unknown): string {
  const text = isWords(value) ? value.join(', ') : value === null || value === undefined ? '' : String(value)
  const line = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ').trim()
  const characters = [...line]
  return characters.length > CELL_CHARACTERS_MAX ? `${characters.slice(0, CELL_CHARACTERS_MAX - 1).join('')}…` : line
}

/** How many columns go into the width; at least one if there is any. */
function fitting(table: readonly (readonly string[])[], width: number): number {
  const columns = table[0]?.length ?? 0
  let used = 0
  for (let index = 0; index < columns; index++) {
    used += Math.max(...table.map((row) => row[index]!.length)) + (index === 0 ? 0 : 2)
    if (used > width && index > 0) return index
  }
  return columns
}
