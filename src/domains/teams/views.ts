import type { Call } from '../../contract/call.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { WorkspaceState } from '../workspaces/rules.ts'
import { vmsUnder } from './budgets.ts'
import { accessOf, findVisible, type TeamDeps } from './core.ts'
import type { TaskCounts, Team, TeamMember } from './ports.ts'
import { workspaceNameOf } from './rules.ts'

const agentStatuses = ['idle', 'working', 'stopped', 'failed'] as const
type AgentStatus = (typeof agentStatuses)[number]
/** A member's workspace may have been destroyed by hand. */
type SeenState = WorkspaceState | 'gone'

export function createViews(deps: TeamDeps) {
  const { store } = deps

  async function status(call: Call, { name }: Readonly<{ name: string }>) {
    const { team, orphaned } = await findVisible(deps, call, call.read, name)
    const all = await store.listTeams(call.read, team.tenant)
    const counts = await store.memberCounts(call.read, team.tenant)
    const tasks = await store.taskCounts(call.read, team.tenant, team.name)
    const members = await store.listMembers(call.read, team.tenant, team.name)
    const seen = new Map((await deps.workspaces.list(call, {})).workspaces.map((row) => [row.workspace_id, row]))
    const used = vmsUnder(all, counts, team)
    return {
      action: 'status' as const,
      ...teamView(team, members.length),
      orphaned,
      created_by: team.createdBy,
      budget: { max_vms: team.maxVms, used_vms: used, free_vms: Math.max(0, team.maxVms - used) },
      sub_teams: all.filter(({ parent }) => parent === team.name).map((sub) => sub.name),
      members: members.map((member) =>
        memberView(team, member, seen.get(member.workspaceId ?? ''), tasks.get(member.name)),
      ),
    }
  }

  async function list(call: Call) {
    const all = await store.listTeams(call.read, call.principal.tenant)
    const counts = await store.memberCounts(call.read, call.principal.tenant)
    const accesses = await Promise.all(all.map((team) => accessOf(deps, call, call.read, team)))
    const teams = accesses.flatMap((access) =>
      access === undefined ? [] : [teamView(access.team, counts.get(access.team.name) ?? 0)],
    )
    return { action: 'list' as const, teams, count: teams.length }
  }

  return { status, list }
}

const teamView = (team: Team, memberCount: number) => ({
  name: team.name,
  state: team.state,
  member_count: memberCount,
  max_vms: team.maxVms,
  parent_team: team.parent,
  depth: team.depth,
  owner: team.owner,
  created_at: isoTime(team.createdAtMs),
})

function memberView(
  team: Team,
  member: TeamMember,
  workspace: Readonly<{ ip: string; state: WorkspaceState }> | undefined,
  tasks: TaskCounts = { queued: 0, running: 0, done: 0 },
) {
  const workspace_state: SeenState = workspace?.state ?? 'gone'
  return {
    name: member.name,
    role: member.role,
    skills: member.skills,
    description: member.description,
    workspace_id: member.workspaceId,
    workspace_name: workspaceNameOf(team.name, member.name),
    ip: workspace?.ip ?? '',
    workspace_state,
    agent_status: statusOf(workspace_state, tasks),
    queued_tasks: tasks.queued,
    running_tasks: tasks.running,
  }
}

function statusOf(state: SeenState, { queued, running }: TaskCounts): AgentStatus {
  if (state === 'gone') return 'failed'
  if (state !== 'running') return 'stopped'
  return queued + running > 0 ? 'working' : 'idle'
}
