import type { RawBuilder } from 'kysely'
import type { AfterNewest } from '../../contract/list-page.ts'
import type { Kit } from './statements.ts'

/** Conditions of lists that are shown in pages. A filter that is an empty text lets every row pass. */

/** One of the columns has the text in it. SQLite ignores the case of ASCII letters only. */
export function hasText(part: string, columns: readonly string[], { dialect, sql }: Kit): RawBuilder<boolean> {
  const found = columns.map((column) =>
    dialect === 'postgres'
      ? sql`position(lower(${part}::text) in lower(${sql.ref(column)})) > 0`
      : sql`instr(lower(${sql.ref(column)}), lower(${part})) > 0`,
  )
  return sql<boolean>`(${sql.join(found, sql` or `)})`
}

export const isValue = (value: string, column: string, { dialect, sql }: Kit): RawBuilder<boolean> =>
  dialect === 'postgres'
    ? sql<boolean>`(${value}::text = '' or ${sql.ref(column)} = ${value}::text)`
    : sql<boolean>`(${value} = '' or ${sql.ref(column)} = ${value})`

export type NewestArgs = { at: number; after: string }

/** The rows after a place in the order `created_at desc, id`. */
export const isAfterNewest = (
  arg: <Name extends keyof NewestArgs>(name: Name) => NewestArgs[Name],
  { sql }: Kit,
): RawBuilder<boolean> =>
  sql<boolean>`(created_at < ${arg('at')} or (created_at = ${arg('at')} and id > ${arg('after')}))`

export const newestArgs = (after: AfterNewest): NewestArgs => ({ at: after.atMs, after: after.id })
