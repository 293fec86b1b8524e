import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
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

const tableNames = [
  'projects',
  'tasks',
  'task_labels',
  'task_dependencies',
  'thoughts',
  'audit_sessions',
  'api_keys',
  'seal_sessions',
  'users',
  'user_accounts',
  'user_passkeys',
  'user_teams',
  'user_team_members',
  'invitations',
  'service_clients',
  'oauth_clients',
  'roles',
  'profiles',
  'tool_assignments',
  'tool_policies',
  'approvals',
  'usage_limits',
  'interactions',
  'interaction_bodies',
  'token_usage',
  'virtual_keys',
  'oauth_clients',
  'service_clients',
  'secrets',
  'secret_links',
  'mcp_catalog_items',
  'mcp_deployments',
  'mcp_installation_requests',
  'mcp_sessions',
] as const

/** The state of a SQLite file, beside whoever is using it. */
export function readSqliteState(path: string): Promise<StoredState> {
  const database = new DatabaseSync(path, { readOnly: true, timeout: 5_000 })
  try {
    database.exec('BEGIN')
    return readState(async (sql) => database.prepare(sql).all()).finally(() => database.close())
  } catch (error) {
    database.close()
    throw error
  }
}

export const readPostgresState = (url: string): Promise<StoredState> =>
  withClient(url, async (client) => {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
    return await readState(async (sql) => (await client.query(sql)).rows as Row[])
  })

export function readStateOf({ config, dataDir }: TestApp): Promise<StoredState> {
  const url = config.database_url?.reveal()
  return url === undefined ? readSqliteState(join(dataDir, 'castellan.db')) : readPostgresState(url)
}

async function readState(query: Query): Promise<StoredState> {
  const tables: Record<string, string[]> = {}
  for (const name of tableNames) {
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
