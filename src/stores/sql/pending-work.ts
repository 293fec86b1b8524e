import type { ReadUnit } from '../../contract/unit.ts'
import { type Statement, statement } from './statements.ts'
import { sessionOf } from './units.ts'

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

/** Whether a store has something that whoever opens it must take up, of any tenant. */
export const sqlPendingWork = {
  /** Workspaces and teams: what a crash left of them is looked after. */
  ofWorkspaces: (unit: ReadUnit): Promise<boolean> => hasAny(unit, anyWorkspace, anyTeam),
  /** Runs go on, and schedules come due. */
  ofAgents: (unit: ReadUnit): Promise<boolean> => hasAny(unit, anyOpenRun, anySchedule),
}

async function hasAny(unit: ReadUnit, ...statements: readonly Statement<None, unknown>[]): Promise<boolean> {
  for (const one of statements) if ((await sessionOf(unit).get(one, {})) !== undefined) return true
  return false
}
