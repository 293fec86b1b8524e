import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { isoTime } from '../../kernel/clock.ts'
import { counted } from '../../kernel/counted.ts'
import type { Workspace } from '../workspaces/ports.ts'
import { identityOf } from '../workspaces/rules.ts'
import { chooseBudget, requireBudget } from './budgets.ts'
import { removeCards, writeCard } from './cards.ts'
import { busy, findVisible, requireHere, requireReady, type TeamDeps, teamNotFound, withSubTeams } from './core.ts'
import type { Team, TeamMember } from './ports.ts'
import { checkRoles, checkTeamName, chooseSource, type RoleInput, workspaceNameOf } from './rules.ts'
import { createTeamLocks, type Work } from './team-locks.ts'

export type CreateInput = Readonly<{
  name: string
  roles: readonly RoleInput[]
  max_vms?: number | undefined
  base_snapshot?: string | undefined
  golden_workspace?: string | undefined
  parent_team?: string | undefined
}>

type Acting = Pick<Call, 'transact'>
type Made = Readonly<{ member: TeamMember; workspace: Workspace }>
type Source = Readonly<{ workspace: Workspace; snapshot: string }>

/**
 * The lifecycle of a team. Creation and destruction are recorded before anything happens, and every workspace names its
 * team from the start: whenever a crash comes, the next start knows what to undo. Undoing a creation and completing a
 * destruction are the same.
 */
