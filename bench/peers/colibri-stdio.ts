/**
 * A stand-in of the shape that Colibri's document publishes: SDK 1.32 McpServer, zod, SQLite in WAL with synchronous=FULL,
 * one commit per call. Takes the database file as argument. It is meant to be hard to beat:
 * 1. every statement is prepared once, every query is indexed, and one call makes one commit with one insert (the next number
 *    is read first, which is faster than INSERT … RETURNING and safe with a single writer);
 * 2. what the document asks for and costs time is left out in its favour: no per-tool lock, no audit rows around a call,
 *    no output schema to re-validate, no lookup of the project;
 * 3. answers carry text and structuredContent, as ours do, so that both write the same bytes.
 */
import { hash } from 'node:crypto'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { tables, taskCreateInput, taskListInput, thoughtRecordInput } from './colibri-schema.ts'

const author = 'agent-bench'
const priorityRanks = { low: 0, normal: 1, high: 2, critical: 3 } as const
const sortColumns = {
  created: 'created_at',
  updated: 'updated_at',
  priority: 'priority_rank',
  progress: 'progress',
} as const

const database = new DatabaseSync(process.argv[2] ?? ':memory:')
database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;')
if (database.prepare('PRAGMA user_version').get()?.['user_version'] === 0) {
  database.exec(`BEGIN; ${tables} PRAGMA user_version = 1; COMMIT;`)
}

const prepared = new Map<string, StatementSync>()
const statement = (sql: string): StatementSync => {
  const known = prepared.get(sql)
  if (known !== undefined) return known
  const made = database.prepare(sql)
  prepared.set(sql, made)
  return made
}

const sequenceNext = database.prepare('SELECT coalesce(max(sequence), 0) + 1 AS sequence FROM tasks WHERE project = ?')
const taskInsert = database.prepare(`
  INSERT INTO tasks (project, sequence, title, description, status, priority, priority_rank, progress, assignee, labels,
    estimate_hours, parent_id, created_at, updated_at, created_by)
  VALUES (?1, ?2, ?3, ?4, 'backlog', ?5, ?6, 0, ?7, ?8, ?9, ?10, ?11, ?11, ?12)`)
const taskExists = database.prepare('SELECT 1 FROM tasks WHERE id = ?')
const thoughtLast = database.prepare(
  'SELECT hash, chain_position FROM thoughts WHERE task_id = ? ORDER BY chain_position DESC LIMIT 1',
)
const thoughtInsert = database.prepare(`
  INSERT INTO thoughts (task_id, chain_position, type, content, branch, commit_sha, tests_run, blockers, metadata, hash,
    previous_hash, recorded_at, recorded_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)

const publicId = (letter: string, id: number): string => `${letter}-${String(id).padStart(4, '0')}`
const jsonOrNull = (value: unknown): string | null => (value === undefined ? null : JSON.stringify(value))
const answer = (value: Record<string, unknown>) => ({
  content: [{ type: 'text' as const, text: JSON.stringify(value) }],
  structuredContent: value,
})
const failure = (code: string, message: string, details: Record<string, unknown>) => ({
  ...answer({ error: { code, message, details } }),
  isError: true,
})

const server = new McpServer({ name: 'colibri-stand-in', version: '0.0.0' })

server.registerTool('server_ping', { description: 'Liveness check.', inputSchema: {} }, () =>
  answer({ ok: true, timestamp: new Date().toISOString() }),
)

server.registerTool('task_create', { description: 'Create a task.', inputSchema: taskCreateInput }, (input) => {
  const createdAt = new Date().toISOString()
  const sequence = Number(sequenceNext.get(input.project)?.['sequence'])
  const { lastInsertRowid } = taskInsert.run(
    input.project,
    sequence,
    input.title,
    input.description,
    input.priority,
    priorityRanks[input.priority],
    input.assignee,
    JSON.stringify(input.labels),
    input.estimate_hours ?? null,
    input.parent_id ?? null,
    createdAt,
    author,
  )
  return answer({
    task_id: publicId('T', Number(lastInsertRowid)),
    status: 'backlog',
    created_at: createdAt,
    created_by: author,
    sequence,
  })
})

server.registerTool(
  'thought_record',
  { description: 'Append a decision to the chain.', inputSchema: thoughtRecordInput },
  (input) => {
    const { task_id, type, content } = input
    const taskId = Number(task_id.slice(2))
    if (taskExists.get(taskId) === undefined) return failure('ERR_TASK_NOT_FOUND', 'No such task.', { task_id })
    const last = thoughtLast.get(taskId)
    const previous_hash = (last?.['hash'] as string | undefined) ?? null
    const chain_position = Number(last?.['chain_position'] ?? 0) + 1
    const recorded_at = new Date().toISOString()
    const recorded_by = author
    const recordHash = hash(
      'sha256',
      JSON.stringify({ task_id, type, content, previous_hash, recorded_at, recorded_by }),
      'hex',
    )
    const { lastInsertRowid } = thoughtInsert.run(
      taskId,
      chain_position,
      type,
      content,
      input.branch ?? null,
      input.commit_sha ?? null,
      jsonOrNull(input.tests_run),
      jsonOrNull(input.blockers),
      jsonOrNull(input.metadata),
      recordHash,
      previous_hash,
      recorded_at,
      recorded_by,
    )
    const thought_id = publicId('Θ', Number(lastInsertRowid))
    return answer({
      thought_id,
      task_id,
      type,
      hash: recordHash,
      previous_hash,
      recorded_at,
      recorded_by,
      chain_position,
    })
  },
)

server.registerTool('task_list', { description: 'List tasks.', inputSchema: taskListInput }, (input) => {
  const conditions: string[] = []
  const values: string[] = []
  const where = (condition: string, ...bound: string[]): void => {
    conditions.push(condition)
    values.push(...bound)
  }
  const holes = (list: readonly string[]): string => list.map(() => '?').join(',')
  if (input.project !== undefined) where('project = ?', input.project)
  if (input.status !== undefined) where(`status IN (${holes(input.status)})`, ...input.status)
  if (input.priority !== undefined) where(`priority IN (${holes(input.priority)})`, ...input.priority)
  if (input.assignee !== undefined) where('assignee = ?', input.assignee)
  if (input.label !== undefined) where('EXISTS (SELECT 1 FROM json_each(labels) WHERE value = ?)', input.label)
  if (input.created_after !== undefined) where('created_at > ?', input.created_after)
  if (input.created_before !== undefined) where('created_at < ?', input.created_before)
  if (input.search !== undefined) {
    where('(title LIKE ? OR description LIKE ?)', `%${input.search}%`, `%${input.search}%`)
  }
  const filter = conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`
  const order = ` ORDER BY ${sortColumns[input.sort_by]} ${input.sort_order}, id ${input.sort_order} LIMIT ? OFFSET ?`
  const rows = statement(
    `SELECT id, title, project, status, priority, progress, assignee, created_at, updated_at FROM tasks${filter}${order}`,
  ).all(...values, input.limit, input.offset)
  const count = statement(`SELECT count(*) AS total FROM tasks${filter}`).get(...values)
  const tasks = rows.map(({ id, ...row }) => ({ task_id: publicId('T', Number(id)), ...row }))
  return answer({
    tasks,
    total_count: count?.['total'],
    returned_count: tasks.length,
    offset: input.offset,
    limit: input.limit,
  })
})

await server.connect(new StdioServerTransport())
