import { cut, fittedTable } from './fitted-table.ts'

type Row = Readonly<Record<string, unknown>>

const CELL_CHARACTERS_MAX = 48

/**
 * A list answer as a table, with the other fields below it; undefined for an answer of another shape, such as one thing that has a
 * list among its fields. Of the columns as many are shown as fit, the most telling first, and the others are named.
 */
export function answerTable(answer: Row, width: number): string | undefined {
  const lists = Object.entries(answer).filter((pair): pair is [string, Row[]] => isRows(pair[1]))
  const others = Object.entries(answer)
    .filter(([, value]) => !isRows(value))
    .map(([key, value]): [string, unknown] => [key, key === 'totals' && isRecord(value) ? sums(value) : value])
  const [list] = lists
  if (list === undefined || lists.length > 1 || others.some(([, value]) => !isPlain(value))) return undefined
  const [name, rows] = list
  if (Object.keys(answer)[0] !== name && !others.every(([key]) => AROUND.test(words(key).join('_')))) return undefined
  const rest = others.map(([key, value]) => (value === null ? '' : `${key}: ${oneLine(value)}\n`)).join('')
  if (rows.length === 0) return `No ${words(name).join(' ').toLowerCase()}.\n${rest}`
  const columns = columnsOf(rows)
  const cells = rows.map((row) => columns.map((column) => cell(row[column])))
  const headings = columns.map((column) => words(column).join('_').toUpperCase())
  return `${fittedTable([headings, ...cells], { width, names: columns })}${rest}`
}

/** What may stand before a list without being the thing that was asked for: the question, and how much of it was answered. */
const AROUND =
  /^(action|tool|query|path|status|mode|engine|result|hint|limit|offset|cursor|more|truncated|total|count)$|^next_|^custom_|_(id|Id|count|Count)$/

const isRows = (value: unknown): value is Row[] => Array.isArray(value) && value.every(isRecord)

const isRecord = (item: unknown): item is Row => typeof item === 'object' && item !== null && !Array.isArray(item)

const sums = (totals: Row): string =>
  Object.entries(totals)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name} ${oneLine(value)}`)
    .join(', ')

const isPlain = (value: unknown): boolean => typeof value !== 'object' || value === null

/** `entityType` and `entity_type` are the same words. */
const words = (name: string): string[] => name.replace(/([a-z0-9])([A-Z])/g, '$1_$2').split('_')

/**
 * What a person looks for first: what it is called and how it is, then what is used and what it costs, then other plain values,
 * then what has parts, then ids.
 */
const TELLING = /^(name|title|status|state|outcome|error|reason|event_type)$|_name$/
const MEASURE = /^(model|used|remaining|resets_?at|tokens|cost_usd)$/i
const IDENTIFIER = /(^|_)id$|[a-z]Id$/
/** A longer id is for programs, and would take the place of what a person reads. */
const READABLE_ID_CHARACTERS_MAX = 16

/** Of all rows; the first field stays first, unless it is a long id. A field that is empty everywhere is no column. */
function columnsOf(rows: readonly Row[]): string[] {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  const filled = names.filter((name) => rows.some((row) => cell(row[name]) !== ''))
  const isLongId = (name: string): boolean =>
    IDENTIFIER.test(name) && rows.some((row) => cell(row[name]).length > READABLE_ID_CHARACTERS_MAX)
  const first = filled.find((name) => !isLongId(name))
  const rankOf = (name: string): number => {
    if (name === first) return 0
    if (TELLING.test(words(name).join('_').toLowerCase())) return 1
    if (MEASURE.test(name)) return 2
    if (IDENTIFIER.test(name)) return 5
    return rows.every((row) => isPlain(row[name]) || isWords(row[name])) ? 3 : 4
  }
  return filled.toSorted((a, b) => rankOf(a) - rankOf(b))
}

const isWords = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string')

const TIME = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+Z$/

const cell = (value: unknown): string => cut(oneLine(value), CELL_CHARACTERS_MAX)

/** Without terminal control characters. Times are to the second. What has parts is JSON. */
const oneLine = (value: unknown): string =>
  textOf(value)
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim()

function textOf(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (isWords(value)) return value.join(', ')
  if (isPlain(value)) return String(value).replace(TIME, '$1Z')
  if (isTokens(value)) return `${value.input} in, ${value.output} out`
  const isEmpty = Object.keys(value as object).length === 0
  return isEmpty ? '' : JSON.stringify(value)
}

/** The tokens of a request to a model. */
const isTokens = (value: unknown): value is Readonly<{ input: number; output: number }> =>
  isRecord(value) && Number.isInteger(value['input']) && Number.isInteger(value['output'])
