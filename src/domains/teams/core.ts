import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { Database } from '../../contract/database.ts'
import type { OwnerDirectory } from '../../contract/owner-directory.ts'
import { administers } from '../../contract/permissions.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { Random } from '../../kernel/random.ts'
import { uuidOf } from '../../kernel/uuid.ts'
import type { VaultFiles } from '../vault/service.ts'
import type { WorkspaceBackend } from '../workspaces/backend.ts'
import type { WorkspaceStore } from '../workspaces/ports.ts'
import { identityOf } from '../workspaces/rules.ts'
import type { WorkspaceService } from '../workspaces/service.ts'
import type { Team, TeamStore } from './ports.ts'

export type TeamSettings = Readonly<{
  /** The largest budget that a team may have. */
  vmsPerTeamMax: number
  /** The maximum number of teams above one. */
  nestingDepthMax: number
  /** Members of all teams on this node. */
  totalVmsMax: number
}>

export type TeamDeps = Readonly<{
  store: TeamStore
  workspaces: Pick<
    WorkspaceService,
    | 'resolve'
    | 'handOver'
    | 'imageDefaults'
    | 'makeWorkspace'
    | 'forkWorkspace'
    | 'destroyWorkspace'
    | 'findSnapshot'
    | 'list'
    | 'recover'
  >
  workspaceRows: Pick<WorkspaceStore, 'listWorkspaces' | 'findWorkspace' | 'saveWorkspace' | 'lockNode'>
  backend: Pick<WorkspaceBackend, 'jobs' | 'capabilities'>
  /** Where the cards of the members are stored. */
  vault: VaultFiles
  /** For work outside a call: running tasks, and crash recovery at the start. */
  database: Pick<Database, 'read' | 'write' | 'flush' | 'kind'>
  owners: OwnerDirectory
  settings: TeamSettings
  /** The machine and directory of the back end; teams of other nodes are left alone. */
  node: string
  /** Identifies this server process, in the rows that it is changing. */
  bootId: string
  isAlive(bootId: string): boolean | Promise<boolean>
  /** A read-only server runs no tasks. */
  isReadOnly: boolean
  clock: Clock
  random: Random
  logger: Logger
}>

export const newMessageId = ({ random }: Pick<TeamDeps, 'random'>): string => `msg-${uuidOf(random.bytes(16))}`

type Viewer = Pick<Call, 'principal' | 'nowMs'>
/**
 * A team, as far as one caller has access to it. If its owner was revoked, administrators and the owner's successor may
 * see it and destroy it.
 */
type Access = Readonly<{ team: Team; orphaned: boolean }>

export async function accessOf(
  deps: Pick<TeamDeps, 'owners'>,
  call: Viewer,
  tx: ReadTx,
  team: Team,
): Promise<Access | undefined> {
  if (team.owner === identityOf(call.principal)) return { team, orphaned: false }
  const orphaned = await deps.owners.isRevoked(tx, team.tenant, team.owner)
  const isFor =
    administers(call.principal, 'team') || (orphaned && (await deps.owners.isSuccessor(tx, call.principal, team.owner)))
  return isFor ? { team, orphaned } : undefined
}

/** The names of the teams that the caller may see; undefined for callers who see all. */
export async function visibleTeamNames(
  deps: Pick<TeamDeps, 'owners' | 'store'>,
  call: Viewer,
  tx: ReadTx,
): Promise<ReadonlySet<string> | undefined> {
  if (administers(call.principal, 'team')) return undefined
  const all = await deps.store.listTeams(tx, call.principal.tenant)
  const accesses = await Promise.all(all.map((team) => accessOf(deps, call, tx, team)))
  return new Set(accesses.flatMap((access) => (access === undefined ? [] : [access.team.name])))
}

/** The team of that name, if the caller may see it. Touches only the store. */
export async function findVisible(deps: TeamDeps, call: Viewer, tx: ReadTx, name: string): Promise<Access> {
  const team = await deps.store.findTeam(tx, call.principal.tenant, name)
  const access = team === undefined ? undefined : await accessOf(deps, call, tx, team)
  if (access === undefined) throw teamNotFound(name)
  return access
}

/** The same, if the caller may also work with it. */
export async function findUsable(deps: TeamDeps, call: Viewer, tx: ReadTx, name: string): Promise<Team> {
  const { team, orphaned } = await findVisible(deps, call, tx, name)
  if (orphaned) {
    throw new AppError(
      'ERR_WORKSPACE_ORPHANED',
      `The owner of the team '${team.name}' was revoked or removed; take it over with the action adopt, or destroy it`,
      { name: team.name, owner: team.owner },
    )
  }
  requireReady(team)
  return team
}

export function requireReady(team: Team): void {
  if (team.state === 'ready') return
  throw busy(team)
}

/** The same message whether it belongs to another owner or does not exist. */
export const teamNotFound = (name: string, field = 'name'): AppError =>
  new AppError(
    'ERR_TEAM_NOT_FOUND',
    `${field}: you have no team '${name.slice(0, 64).toWellFormed()}'; the action list shows yours`,
    { field, name: name.slice(0, 128).toWellFormed() },
  )

export const busy = ({ name, state }: Team): AppError =>
  new AppError(
    'ERR_BUSY',
    `The team '${name}' is being ${state === 'creating' ? 'created' : 'destroyed'}; call again in a moment`,
    { name, state, retry_after_ms: 1_000 },
  )

export function requireHere({ node }: TeamDeps, team: Team): void {
  if (team.node === node) return
  throw new AppError(
    'ERR_CAPABILITY_MISSING',
    `The team '${team.name}' is on another machine; call the server that runs there`,
    { name: team.name, node: team.node },
  )
}

/** The team and all that is below it, the deepest first. */
export function withSubTeams(all: readonly Team[], root: Team): readonly Team[] {
  const found = [root]
  for (const team of found) found.push(...all.filter(({ parent }) => parent === team.name))
  return found.toReversed()
}
