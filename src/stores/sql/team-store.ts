import type { Selectable } from 'kysely'
import { tenantId } from '../../contract/principal.ts'
import type { Team, TeamMember, TeamState, TeamStore } from '../../domains/teams/ports.ts'
import type { TeamMemberTable, TeamTable } from './schema.ts'
import { statement } from './statements.ts'
import { sqlTeamInboxes, sqlTeamTasks } from './team-inboxes.ts'
import { sessionOf, writerOf } from './tx.ts'

type TeamRow = Selectable<TeamTable>
type MemberRow = Selectable<TeamMemberTable>
type InTeam = { tenant: string; team: string }

const insertTeam = statement<TeamRow>('team-store.insertTeam')((db, _arg, { columns }) =>
  db
    .insertInto('teams')
    .values(
      columns([
        'tenant',
        'name',
        'owner',
        'state',
        'max_vms',
        'parent',
        'depth',
        'node',
        'operation',
        'last_seq',
        'created_at',
        'created_by',
      ]),
    ),
)
const insertMember = statement<MemberRow>('team-store.insertMember')((db, _arg, { columns }) =>
  db
    .insertInto('team_members')
    .values(columns(['tenant', 'team', 'name', 'position', 'role', 'skills', 'description', 'workspace_id'])),
)
const saveTeam = statement<TeamRow>('team-store.saveTeam')((db, arg) =>
  db
    .updateTable('teams')
    .set({ owner: arg('owner'), state: arg('state'), operation: arg('operation'), last_seq: arg('last_seq') })
    .where('tenant', '=', arg('tenant'))
    .where('name', '=', arg('name')),
)
const setWorkspace = statement<InTeam & { member: string; workspace_id: string }>('team-store.setWorkspace')(
  (db, arg) =>
    db
      .updateTable('team_members')
      .set({ workspace_id: arg('workspace_id') })
      .where('tenant', '=', arg('tenant'))
      .where('team', '=', arg('team'))
      .where('name', '=', arg('member')),
)
const deleteTeam = statement<InTeam>('team-store.deleteTeam')((db, arg) =>
  db.deleteFrom('teams').where('tenant', '=', arg('tenant')).where('name', '=', arg('team')),
)
const deleteMembers = statement<InTeam>('team-store.deleteMembers')((db, arg) =>
  db.deleteFrom('team_members').where('tenant', '=', arg('tenant')).where('team', '=', arg('team')),
)
const deleteMessagesOfTeam = statement<InTeam>('team-store.deleteMessagesOfTeam')((db, arg) =>
  db.deleteFrom('team_messages').where('tenant', '=', arg('tenant')).where('team', '=', arg('team')),
)
const deleteTasksOfTeam = statement<InTeam>('team-store.deleteTasksOfTeam')((db, arg) =>
  db.deleteFrom('team_tasks').where('tenant', '=', arg('tenant')).where('team', '=', arg('team')),
)
const findTeam = statement<InTeam>('team-store.findTeam')((db, arg) =>
  db.selectFrom('teams').selectAll().where('tenant', '=', arg('tenant')).where('name', '=', arg('team')),
)
const listTeams = statement<{ tenant: string }>('team-store.listTeams')((db, arg) =>
  db.selectFrom('teams').selectAll().where('tenant', '=', arg('tenant')).orderBy('created_at').orderBy('name'),
)
const listMembers = statement<InTeam>('team-store.listMembers')((db, arg) =>
  db
    .selectFrom('team_members')
    .selectAll()
    .where('tenant', '=', arg('tenant'))
    .where('team', '=', arg('team'))
    .orderBy('position'),
)
const memberCounts = statement<{ tenant: string }>('team-store.memberCounts')((db, arg) =>
  db
    .selectFrom('team_members')
    .select((expression) => ['team', expression.fn.countAll<number>().as('count')])
    .where('tenant', '=', arg('tenant'))
    .groupBy('team'),
)
const countMembersOnNode = statement<{ node: string }>('team-store.countMembersOnNode')((db, arg) =>
  db
    .selectFrom('team_members')
    .innerJoin('teams', (join) =>
      join.onRef('teams.tenant', '=', 'team_members.tenant').onRef('teams.name', '=', 'team_members.team'),
    )
    .select((expression) => expression.fn.countAll<number>().as('count'))
    .where('teams.node', '=', arg('node')),
)
const unsettledOnNode = statement<{ node: string }>('team-store.unsettledOnNode')((db, arg) =>
  db
    .selectFrom('teams')
    .selectAll()
    .where('node', '=', arg('node'))
    .where('state', '!=', 'ready')
    .orderBy('depth', 'desc')
    .orderBy('tenant')
    .orderBy('name'),
)
export const sqlTeamStore: TeamStore = {
  ...sqlTeamInboxes,
  ...sqlTeamTasks,
  async insertTeam(tx, tenant, team, members) {
    const writer = writerOf(tx, tenant)
    await writer.run(insertTeam, toTeamRow(tenant, team))
    for (const [position, member] of members.entries()) {
      await writer.run(insertMember, toMemberRow(tenant, team.name, position, member))
    }
  },
  async saveTeam(tx, tenant, team) {
    await writerOf(tx, tenant).run(saveTeam, toTeamRow(tenant, team))
  },
  async setWorkspace(tx, tenant, { team, member, workspaceId }) {
    return (await writerOf(tx, tenant).run(setWorkspace, { tenant, team, member, workspace_id: workspaceId })) > 0
  },
  async deleteTeam(tx, tenant, team) {
    const writer = writerOf(tx, tenant)
    for (const part of [deleteTasksOfTeam, deleteMessagesOfTeam, deleteMembers, deleteTeam]) {
      await writer.run(part, { tenant, team })
    }
  },
  async findTeam(tx, tenant, team) {
    const row = await sessionOf(tx).get(findTeam, { tenant, team })
    return row === undefined ? undefined : fromTeamRow(row)
  },
  async listTeams(tx, tenant) {
    return (await sessionOf(tx).all(listTeams, { tenant })).map(fromTeamRow)
  },
  async listMembers(tx, tenant, team) {
    return (await sessionOf(tx).all(listMembers, { tenant, team })).map(fromMemberRow)
  },
  async memberCounts(tx, tenant) {
    return new Map((await sessionOf(tx).all(memberCounts, { tenant })).map(({ team, count }) => [team, count]))
  },
  async countMembersOnNode(tx, node) {
    return (await sessionOf(tx).get(countMembersOnNode, { node }))?.count ?? 0
  },
  async unsettledOnNode(tx, node) {
    return (await sessionOf(tx).all(unsettledOnNode, { node })).map(fromTeamRow)
  },
}

