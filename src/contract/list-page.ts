import { AppError } from './app-error.ts'
import { limits } from './limits.ts'

/** What a caller says about the part of a list that it wants. */
export type PageInput = Readonly<{ cursor?: string | undefined; limit?: number | undefined }>

/** The position after which a page begins, in a list by name and in one with the newest first. */
export type AfterName = string
export type AfterNewest = Readonly<{ atMs: number; id: string }>

/** An order of a list: `first` is before all rows, and a cursor is the position of the last row that was shown. */
type Order<Row, After> = Readonly<{
  first: After
  cursorOf(row: Row): After
  isCursor(value: unknown): value is After
}>

export const byName = <Row>(nameOf: (row: Row) => string): Order<Row, AfterName> => ({
  first: '',
  cursorOf: nameOf,
  isCursor: isStorable,
})

export const newestFirst: Order<Readonly<{ createdAtMs: number; id: string }>, AfterNewest> = {
  first: { atMs: Number.MAX_SAFE_INTEGER, id: '' },
  cursorOf: ({ createdAtMs, id }) => ({ atMs: createdAtMs, id }),
  isCursor: (value): value is AfterNewest =>
    isRecord(value) && Number.isSafeInteger(value['atMs']) && isStorable(value['id']),
}

/** Rows that are numbered as they are written. */
export const lastWrittenFirst: Order<Readonly<{ row: number }>, number> = {
  first: Number.MAX_SAFE_INTEGER,
  cursorOf: ({ row }) => row,
  isCursor: (value): value is number => Number.isSafeInteger(value),
}

/** The rows of a list that a filter lets pass. */
export type PagedRows<Row, After> = Readonly<{
  /** At most `limit`, after a position. */
  rows(after: After, limit: number): Promise<readonly Row[]>
  count(): Promise<number>
}>

export type ListedPage = Readonly<{ total: number; truncated: boolean; next_cursor: string | null }>

export async function listPage<Row, After>(
  { cursor, limit = limits.listedRowsMax }: PageInput,
  order: Order<NoInfer<Row>, After>,
  list: PagedRows<Row, After>,
): Promise<Readonly<{ rows: readonly Row[]; page: ListedPage }>> {
  const found = await list.rows(cursor === undefined ? order.first : cursorIn(cursor, order), limit + 1)
  const rows = found.slice(0, limit)
  const truncated = found.length > limit
  const next_cursor = truncated ? Buffer.from(JSON.stringify(order.cursorOf(rows.at(-1)!))).toString('base64url') : null
  return { rows, page: { total: await list.count(), truncated, next_cursor } }
}

function cursorIn<Row, After>(cursor: string, order: Order<Row, After>): After {
  try {
    const position: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString())
    if (order.isCursor(position)) return position
  } catch {}
  throw new AppError('ERR_INVALID_INPUT', 'cursor: use next_cursor of the page before, or leave it out to begin', {
    field: 'cursor',
  })
}

/** PostgreSQL refuses U+0000, even in a comparison. A cursor is checked here, because arguments are checked as they are written. */
function isStorable(value: unknown): value is string {
  return typeof value === 'string' && !value.includes('\u0000')
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
