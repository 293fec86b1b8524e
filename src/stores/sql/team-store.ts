import type { Selectable } from 'kysely'
import type { Team, TeamMember, TeamStore } from '../../domains/teams/ports.ts'
import { json, rowMap } from './row-map.ts'
import type { TeamMemberTable, TeamTable } from './schema.ts'
import { statement } from './statements.ts'
import { sqlTeamInboxes, sqlTeamTasks } from './team-inboxes.ts'
import { sessionOf, writerOf } from './tx.ts'

type TeamRow = Selectable<TeamTable>
type MemberRow = Selectable<TeamMemberTable>
type InTeam = { tenant: string; team: string }

const teams = rowMap<TeamRow, Team>()({
  tenant: 'tenant',
  name: 'name',
  owner: 'owner',
  state: 'state',
  maxVms: 'max_vms',
  parent: 'parent',
  depth: 'depth',
  node: 'node',
  operation: 'operation',
  lastSeq: 'last_seq',
  createdAtMs: 'created_at',
  createdBy: 'created_by',
})
const members = rowMap<Omit<MemberRow, 'team' | 'position'>, TeamMember>()({
  name: 'name',
  role: 'role',
  skills: json('skills'),
  description: 'description',
  workspaceId: 'workspace_id',
})

const insertTeam = statement<TeamRow>('team-store.insertTeam')((db, _arg, { columns }) =>
  db.insertInto('teams').values(columns(teams.columns)),
)
const insertMember = statement<MemberRow>('team-store.insertMember')((db, _arg, { columns }) =>
  db.insertInto('team_members').values(columns([...members.columns, 'team', 'position'])),
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
  async insertTeam(tx, tenant, team, listed) {
    const writer = writerOf(tx, tenant)
    await writer.run(insertTeam, teams.toRow(tenant, team))
    for (const [position, member] of listed.entries()) {
      await writer.run(insertMember, { ...members.toRow(tenant, member), team: team.name, position })
    }
  },
  async saveTeam(tx, tenant, team) {
    await writerOf(tx, tenant).run(saveTeam, teams.toRow(tenant, team))
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
    return teams.found(await sessionOf(tx).get(findTeam, { tenant, team }))
  },
  async listTeams(tx, tenant) {
    return (await sessionOf(tx).all(listTeams, { tenant })).map(teams.fromRow)
  },
  async listMembers(tx, tenant, team) {
    return (await sessionOf(tx).all(listMembers, { tenant, team })).map(members.fromRow)
  },
  async memberCounts(tx, tenant) {
    return new Map((await sessionOf(tx).all(memberCounts, { tenant })).map(({ team, count }) => [team, count]))
  },
  async countMembersOnNode(tx, node) {
    return (await sessionOf(tx).get(countMembersOnNode, { node }))?.count ?? 0
  },
  async unsettledOnNode(tx, node) {
    return (await sessionOf(tx).all(unsettledOnNode, { node })).map(teams.fromRow)
  },
}
