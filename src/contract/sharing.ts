import { AppError } from './app-error.ts'
import { isPermitted, type Permission } from './permissions.ts'
import { identityOf, type Principal } from './principal.ts'

export const sharingScopes = ['personal', 'team', 'org'] as const
export type Scope = (typeof sharingScopes)[number]

/**
 * The owner of something and those with whom it is shared. `author` is an identity; `teams` are ids of teams of people, only for
 * the scope `team`.
 */
export type Sharing = Readonly<{ scope: Scope; author: string; teams: readonly string[] }>

type Gate = Readonly<{
  /** Allows access to everything in the tenant. */
  admin: Permission
  /** Allows changes to what is shared with one of the holder's teams. */
  ofOwnTeam: Permission
  /** Allows changes to what is shared with any team. */
  ofAnyTeam?: Permission
  /** Personal items of others stay hidden, even from a caller with `admin`. */
  hidesPersonal?: true
}>

const gates = {
  agent: { admin: 'agent:admin', ofOwnTeam: 'agent:team-admin', hidesPersonal: true },
  mcpGateway: { admin: 'mcpGateway:admin', ofOwnTeam: 'mcpGateway:team-admin' },
  llmProxy: { admin: 'llmProxy:admin', ofOwnTeam: 'llmProxy:team-admin' },
  llmVirtualKey: { admin: 'llmVirtualKey:admin', ofOwnTeam: 'llmVirtualKey:update' },
  llmProviderApiKey: { admin: 'llmProviderApiKey:admin', ofOwnTeam: 'llmProviderApiKey:update' },
  skill: { admin: 'skill:admin', ofOwnTeam: 'skill:team-admin' },
  app: { admin: 'app:admin', ofOwnTeam: 'app:team-admin' },
  mcpRegistry: { admin: 'mcpServerInstallation:admin', ofOwnTeam: 'mcpRegistry:team-admin' },
  mcpServerInstallation: {
    admin: 'mcpServerInstallation:admin',
    ofOwnTeam: 'mcpServerInstallation:update',
    ofAnyTeam: 'userTeam:admin',
  },
} as const satisfies Record<string, Gate>

/** Resources that are shared by scope. All of them use the same rules here, and the same filter in the store. */
export type SharedResource = keyof typeof gates
export const sharedResources = Object.keys(gates) as readonly SharedResource[]

const gateOf = (resource: SharedResource): Gate => gates[resource]

/** What a caller may see, in the terms of the store's filter. */
export type Viewer = Readonly<{
  identity: string
  teams: readonly string[]
  seesEveryTeam: boolean
  seesEveryPersonal: boolean
}>

export function viewerOf(principal: Principal, resource: SharedResource): Viewer {
  const { admin, hidesPersonal } = gateOf(resource)
  const isAdmin = isPermitted(principal, admin)
  return {
    identity: identityOf(principal),
    teams: principal.teams,
    seesEveryTeam: isAdmin,
    seesEveryPersonal: isAdmin && hidesPersonal !== true,
  }
}

const isMember = ({ teams }: Pick<Principal, 'teams'>, sharing: Sharing): boolean =>
  sharing.teams.some((team) => teams.includes(team))

export function canSee(principal: Principal, resource: SharedResource, sharing: Sharing): boolean {
  const { identity, seesEveryTeam, seesEveryPersonal } = viewerOf(principal, resource)
  switch (sharing.scope) {
    case 'org':
      return true
    case 'team':
      return seesEveryTeam || isMember(principal, sharing)
    case 'personal':
      return seesEveryPersonal || sharing.author === identity
  }
}

/** In addition to the permission for the action itself. A caller never changes what it cannot see. */
export function canModify(principal: Principal, resource: SharedResource, sharing: Sharing): boolean {
  const { admin, ofOwnTeam, ofAnyTeam } = gateOf(resource)
  if (!canSee(principal, resource, sharing)) return false
  if (sharing.scope === 'personal' || isPermitted(principal, admin)) return true
  if (sharing.scope === 'org') return false
  if (ofAnyTeam !== undefined && isPermitted(principal, ofAnyTeam)) return true
  return isPermitted(principal, ofOwnTeam) && isMember(principal, sharing)
}

/** Whether the caller may set this scope and these teams. The teams exist: they were looked up when they were resolved. */
export function requireShareable(
  principal: Principal,
  resource: SharedResource,
  scope: Scope,
  teams: readonly string[],
): void {
  const { admin, ofOwnTeam, ofAnyTeam } = gateOf(resource)
  if (scope !== 'team' && teams.length > 0) {
    throw new AppError(
      'ERR_INVALID_INPUT',
      'teams: only the scope team has teams; leave teams out, or use scope team',
      {
        field: 'teams',
      },
    )
  }
  if (scope === 'personal') return
  if (scope === 'team' && teams.length === 0) {
    throw new AppError('ERR_INVALID_INPUT', 'teams: the scope team needs at least one team', { field: 'teams' })
  }
  if (isPermitted(principal, admin)) return
  if (scope === 'org') throw beyond('scope: org', admin, 'use scope personal, or share it with a team of yours')
  if (ofAnyTeam !== undefined && isPermitted(principal, ofAnyTeam)) return
  if (!isPermitted(principal, ofOwnTeam)) throw beyond('scope: team', ofOwnTeam, 'use scope personal')
  if (!teams.every((team) => principal.teams.includes(team))) {
    throw new AppError('ERR_PERMISSION_DENIED', 'teams: name only teams of which you are a member', { field: 'teams' })
  }
}

const beyond = (what: string, permission: Permission, next: string): AppError =>
  new AppError('ERR_PERMISSION_DENIED', `${what} needs the permission '${permission}'; ${next}`, {
    field: 'scope',
    permission,
  })
