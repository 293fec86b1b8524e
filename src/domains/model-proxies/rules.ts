import { identityOf, type Principal } from '../../contract/principal.ts'
import type { Sharing } from '../../contract/sharing.ts'

/** The prefix of every virtual key's id, which is used like an API key's. */
export const VIRTUAL_KEY_PREFIX = 'vkey_'

/** Whether the caller may use something. Administering it is no reason to use it. */
export function canUse(principal: Principal, { scope, author, teams }: Sharing): boolean {
  if (scope === 'org') return true
  if (scope === 'personal') return author === identityOf(principal)
  return teams.some((team) => principal.teams.includes(team))
}