export function createLifecycle(deps: TeamDeps) {
  const { store, workspaces, workspaceRows } = deps
  const locks = createTeamLocks(deps)

  async function create(call: Call, input: CreateInput) {
    checkTeamName('name', input.name)
    checkRoles(input.name, input.roles)
    const source = await findSource(call, input)
    await finishAbandoned(call, input.name)
    return await locks.during((work) => createIn(work, call, input, source))
  }

  async function createIn(work: Work, call: Call, input: CreateInput, source: Source | undefined) {
    const { team, isLowered } = await admit(work, call, input)
    if (isLowered) call.warn(`max_vms: lowered to ${team.maxVms}, the budget of the team above.`)
    try {
      const made = await makeMembers(call, team, input.roles, source)
      for (const { member, workspace } of made) await writeCard(deps, team, member, workspace)
      const ready = await settle(call, team)
      await tellOfNetwork(call)
      record(call, ready, made)
      return createdView(ready, made)
    } catch (error) {
      await undo(call, team)
      throw error
    }
  }

  async function findSource(call: Call, input: CreateInput): Promise<Source | undefined> {
    const chosen = chooseSource(input.golden_workspace, input.base_snapshot)
    if (chosen === undefined) return undefined
    const workspace = await workspaces.resolve(call, chosen.workspace)
    const snapshot = await workspaces.findSnapshot(call, workspace, chosen.snapshot)
    if (snapshot?.state === 'ready') return { workspace, snapshot: snapshot.name }
    throw new AppError(
      'ERR_SNAPSHOT_NOT_FOUND',
      `base_snapshot: the workspace '${workspace.name}' has no snapshot '${chosen.snapshot.slice(0, 64).toWellFormed()}'; snapshot with the action list shows them`,
      { field: 'base_snapshot', workspace_id: workspace.id },
    )
  }

  /** Everything is counted in the transaction that inserts, so no race and no crash can exceed a limit. */
  function admit(work: Work, call: Call, input: CreateInput): Promise<Readonly<{ team: Team; isLowered: boolean }>> {
    const { tenant } = call.principal
    return call.transact(async (tx) => {
      await workspaceRows.lockNode(tx, deps.node)
      if ((await store.findTeam(tx, tenant, input.name)) !== undefined) throw nameTaken(input.name)
      const all = await store.listTeams(tx, tenant)
      const ancestors = requireAncestors(call, all, input.parent_team)
      const parent = ancestors[0]
      const { maxVms, isLowered } = chooseBudget(deps.settings, input.max_vms, parent)
      const depth = parent === undefined ? 0 : parent.depth + 1
      const counts = await store.memberCounts(tx, tenant)
      const onNode = await store.countMembersOnNode(tx, deps.node)
      const plan = { name: input.name, maxVms, depth, roles: input.roles.length, ancestors }
      requireBudget(deps.settings, plan, all, counts, onNode)
      const team: Team = {
        tenant,
        name: input.name,
        owner: identityOf(call.principal),
        state: 'creating',
        maxVms,
        parent: parent?.name ?? null,
        depth,
        node: deps.node,
        operation: deps.bootId,
        lastSeq: 0,
        createdAtMs: call.nowMs,
        createdBy: call.principal.actor,
      }
      locks.take(work, team)
      await store.insertTeam(tx, tenant, team, input.roles.map(toMember))
      return { team, isLowered }
    })
  }

  /** The parent and all above it, nearest first. Members belong to the owner, so a sub-team has its parent's owner. */
  function requireAncestors(call: Call, all: readonly Team[], name: string | undefined): readonly Team[] {
    if (name === undefined) return []
    const parent = all.find((team) => team.name === name)
    if (parent === undefined || parent.owner !== identityOf(call.principal)) throw teamNotFound(name, 'parent_team')
    requireReady(parent)
    requireHere(deps, parent)
    const ancestors = [parent]
    for (let next: Team | undefined = parent; next !== undefined; ) {
      const above: string | null = next.parent
      next = all.find((team) => team.name === above)
      if (next !== undefined) ancestors.push(next)
    }
    return ancestors
  }

  /** One after the other: each sees those before it, and they are notified of it. */
  async function makeMembers(call: Call, team: Team, roles: readonly RoleInput[], source: Source | undefined) {
    const made: Made[] = []
    for (const role of roles) {
      const name = workspaceNameOf(team.name, role.name)
      const workspace =
        source === undefined
          ? await workspaces.makeWorkspace(call, { name, team: team.name })
          : await workspaces.forkWorkspace(call, source.workspace, {
              snapshotName: source.snapshot,
              name,
              team: team.name,
            })
      const at = { team: team.name, member: role.name, workspaceId: workspace.id }
      await call.transact((tx) => store.setWorkspace(tx, team.tenant, at))
      made.push({ member: { ...toMember(role), workspaceId: workspace.id }, workspace })
      call.progress({
        progress: made.length,
        total: roles.length,
        message: `${made.length} of ${roles.length} members created`,
      })
    }
    return made
  }

  async function settle(call: Acting, team: Team): Promise<Team> {
    const ready: Team = { ...team, state: 'ready', operation: null }
    await call.transact((tx) => store.saveTeam(tx, team.tenant, ready))
    return ready
  }

  async function tellOfNetwork(call: Call): Promise<void> {
    const { capabilities } = await deps.backend.capabilities()
    const { enforced, reason } = capabilities.network_policy
    if (!enforced) call.warn(`The members cannot reach each other on this machine: ${reason}`)
  }

  function record(call: Call, team: Team, made: readonly Made[]): void {
    const members = made.map(({ member, workspace }) => ({
      name: member.name,
      role: member.role,
      workspace_id: workspace.id,
      workspace_name: workspace.name,
    }))
    const { name, owner, parent, depth, maxVms } = team
    call.record({ kind: 'team_created', body: { name, owner, parent_team: parent, depth, max_vms: maxVms, members } })
  }

  /** What cannot be undone now is marked, so that a destroy or the next start continues. */
  async function undo(call: Acting, team: Team): Promise<void> {
    try {
      await remove(call, team)
    } catch (error) {
      deps.logger.warn('partly created team could not be removed', {
        team: team.name,
        cause: String(error),
      })
    }
  }

  const destroy = (call: Call, { name }: Readonly<{ name: string }>) =>
    locks.during((work) => destroyIn(work, call, name))

  async function destroyIn(work: Work, call: Call, name: string) {
    const { team } = await findVisible(deps, call, call.read, name)
    requireHere(deps, team)
    const ended = await locks.ended(await store.listTeams(call.read, team.tenant))
    const taken = await call.transact(async (tx) => {
      const all = await store.listTeams(tx, team.tenant)
      const root = all.find((other) => other.name === team.name)
      if (root === undefined) throw teamNotFound(name)
      const doomed = withSubTeams(all, root)
      for (const one of doomed) {
        if (!locks.isFree(work, one, ended)) throw busy(one)
        locks.take(work, one)
        await store.saveTeam(tx, one.tenant, { ...one, state: 'destroying', operation: deps.bootId })
      }
      return doomed
    })
    let removed = 0
    for (const [index, one] of taken.entries()) {
      try {
        removed += await remove(call, one)
      } catch (error) {
        await release(call, taken.slice(index + 1))
        throw error
      }
    }
    const names = taken.map((one) => one.name)
    call.record({ kind: 'team_destroyed', body: { name, teams: names, workspaces: removed } })
    const lost = `${counted(taken.length - 1, 'sub-team')} and ${counted(removed, 'workspace')}`
    const message = `The team ${name} was destroyed, with ${lost}.`
    return { action: 'destroy' as const, name, success: true, destroyed_teams: names, message }
  }

  /** Removes everything that was created for the team, its rows last. Returns the number of workspaces. */
  async function remove(call: Acting, team: Team): Promise<number> {
    const { tenant, name } = team
    const members = await store.listMembers(deps.database.read, tenant, name)
    try {
      const rows = await workspaceRows.listWorkspaces(deps.database.read, tenant)
      const all = rows.filter((workspace) => workspace.team === name)
      const own = all.filter((workspace) => workspace.owner === team.owner)
      await letGo(
        call,
        all.filter((workspace) => workspace.owner !== team.owner),
      )
      const ended = await Promise.allSettled(own.map((workspace) => workspaces.destroyWorkspace(call, workspace)))
      const failed = ended.find((outcome) => outcome.status === 'rejected')
      if (failed !== undefined) throw failed.reason
      await removeCards(deps, tenant, name, members)
      await call.transact((tx) => store.deleteTeam(tx, tenant, name))
      return own.length
    } catch (error) {
      await release(call, [team])
      throw error
    }
  }

  /** An adopted workspace leaves the team and stays. */
  const letGo = (call: Acting, adopted: readonly Workspace[]): Promise<void> =>
    call.transact(async (tx) => {
      for (const { tenant, id } of adopted) {
        const found = await workspaceRows.findWorkspace(tx, tenant, id)
        if (found !== undefined) await workspaceRows.saveWorkspace(tx, tenant, { ...found, team: null })
      }
    })

  /** Still to be destroyed, but no process is working on it. */
  const release = (call: Acting, teams: readonly Team[]): Promise<void> =>
    call.transact(async (tx) => {
      for (const { tenant, name } of teams) {
        const found = await store.findTeam(tx, tenant, name)
        if (found !== undefined) await store.saveTeam(tx, tenant, { ...found, state: 'destroying', operation: null })
      }
    })

  /** Claims teams that no process will complete, and completes them. */
  const finishOne = (call: Acting, team: Team): Promise<void> => locks.during((work) => finishIn(work, call, team))

  async function finishIn(work: Work, call: Acting, team: Team): Promise<void> {
    const { tenant, name } = team
    const ended = await locks.ended([team])
    const taken = await call.transact(async (tx) => {
      const found = await store.findTeam(tx, tenant, name)
      if (found === undefined || found.state === 'ready' || found.node !== deps.node) return undefined
      if (!locks.isFree(work, found, ended)) return undefined
      locks.take(work, found)
      const own: Team = { ...found, state: 'destroying', operation: deps.bootId }
      await store.saveTeam(tx, tenant, own)
      return own
    })
    if (taken !== undefined) await remove(call, taken)
  }

  async function finishAbandoned(call: Call, name: string): Promise<void> {
    const found = await store.findTeam(call.read, call.principal.tenant, name)
    if (found !== undefined && found.state !== 'ready') await finishOne(call, found)
  }

  /** At the start of the server: undoes creations and completes destructions that another process left half done. */
  async function recover(): Promise<void> {
    if (deps.isReadOnly) return
    const unsettled = await store.unsettledOnNode(deps.database.read, deps.node)
    if (unsettled.length === 0) return
    await workspaces.recover()
    for (const team of unsettled) {
      try {
        await finishOne({ transact: (work) => deps.database.write(team.tenant, work) }, team)
      } catch (error) {
        deps.logger.warn('team recovery failed', { team: team.name, cause: String(error) })
      }
    }
  }

  return { create, destroy, recover }
}

const toMember = ({ name, role, skills, description }: RoleInput): TeamMember => ({
  name,
  role,
  skills: skills ?? [],
  description: description ?? '',
  workspaceId: null,
})

const createdView = (team: Team, made: readonly Made[]) => ({
  action: 'create' as const,
  name: team.name,
  state: team.state,
  member_count: made.length,
  member_workspace_ids: made.map(({ workspace }) => workspace.id),
  members: made.map(({ member, workspace }) => ({
    name: member.name,
    role: member.role,
    workspace_id: workspace.id,
    workspace_name: workspace.name,
    ip: workspace.ip,
  })),
  max_vms: team.maxVms,
  parent_team: team.parent,
  depth: team.depth,
  created_at: isoTime(team.createdAtMs),
})

const nameTaken = (name: string): AppError =>
  new AppError(
    'ERR_ALREADY_EXISTS',
    `name: the name '${name}' is taken; the action list shows the teams that are yours. Choose another name`,
    {
      field: 'name',
      name,
    },
  )
