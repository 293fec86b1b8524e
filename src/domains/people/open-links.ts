import { AppError } from '../../contract/app-error.ts'
import { isPermitted } from '../../contract/permissions.ts'
import type { Principal } from '../../contract/principal.ts'
import { invitationEffect } from './invitations.ts'
import type { Invitation, PeopleStore, User } from './ports.ts'
import type { Rights } from './rights.ts'
import type { PeopleReading, PeopleWriting } from './service.ts'

type Store = Pick<PeopleStore, 'cancelInvitation' | 'listOpenInvitations' | 'listOpenInvitationsBy'>

export type OpenLinks = ReturnType<typeof createOpenLinks>

/** Links that nobody has used yet. A caller can hold one back, so they end with the rights on which they depend. */
export function createOpenLinks(store: Store, rights: Rights) {
  /** Returns how many of them were open. */
  async function cancel(call: PeopleWriting, links: readonly Invitation[]): Promise<number> {
    let count = 0
    for (const link of links) {
      if (!(await store.cancelInvitation(call.write, link.tenant, link.id, call.nowMs))) continue
      call.record(invitationEffect('invitation_cancelled', link))
      count++
    }
    return count
  }

  async function couldCreate(call: PeopleReading, principal: Principal, link: Invitation): Promise<boolean> {
    try {
      await rights.requireOver({ ...call, principal }, link)
      return true
    } catch (error) {
      if (error instanceof AppError) return false
      throw error
    }
  }

  return {
    cancel,

    /** For a user who gets more rights: the creator of a link may not have them. */
    async endFor(call: PeopleWriting, { tenant, id, email }: User): Promise<void> {
      const open = await store.listOpenInvitations(call.read, tenant, email, call.nowMs)
      const own = open.filter(({ userId }) => userId === id)
      if ((await cancel(call, own)) === 0) return
      call.warn(
        'Open links with which this user could choose a password no longer work, because the user has more rights now. If the user needs one, create it with castellan users update --new-link (user_update new_link=true).',
      )
    },

    /**
     * For a user who is removed, with keys of these names: the user could come back through a link. With `remaining`, only the links
     * that these rights are not enough to create.
     */
    async endOf(
      call: PeopleWriting,
      { tenant, email }: User,
      keys: readonly string[] = [],
      remaining?: Principal,
    ): Promise<void> {
      const ending: Invitation[] = []
      for (const creator of [email, ...keys]) {
        for (const link of await store.listOpenInvitationsBy(call.read, tenant, creator, call.nowMs))
          if (remaining === undefined || !(await couldCreate(call, remaining, link))) ending.push(link)
      }
      const count = await cancel(call, ending)
      if (count === 0) return
      const fact =
        count === 1
          ? 'An open link that this user created no longer works'
          : `${count} open links that this user created no longer work`
      call.warn(
        `${fact}. castellan invite list (invitation_list) shows what was cancelled; create again what you want.`,
      )
    },
  }
}

/** A link lets its holder act as the user, so it takes what adding a person to the user's teams takes. */
export function requireTeamsOf({ principal }: PeopleReading, teamIds: readonly string[]): void {
  if (isPermitted(principal, 'userTeam:update') || teamIds.every((id) => principal.teams.includes(id))) return
  const message =
    "new_link: a new password for a user of a team that you do not belong to requires the permission 'userTeam:update'"
  throw new AppError('ERR_PERMISSION_DENIED', message, { field: 'new_link', permission: 'userTeam:update' })
}
