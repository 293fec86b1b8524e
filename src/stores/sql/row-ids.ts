import type { Sql } from 'kysely'

/**
 * In SQLite a log entry and a thought are found by one number made of their tenant's and their own, which is the key of the table
 * itself: a separate index would be one more page to write for every commit. (A table WITHOUT ROWID would be no better: SQLite
 * appends to it by rewriting three pages.) All such numbers are safe integers.
 */
const NUMBERS_MAX = 2 ** 34
const TENANTS_MAX = 2 ** 19

/** The id of number 0. */
export function firstRowId(tenantNumber: number): number {
  if (tenantNumber >= TENANTS_MAX) throw new Error(`one database holds at most ${TENANTS_MAX - 1} tenants`)
  return tenantNumber * NUMBERS_MAX
}

export function rowIdOf(firstId: number, number: number): number {
  if (number >= NUMBERS_MAX) throw new Error(`one tenant has at most ${NUMBERS_MAX} rows of a kind`)
  return firstId + number
}

/** The same for a statement that knows the tenant by its name; null for a tenant without a head. */
export const firstRowIdSql = (sql: Sql, tenant: string) =>
  sql<number>`(select tenant_number * ${sql.lit(NUMBERS_MAX)} from log_heads where tenant = ${tenant})`

/** The id after a tenant's last possible one. */
export const endRowIdSql = (sql: Sql, tenant: string) =>
  sql<number>`(select (tenant_number + 1) * ${sql.lit(NUMBERS_MAX)} from log_heads where tenant = ${tenant})`

/** The rows of a tenant from a number on. An index of the tenant would find them too, but in another order. */
export const rowsFrom = (sql: Sql, tenant: string, number: number) =>
  sql<boolean>`(row_id >= ${firstRowIdSql(sql, tenant)} + max(${number}, 0) and row_id < ${endRowIdSql(sql, tenant)}
    and +tenant = ${tenant})`

/** The number of a row by its row id, which counts; the checker compares the row's own column. */
export const numberByRowId = (sql: Sql, tenant: string) => sql<number>`row_id - ${firstRowIdSql(sql, tenant)}`
