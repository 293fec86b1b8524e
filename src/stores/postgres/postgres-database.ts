import type { CustomTypesConfig, Pool, PoolClient } from 'pg'
import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { Clock } from '../../kernel/clock.ts'
import { fault } from '../../kernel/fault.ts'
import type { Logger } from '../../kernel/logger.ts'
import { outcomeUnknown, type WriteConnection } from '../sql/commit-batch.ts'
import { failingSession, storeFailed } from '../sql/failing-session.ts'
import { createGroupCommit } from '../sql/group-commit.ts'
import { migrationSql, migrations, requireKnownVersion } from '../sql/migrations.ts'
import { bindArguments, type Session, type Statement } from '../sql/statements.ts'
import { readTx } from '../sql/tx.ts'
import { failureRules } from './failure-rules.ts'

const CONNECTIONS_MAX = 10
const CONNECT_TIMEOUT_MS = 10_000
/** Any number, the same in every process: one of them migrates while the others wait. */
const MIGRATION_LOCK = 7433

type Queryable = Pick<Pool, 'query'>

/** The shared store. Several processes may use one database; the head row of a tenant serialises its writers. */
export async function openPostgresDatabase(deps: {
  url: string
  clock: Clock
  logger: Logger
  targetVersion?: number
}): Promise<Database> {
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
    keepAlive: true,
  })
  pool.on('error', () => {})
  // A connection that is lost between two statements of a transaction reports to nobody else, and unhandled errors end the
  // process.
  pool.on('connect', (client) => {
    client.on('error', (error) => deps.logger.warn('database connection lost', { cause: String(error) }))
  })
  let schemaVersion: number
  try {
    schemaVersion = await migratePostgres(pool, deps.targetVersion ?? migrations.length)
    await warnOfLateSync(pool, deps.logger)
  } catch (error) {
    await pool.end()
    throw unreachable(error)
  }
  const commits = createGroupCommit({
    connect: async () => writeConnection(pool, await pool.connect()),
    discard: (connection) => (connection as PostgresWriter).discard(),
    clock: deps.clock,
    logger: deps.logger,
  })
  return {
    kind: 'postgres',
    location: withoutCredentials(deps.url),
    read: readTx(failingSession(session(pool), failureRules)),
    write: commits.write,
    writeSoon: commits.writeSoon,
    flush: commits.flush,
    synced: async () => {},
    problem: commits.problem,
    schemaVersion,
    dataVersion: () => undefined,
    async snapshot<T>(work: (tx: ReadTx) => Promise<T>): Promise<T> {
      const client = await orStoreFailed(pool.connect())
      let broken = true
      try {
        await orStoreFailed(client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY'))
        const result = await work(readTx(failingSession(session(client), failureRules)))
        await orStoreFailed(client.query('COMMIT'))
        broken = false
        return result
      } finally {
        client.release(broken)
      }
    },
    async close() {
      await commits.close()
      if (!pool.ending) await pool.end()
    },
  }
}

const orStoreFailed = <T>(step: Promise<T>): Promise<T> =>
  step.catch((error) => {
    throw storeFailed(error, failureRules.reasonOf(error))
  })

/** Nothing acknowledged may depend on the server staying up; the operator of such a server is warned. */
async function warnOfLateSync(pool: Pool, logger: Logger): Promise<void> {
  const { rows } = await pool.query("SELECT current_setting('synchronous_commit') AS setting")
  if (rows[0].setting !== 'off') return
  logger.warn(
    'synchronous_commit is off, so a crash of the database server can lose acknowledged changes; set it to on',
  )
}

function session(queryable: Queryable): Session {
  const query = async <Args, Row>(statement: Statement<Args, Row>, args: Args) => {
    const prepared = statement.prepared('postgres')
    const values = bindArguments(prepared, args)
    return await queryable.query({ name: prepared.name, text: prepared.sql, values })
  }
  return {
    dialect: 'postgres',
    all: async <Args, Row>(statement: Statement<Args, Row>, args: Args) => (await query(statement, args)).rows as Row[],
    get: async <Args, Row>(statement: Statement<Args, Row>, args: Args) =>
      (await query(statement, args)).rows[0] as Row | undefined,
    run: async (statement, args) => (await query(statement, args)).rowCount ?? 0,
  }
}

type PostgresWriter = WriteConnection & Readonly<{ discard(): void }>

/** Returns the connection after a successful commit or rollback; `discard` destroys a broken one. */
function writeConnection(pool: Pool, client: PoolClient): PostgresWriter {
  let held = true
  let transaction = ''
  const release = (broken: boolean) => {
    if (held) client.release(broken)
    held = false
  }
  const command = (text: string) => async () => {
    await client.query(text)
  }
  const traces = { hasWritten: false, hasFailed: false, hasChangedData: false }
  return {
    ...failingSession(session(client), { ...failureRules, traces }),
    traces,
    begin: async () => {
      const results = await client.query('BEGIN; SELECT pg_current_xact_id()::text AS id')
      transaction = (results as unknown as { rows: { id: string }[] }[])[1]!.rows[0]!.id
    },
    commit: async () => {
      let answer: string | undefined
      try {
        answer = (await client.query('COMMIT')).command
      } catch (cause) {
        release(true)
        if (await wasCommitted(pool, transaction, cause)) return
        throw cause
      }
      release(false)
      // PostgreSQL answers COMMIT with ROLLBACK, and no error, if an earlier statement failed.
      if (answer !== 'COMMIT') throw new Error('the server rolled the transaction back instead of committing it')
    },
    rollback: async () => {
      if (!held) return
      await client.query('ROLLBACK')
      release(false)
    },
    discard: () => release(true),
    savepoint: command('SAVEPOINT job'),
    release: command('RELEASE SAVEPOINT job'),
    rollbackToSavepoint: command('ROLLBACK TO SAVEPOINT job'),
  }
}

const COMMIT_STATUS_TRIES = 50
const COMMIT_STATUS_PAUSE_MS = 100

/** A connection that breaks during a commit leaves the outcome unknown; the server knows it. */
async function wasCommitted(pool: Pool, transaction: string, cause: unknown): Promise<boolean> {
  try {
    for (let attempt = 0; attempt < COMMIT_STATUS_TRIES; attempt++) {
      const { rows } = await pool.query('SELECT pg_xact_status($1::xid8) AS status', [transaction])
      if (rows[0].status !== 'in progress') return rows[0].status === 'committed'
      await new Promise((resolve) => setTimeout(resolve, COMMIT_STATUS_PAUSE_MS))
    }
  } catch {
    // The server cannot be asked: that is the answer below.
  }
  throw outcomeUnknown(cause)
}

/** Returns the version reached. All that is missing is one transaction: an upgrade that fails leaves the database as it was. */
async function migratePostgres(pool: Pool, target: number): Promise<number> {
  const client = await pool.connect()
  try {
    await client.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK])
    await client.query('CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)')
    const found = await client.query('SELECT version FROM schema_version')
    let version: number = found.rows[0]?.version ?? 0
    if (found.rows.length === 0) await client.query('INSERT INTO schema_version VALUES (0)')
    requireKnownVersion(version)
    if (version < target) {
      await client.query('BEGIN')
      for (; version < target; version++) {
        for (const sql of migrationSql(migrations[version]!, 'postgres')) await client.query(sql)
        fault('store.migrate')
      }
      await client.query('UPDATE schema_version SET version = $1', [version])
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

function withoutCredentials(url: string): string {
  try {
    const parsed = new URL(url)
    return `${parsed.protocol}//${parsed.host}${parsed.pathname}`
  } catch {
    return 'postgres'
  }
}
