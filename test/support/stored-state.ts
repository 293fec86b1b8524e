import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { checkState } from '../../src/app/check-state.ts'
import { callsIn, type LogRecord, type TestApp } from './app.ts'
import { withClient } from './postgres.ts'

/** Everything that a store holds, read past the program. */
export type StoredState = Readonly<{
  /** Rows of every table but the log's, as sorted lines of JSON. */
  tables: Readonly<Record<string, readonly string[]>>
  /** The calls in the log. */
  log: readonly LogRecord[]
  numbers: Readonly<{ tasks: number[]; thoughts: number[]; sessions: number[]; seqs: number[] }>
}>

type Row = Record<string, unknown>
type Query = (sql: string) => Promise<Row[]>

/** The log, what is kept of it, and what only speeds up a search: what a call that changes nothing writes too. */
const ofTheLog: ReadonlySet<string> = new Set([
  'clock_floor',
  'log_anchors',
  'log_entries',
  'log_heads',
  'log_identity',
  'sign_in_attempts',
  'task_index',
  'trail_entries',
])

/** The state of a SQLite file, while another process uses it. */
export async function readSqliteState(path: string): Promise<StoredState> {
  const database = new DatabaseSync(path, { readOnly: true, timeout: 5_000 })
  try {
    return await readThrough(database)
  } finally {
    database.close()
  }
}

const statementsOf = new WeakMap<DatabaseSync, Map<string, StatementSync>>()

/** Kept with its connection: a state is read by a hundred statements, again and again. */
export function statementIn(database: DatabaseSync, sql: string): StatementSync {
  const statements = statementsOf.get(database) ?? new Map<string, StatementSync>()
  const statement = statements.get(sql) ?? database.prepare(sql)
  statementsOf.set(database, statements.set(sql, statement))
  return statement
}

async function readThrough(database: DatabaseSync): Promise<StoredState> {
  const query = async (sql: string): Promise<Row[]> => statementIn(database, sql).all()
  const names = `SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%'`
  database.exec('BEGIN')
  try {
    return await readState(query, names)
  } finally {
    database.exec('COMMIT')
  }
}

export const readPostgresState = (url: string): Promise<StoredState> =>
  withClient(url, async (client) => {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
    const names = `SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public'`
    return await readState(async (sql) => (await client.query(sql)).rows as Row[], names)
  })

export function readStateOf({ config, reader }: TestApp): Promise<StoredState> {
  const url = config.database_url?.reveal()
  return url === undefined ? readThrough(reader()) : readPostgresState(url)
}

async function readState(query: Query, tableNames: string): Promise<StoredState> {
  const tables: Record<string, string[]> = {}
  const names = (await query(`${tableNames} ORDER BY name`)).map((row) => String(row['name']))
  for (const name of names.filter((one) => !ofTheLog.has(one))) {
    tables[name] = (await query(`SELECT * FROM ${name}`)).map((row) => JSON.stringify(row)).sort()
  }
  const entries = await query('SELECT seq, record FROM log_entries ORDER BY tenant, seq')
  const numbers = async (table: string): Promise<number[]> =>
    (await query(`SELECT number FROM ${table} ORDER BY tenant, number`)).map((row) => Number(row['number']))
  return {
    tables,
    log: entries.flatMap((row) => callsIn(String(row['record']))),
    numbers: {
      tasks: await numbers('tasks'),
      thoughts: await numbers('thoughts'),
      sessions: await numbers('audit_sessions'),
      seqs: entries.map((row) => Number(row['seq']) + 1),
    },
  }
}

/** Numbers of a state with one tenant that are not 1, 2, 3 and so on. */
export const gapsIn = ({ numbers }: StoredState): string[] =>
  Object.entries(numbers)
    .filter(([, found]) => found.some((number, index) => number !== index + 1))
    .map(([name, found]) => `${name}: ${found.join()}`)

/** What the independent checker finds in the state of a running program. */
export async function findingsOf({ app, config }: TestApp): Promise<readonly unknown[]> {
  await app.ready
  return (await checkState(config)).findings
}
