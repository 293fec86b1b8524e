import { createRequire } from 'node:module'
import type { CompiledQuery, DatabaseConnection, Driver, Kysely, QueryResult } from 'kysely'
import type { Database } from '../../contract/database.ts'
import { LOCAL_TENANT } from '../../contract/principal.ts'
import { textStatement, type Value } from './statements.ts'
import { sessionOf, sharedWriterOf } from './tx.ts'

/**
 * The store for a library that builds its own SQL with Kysely: it reads committed state, and each of its writes is one of our
 * transactions, in order with all others. A separate connection would break both: two writers of one SQLite file wait for each
 * other.
 */
export function createLibraryDatabase(database: Database): Kysely<unknown> {
  const library = createRequire(import.meta.url)('kysely') as typeof import('kysely')
  const parts =
    database.kind === 'sqlite'
      ? { adapter: library.SqliteAdapter, inspect: library.SqliteIntrospector, compile: library.SqliteQueryCompiler }
      : {
          adapter: library.PostgresAdapter,
          inspect: library.PostgresIntrospector,
          compile: library.PostgresQueryCompiler,
        }
  return new library.Kysely<unknown>({
    dialect: {
      createAdapter: () => new parts.adapter(),
      createDriver: () => driverOf(connectionOf(database)),
      createIntrospector: (db) => new parts.inspect(db),
      createQueryCompiler: () => new parts.compile(),
    },
  })
}

function connectionOf(database: Database): DatabaseConnection {
  return {
    async executeQuery<Row>({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> {
      const statement = textStatement(database.kind, sql, parameters.length)
      const values = parameters.map(toValue)
      if (statement.prepared(database.kind).isRead) {
        return { rows: (await sessionOf(database.read).all(statement, values)) as Row[] }
      }
      return await database.write(LOCAL_TENANT, async (tx) => {
        const session = sharedWriterOf(tx)
        if (!/\breturning\b/i.test(sql)) {
          return { rows: [], numAffectedRows: BigInt(await session.run(statement, values)) }
        }
        const rows = (await session.all(statement, values)) as Row[]
        return { rows, numAffectedRows: BigInt(rows.length) }
      })
    },
    // biome-ignore lint/correctness/useYield: the library never streams.
    async *streamQuery() {
      throw new Error('rows are not streamed')
    },
  }
}

const noTransactions = async (): Promise<void> => {
  throw new Error('a library has no transactions of its own')
}

const driverOf = (connection: DatabaseConnection): Driver => ({
  init: async () => {},
  acquireConnection: async () => connection,
  beginTransaction: noTransactions,
  commitTransaction: noTransactions,
  rollbackTransaction: noTransactions,
  releaseConnection: async () => {},
  destroy: async () => {},
})

/** Times are text and booleans are numbers, in both databases. */
function toValue(value: unknown): Value {
  if (typeof value === 'boolean') return value ? 1 : 0
  if (value instanceof Date) return value.toISOString()
  if (typeof value === 'bigint') return Number(value)
  return (value ?? null) as Value
}
