import type { CustomTypesConfig, Pool, PoolClient } from 'pg'
import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import type { ReadUnit } from '../../contract/unit.ts'
import type { Clock } from '../../kernel/clock.ts'
import { fault } from '../../kernel/fault.ts'
import type { Logger } from '../../kernel/logger.ts'
import { createGroupCommit, type WriteConnection } from '../sql/group-commit.ts'
import { migrationSql, migrations } from '../sql/migrations.ts'
import { bindArguments, loadKysely, type Session, type Statement } from '../sql/statements.ts'
import { readUnit } from '../sql/units.ts'

const CONNECTIONS_MAX = 10
const CONNECT_TIMEOUT_MS = 10_000
/** Any number, the same in every process: one of them migrates while the others wait. */
const MIGRATION_LOCK = 7433

type Queryable = Pick<Pool, 'query'>

/** The company store. Several processes may share one database; the head row of a tenant serialises its writers. */
export async function openPostgresDatabase(deps: {
  url: string
  clock: Clock
  logger: Logger
  targetVersion?: number
}): Promise<Database> {
  await loadKysely()
  const { Pool, types } = (await import('pg')).default
  // bigint columns hold counters and milliseconds, all below 2^53.
  const parsers: CustomTypesConfig = {
    getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
      oid === types.builtins.INT8 && format !== 'binary'
        ? Number
        : types.getTypeParser(oid, format as 'text')) as CustomTypesConfig['getTypeParser'],
  }
  const pool = new Pool({
    connectionString: deps.url,
    max: CONNECTIONS_MAX,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    types: parsers,
  })
  pool.on('error', (error) => deps.logger.warn('an idle database connection was lost', { cause: String(error) }))
  let schemaVersion: number
  try {
    schemaVersion = await migratePostgres(pool, deps.targetVersion ?? migrations.length)
  } catch (error) {
    await pool.end()
    throw unreachable(error)
  }
  const clients = new Map<WriteConnection, PoolClient>()
  const commits = createGroupCommit({
    async connect() {
      const client = await pool.connect()
      const connection = writeConnection(client, () => {
        clients.delete(connection)
        client.release()
      })
      clients.set(connection, client)
      return connection
    },
    discard(connection) {
      clients.get(connection)?.release(true)
      clients.delete(connection)
    },
    clock: deps.clock,
    logger: deps.logger,
  })
  return {
    kind: 'postgres',
    location: withoutCredentials(deps.url),
    read: readUnit(session(pool)),
    write: commits.write,
    writeSoon: commits.writeSoon,
    flush: commits.flush,
    problem: commits.problem,
    schemaVersion,
    async snapshot<T>(work: (unit: ReadUnit) => Promise<T>): Promise<T> {
      const client = await pool.connect()
      let broken = true
      try {
        await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
        const result = await work(readUnit(session(client)))
        await client.query('COMMIT')
        broken = false
        return result
      } finally {
        client.release(broken)
      }
    },
    async close() {
      await commits.flush()
      await pool.end()
    },
  }
}

function session(queryable: Queryable): Session {
  const query = async <Args, Row>(statement: Statement<Args, Row>, args: Args) => {
    const prepared = statement.prepared('postgres')
    const values = bindArguments(prepared, args)
    return await queryable.query({ name: prepared.id, text: prepared.sql, values })
  }
  return {
    dialect: 'postgres',
    all: async <Args, Row>(statement: Statement<Args, Row>, args: Args) => (await query(statement, args)).rows as Row[],
    get: async <Args, Row>(statement: Statement<Args, Row>, args: Args) =>
      (await query(statement, args)).rows[0] as Row | undefined,
    run: async (statement, args) => (await query(statement, args)).rowCount ?? 0,
  }
}

/** `finished` gives the connection back; it is called after a commit or a rollback that worked. */
function writeConnection(client: PoolClient, finished: () => void): WriteConnection {
  const own = session(client)
  const command = (text: string) => async () => {
    await client.query(text)
  }
  return {
    ...own,
    run: (statement, args) => {
      fault('store.write')
      return own.run(statement, args)
    },
    begin: command('BEGIN'),
    commit: async () => {
      await client.query('COMMIT')
      finished()
    },
    rollback: async () => {
      await client.query('ROLLBACK')
      finished()
    },
    savepoint: command('SAVEPOINT job'),
    release: command('RELEASE SAVEPOINT job'),
    rollbackToSavepoint: command('ROLLBACK TO SAVEPOINT job'),
  }
}

async function migratePostgres(pool: Pool, target: number): Promise<number> {
  const client = await pool.connect()
  try {
    await client.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK])
    await client.query('CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)')
    const found = await client.query('SELECT version FROM schema_version')
    let version: number = found.rows[0]?.version ?? 0
    if (found.rows.length === 0) await client.query('INSERT INTO schema_version VALUES (0)')
    if (version > migrations.length) {
      throw new AppError(
        'ERR_INIT_FAILED',
        `The database has schema version ${version}, but this program knows versions up to ${migrations.length}. Use a newer Castellan.`,
        { schema_version: version, known_version: migrations.length },
      )
    }
    for (; version < target; version++) {
      await client.query('BEGIN')
      for (const sql of migrationSql(migrations[version]!, 'postgres')) await client.query(sql)
      fault('store.migrate')
      await client.query('UPDATE schema_version SET version = $1', [version + 1])
      await client.query('COMMIT')
    }
    await client.query('SELECT pg_advisory_unlock($1)', [MIGRATION_LOCK])
    client.release()
    return version
  } catch (error) {
    client.release(true)
    throw error
  }
}

function unreachable(error: unknown): unknown {
  if (error instanceof AppError) return error
  const reason = error instanceof Error ? error.message : String(error)
  return new AppError(
    'ERR_INIT_FAILED',
    `The PostgreSQL database cannot be used: ${reason}. Check database_url and that the server is running.`,
    { field: 'database_url' },
    { cause: error },
  )
}

export function withoutCredentials(url: string): string {
  try {
    const parsed = new URL(url)
    return `${parsed.protocol}//${parsed.host}${parsed.pathname}`
  } catch {
    return 'postgres'
  }
}
