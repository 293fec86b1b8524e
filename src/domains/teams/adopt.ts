import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { counted } from '../../kernel/counted.ts'
import { identityOf } from '../workspaces/rules.ts'
import { findVisible, requireReady, type TeamDeps, withSubTeams } from './core.ts'

/**
 * Transfers a team whose owner was revoked to the caller, with its sub-teams and their remaining workspaces, in one
 * transaction, in which the quota is counted.
 */
export function createAdopt(deps: TeamDeps) {
  const { store, workspaces, workspaceRows } = deps
  return async function adopt(call: Call, { name }: Readonly<{ name: string }>) {
    const visible = await findVisible(deps, call, call.read, name)
    const { tenant, owner: previous } = visible.team
    const owner = identityOf(call.principal)
    const all = await store.listTeams(call.read, tenant)
    if (previous === owner) return answer(name, owner, [], 0)
    if (!visible.orphaned) throw stillOwned(name, previous)
    const above = all.find((team) => team.name === visible.team.parent)
    if (above !== undefined && above.owner !== owner) throw partOf(name, above.name)
    const teams = withSubTeams(all, visible.team)
    for (const team of teams) requireReady(team)
    const names = teams.map((team) => team.name)
    const rows = await workspaceRows.listWorkspaces(call.read, tenant)
    const members = rows.filter(({ team, owner: of }) => team !== null && names.includes(team) && of === previous)
    await workspaces.handOver(call, members)
    for (const team of teams) await store.saveTeam(call.write, tenant, { ...team, owner })
    call.record({ kind: 'team_adopted', body: { name, teams: names, owner, previous_owner: previous } })
    return answer(name, owner, names, members.length)
  }
}

const answer = (name: string, owner: string, teams: readonly string[], workspaces: number) => ({
  action: 'adopt' as const,
  name,
  owner,
  adopted_teams: teams,
  message:
    teams.length === 0
      ? `The team ${name} is already yours.`
      : `The team ${name} is yours, with ${counted(teams.length - 1, 'sub-team')} and ${counted(workspaces, 'workspace')}.`,
})

const stillOwned = (name: string, owner: string): AppError =>
  new AppError('ERR_WORKSPACE_STATE', `name: the team '${name}' belongs to '${owner}', who is still active`, {
    name,
    owner,
  })

const partOf = (name: string, above: string): AppError =>
  new AppError(
    'ERR_WORKSPACE_STATE',
    `name: '${name}' is part of the team '${above}'; adopt that team, which includes this one`,
    {
      name,
      parent_team: above,
    },
  )
