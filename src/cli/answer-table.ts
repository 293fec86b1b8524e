import { textTable } from './terminal.ts'

type Row = Readonly<Record<string, unknown>>

const CELL_CHARACTERS_MAX = 48
/** A last column is cut to what is left of the line, unless that is less than this. */
const CUT_CHARACTERS_MIN = 12

/**
 * A list answer as a table, with the other fields below it; undefined for an answer of another shape. Of the columns as many are
 * shown as fit, the most telling first, and the others are named.
 */
export function answerTable(answer: Row, width: number): string | undefined {
  const lists = Object.entries(answer).filter((pair): pair is [string, Row[]] => isRows(pair[1]))
  const others = Object.entries(answer).filter(([, value]) => !isRows(value))
  const [list] = lists
  if (list === undefined || lists.length > 1 || others.some(([, value]) => !isPlain(value))) return undefined
  const [name, rows] = list
  const rest = others.map(([key, value]) => `${key}: ${cell(value)}\n`).join('')
  if (rows.length === 0) return `No ${words(name).join(' ').toLowerCase()}.\n${rest}`
  const columns = columnsOf(rows)
  const cells = rows.map((row) => columns.map((column) => cell(row[column])))
  const table = fitted([columns.map((column) => words(column).join('_').toUpperCase()), ...cells], width)
  const hidden = columns.slice(table[0]!.length)
  const more = hidden.length === 0 ? '' : `Not shown: ${hidden.join(', ')}. Use --json for everything.\n`
  return `${textTable(table)}${more}${rest}`
}

const isRows = (value: unknown): value is Row[] => Array.isArray(value) && value.every(isRecord)

const isRecord = (item: unknown): item is Row => typeof item === 'object' && item !== null && !Array.isArray(item)

const isPlain = (value: unknown): boolean => typeof value !== 'object' || value === null

/** `entityType` and `entity_type` are the same words. */
const words = (name: string): string[] => name.replace(/([a-z0-9])([A-Z])/g, '$1_$2').split('_')

/** What a person looks for first: what it is called and how it is, then other plain values, then what has parts, then ids. */
const TELLING = /^(name|title|status|state|outcome|error|reason|event_type)$|_name$/
const IDENTIFIER = /(^|_)id$|[a-z]Id$/

/** Of all rows; the first field stays first. A field that is empty everywhere is no column. */
function columnsOf(rows: readonly Row[]): string[] {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  const filled = names.filter((name) => rows.some((row) => cell(row[name]) !== ''))
  const rankOf = (name: string): number => {
    if (name === names[0]) return 0
    if (TELLING.test(name)) return 1
    if (IDENTIFIER.test(name)) return 4
    return rows.every((row) => isPlain(row[name]) || isWords(row[name])) ? 2 : 3
  }
  return filled.toSorted((a, b) => rankOf(a) - rankOf(b))
}

const isWords = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string')

/** One line, without terminal control characters. What has parts is JSON. */
function cell(value: unknown): string {
  const line = textOf(value)
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim()
  return cut(line, CELL_CHARACTERS_MAX)
}

function textOf(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (isWords(value)) return value.join(', ')
  if (isPlain(value)) return String(value)
  const isEmpty = Object.keys(value as object).length === 0
  return isEmpty ? '' : JSON.stringify(value)
}

function cut(line: string, max: number): string {
  const characters = [...line]
  return characters.length > max ? `${characters.slice(0, max - 1).join('')}…` : line
}

/** The columns that fit, and at least one; the last of them may be cut. */
function fitted(table: readonly (readonly string[])[], width: number): readonly (readonly string[])[] {
  let used = 0
  for (let index = 0; index < table[0]!.length; index++) {
    const left = width - used - (index === 0 ? 0 : 2)
    const widest = Math.max(...table.map((row) => row[index]!.length))
    if (widest > left && index > 0) {
      if (left < Math.max(CUT_CHARACTERS_MIN, table[0]![index]!.length)) return table.map((row) => row.slice(0, index))
      return table.map((row) => [...row.slice(0, index), cut(row[index]!, left)])
    }
    used = width - left + widest
  }
  return table
}
