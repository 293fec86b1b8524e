import { AppError } from '../../contract/app-error.ts'
import type { Sharing } from '../../contract/sharing.ts'
import { type AssignmentFailure, notAssigned, type ToolAssignment } from '../../contract/tool-assignments.ts'
import type { CredentialMode } from '../../contract/upstream-tools.ts'

/** How the credentials of an assignment are found: `static` by default. */
export const modeOf = ({ credentialResolutionMode, resolveAtCallTime }: ToolAssignment): CredentialMode =>
  credentialResolutionMode ?? (resolveAtCallTime === true ? 'dynamic' : 'static')

/** Whether the identity belongs to the tenant, administers its servers, and its teams. */
export type Membership = Readonly<{ isMember: boolean; isAdmin: boolean; teams: readonly string[] }>

/**
 * Why a gateway or an agent must not use this deployment for its callers; undefined if it may. The organisation's deployment
 * serves all. A team's serves targets of the team or of the organisation, and personal targets of a member. A personal one is
 * accepted if its owner is among the callers; it serves only the owner's calls.
 */
export function misalignment(
  target: Sharing,
  deployment: Sharing,
  people: Readonly<{ author: Membership; holder: Membership }>,
): string | undefined {
  const isShared = (teams: readonly string[]): boolean => target.teams.some((team) => teams.includes(team))
  if (deployment.scope === 'org') return undefined
  if (deployment.scope === 'team') {
    if (target.scope === 'org') return undefined
    if (target.scope === 'team') return isShared(deployment.teams) ? undefined : 'it belongs to another team'
    const isOfTeam = deployment.teams.some((team) => people.author.teams.includes(team))
    return isOfTeam || people.author.isAdmin ? undefined : 'it belongs to a team that the owner of the target is not in'
  }
  if (target.scope === 'personal') {
    return target.author === deployment.author ? undefined : 'it belongs to another user'
  }
  if (target.scope === 'org') return people.holder.isMember ? undefined : 'its owner is no longer in the organisation'
  return isShared(people.holder.teams) ? undefined : 'its owner is in none of the teams of the target'
}

export function ambiguousPattern(catalogIds: readonly string[], isForOthers: boolean): AppError {
  const message = isForOthers
    ? 'toolId: the callers of the target cannot use the MCP server that this pattern means. Share the server or a deployment of it with them, or assign single tools by the ids that get_mcp_server_tools shows.'
    : 'toolId: several MCP servers have tools whose names begin so, and a pattern must mean one. Assign the tools by the ids that get_mcp_server_tools shows, or rename one of the servers with edit_mcp_description.'
  return new AppError('ERR_INVALID_INPUT', message, { field: 'toolId', catalog_ids: catalogIds })
}

/** Whether all callers of a target may use what is shared so. */
export function isForAll(shared: Sharing, target: Sharing): boolean {
  if (shared.scope === 'org') return true
  if (target.scope === 'personal') return shared.scope === 'team' || shared.author === target.author
  return shared.scope === 'team' && target.scope === 'team' && target.teams.every((team) => shared.teams.includes(team))
}

/** The same words whether the server exists or not. */
export function toolNotFound(reference: string): AssignmentFailure {
  const message = 'toolId: there is no such tool; use get_mcp_server_tools or search_tools to find it'
  const ofServer = '. An MCP server that has not answered yet has no tools; get_mcp_servers says why'
  return notAssigned('not_found', 'tool_not_found', reference.includes('__') ? `${message}${ofServer}` : message)
}

export const deploymentNotFound = (): AssignmentFailure =>
  notAssigned(
    'not_found',
    'deployment_not_found',
    'mcpServerId: there is no such deployment that you can see; use list_mcp_server_deployments to find its id',
  )

export const mayNotChange = (permission: string): AssignmentFailure =>
  notAssigned(
    'validation_error',
    'forbidden',
    `You can see the target, but changing it needs the permission '${permission}'`,
  )

export const invalidAssignment = (type: string, message: string): AssignmentFailure =>
  notAssigned('validation_error', type, message)
