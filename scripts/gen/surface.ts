import { readdirSync } from 'node:fs'
import { type Migration, migrationSql, migrations } from '../../src/stores/sql/migrations.ts'
import { compileAllStatements } from '../../src/stores/sql/statements.ts'

/** JSON as reviewers read it: keys sorted, so that a difference is a difference. */
export const sortedJson = (value: unknown): string => `${JSON.stringify(sortKeys(value), null, 2)}\n`

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1))
  return Object.fromEntries(entries.map(([key, inner]) => [key, sortKeys(inner)]))
}

/** Every statement that makes an empty store into the present one, for both kinds of database. */
export const schemaSql = (): string =>
  ['-- Written by `npm run gen`. Do not edit: change src/stores/sql/migrations.ts.\n']
    .concat((['sqlite', 'postgres'] as const).map((dialect) => `${dialectSql(dialect)}`))
    .join('\n')

const dialectSql = (dialect: Parameters<typeof migrationSql>[1]): string =>
  [`-- ${dialect}\n`, ...migrations.map((migration, index) => migrationText(migration, index + 1, dialect))].join('\n')

const migrationText = (migration: Migration, version: number, dialect: Parameters<typeof migrationSql>[1]): string =>
  [`-- ${version} ${migration.name}`, ...migrationSql(migration, dialect).map((sql) => `${outdent(sql)};`), ''].join(
    '\n',
  )

const outdent = (sql: string): string =>
  sql
    .split('\n')
    .map((line, index) => (index === 0 ? line.trim() : `  ${line.trim()}`))
    .join('\n')

/**
 * The SQL of every statement in both dialects: what the stores run, and what a reviewer sees change. A statement is known once its
 * file is loaded, so all files are.
 */
export async function compiledStatements(): Promise<string> {
  const stores = new URL('../../src/stores/sql/', import.meta.url)
  for (const name of readdirSync(stores).filter((file) => file.endsWith('.ts')))
    await import(new URL(name, stores).href)
  return sortedJson({ sqlite: compileAllStatements('sqlite'), postgres: compileAllStatements('postgres') })
}
