import type { ReadTx } from '../../contract/tx.ts'
import { type Statement, statement } from './statements.ts'
import { sessionOf } from './tx.ts'

type None = Record<never, never>

const anyWorkspace = statement<None>('pending-work.anyWorkspace')((db) =>
  db.selectFrom('workspaces').select('id').limit(1),
)
const anyTeam = statement<None>('pending-work.anyTeam')((db) => db.selectFrom('teams').select('name').limit(1))
const anyOpenRun = statement<None>('pending-work.anyOpenRun')((db, _arg, { sql }) =>
  db.selectFrom('runs').select('id').where(sql<boolean>`status in ('pending', 'running')`).limit(1),
)
const anySchedule = statement<None>('pending-work.anySchedule')((db) =>
  db.selectFrom('schedules').select('subject_id').limit(1),
)

const anyToolVersion = statement<None>('pending-work.anyToolVersion')((db) =>
  db.selectFrom('mcp_tool_versions').select('tenant').limit(1),
)

/** Whether a store has work of any tenant that must be resumed after opening. */
export const sqlPendingWork = {
  /** Workspaces and teams that a crash left half-way are recovered. */
  ofWorkspaces: (tx: ReadTx): Promise<boolean> => hasAny(tx, anyWorkspace, anyTeam),
  /** Runs continue, and schedules come due. */
  ofAgents: (tx: ReadTx): Promise<boolean> => hasAny(tx, anyOpenRun, anySchedule),
  /** Callers find the tools of MCP servers from the start. */
  ofMcpServers: (tx: ReadTx): Promise<boolean> => hasAny(tx, anyToolVersion),
}

async function hasAny(tx: ReadTx, ...statements: readonly Statement<None, unknown>[]): Promise<boolean> {
  for (const one of statements) if ((await sessionOf(tx).get(one, {})) !== undefined) return true
  return false
}
