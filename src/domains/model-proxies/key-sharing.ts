import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { identityOf } from '../../contract/principal.ts'
import { requireShareable, type Scope, type SharedResource, type Sharing } from '../../contract/sharing.ts'
import type { UserTeams } from '../../contract/user-teams.ts'

/** The sharing of a new key: the caller's own, unless it names a scope or teams. */
export async function sharingOf(
  teams: UserTeams,
  { principal, read }: Pick<Call, 'principal' | 'read'>,
  resource: SharedResource,
  requested: Readonly<{ scope?: Scope | undefined; teams?: readonly string[] | undefined }>,
): Promise<Sharing> {
  const ids = new Set<string>()
  for (const name of requested.teams ?? []) {
    const team = await teams.findTeam(read, principal.tenant, name)
    if (team === undefined) {
      throw new AppError('ERR_NOT_FOUND', 'teams: there is no such team of people; user_team_list lists them', {
        field: 'teams',
      })
    }
    ids.add(team.id)
  }
  const scope = requested.scope ?? (ids.size > 0 ? 'team' : 'personal')
  requireShareable(principal, resource, scope, [...ids])
  return { scope, author: identityOf(principal), teams: [...ids] }
}