const toTeamRow = (tenant: string, team: Team): TeamRow => ({
  tenant,
  name: team.name,
  owner: team.owner,
  state: team.state,
  max_vms: team.maxVms,
  parent: team.parent,
  depth: team.depth,
  node: team.node,
  operation: team.operation,
  last_seq: team.lastSeq,
  created_at: team.createdAtMs,
  created_by: team.createdBy,
})

const fromTeamRow = (row: TeamRow): Team => ({
  tenant: tenantId(row.tenant),
  name: row.name,
  owner: row.owner,
  state: row.state as TeamState,
  maxVms: row.max_vms,
  parent: row.parent,
  depth: row.depth,
  node: row.node,
  operation: row.operation,
  lastSeq: row.last_seq,
  createdAtMs: row.created_at,
  createdBy: row.created_by,
})

const toMemberRow = (tenant: string, team: string, position: number, member: TeamMember): MemberRow => ({
  tenant,
  team,
  name: member.name,
  position,
  role: member.role,
  skills: JSON.stringify(member.skills),
  description: member.description,
  workspace_id: member.workspaceId,
})

const fromMemberRow = (row: MemberRow): TeamMember => ({
  name: row.name,
  role: row.role,
  skills: JSON.parse(row.skills) as string[],
  description: row.description,
  workspaceId: row.workspace_id,
})
