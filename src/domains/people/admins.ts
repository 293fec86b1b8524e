import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { identityOf, LOCAL_TENANT, type TenantId } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { PeopleStore, User } from './ports.ts'
import type { PeopleWriting } from './service.ts'

const ADMIN = 'admin'

/** The administrators of an organisation: its last one does not leave without a word. */
export function createAdmins(
  store: Pick<PeopleStore, 'listUsers' | 'listUsersWithSignIn'>,
  userBehind: (read: ReadTx, tenant: TenantId, identity: string) => Promise<string | undefined>,
) {
  async function isLast({ read }: PeopleWriting, { tenant, id, role }: User): Promise<boolean> {
    if (role !== ADMIN) return false
    const withSignIn = new Set(await store.listUsersWithSignIn(read, tenant))
    const users = await store.listUsers(read, tenant, limits.usersPerTenantMax)
    const admins = users.filter((user) => user.role === ADMIN && withSignIn.has(user.id))
    return admins.length === 1 && admins[0]!.id === id
  }

  /** Also with a key of their own, which would end with their rights. */
  const isOwn = async ({ principal, read }: PeopleWriting, user: User): Promise<boolean> =>
    (await userBehind(read, principal.tenant, identityOf(principal))) === user.id

  return {
    /** For a user who gets a lower tier. The last administrator could not raise it again. */
    async requireTier(call: PeopleWriting, user: User): Promise<void> {
      if ((await isLast(call, user)) && (await isOwn(call, user))) throw lastAdmin()
    },

    /**
     * For a user who is removed or gets another role. The last administrator who can sign in cannot do that to themselves: nobody else
     * in the organisation could undo it. A caller that stays is warned.
     */
    async noteLeaving(call: PeopleWriting, user: User): Promise<void> {
      if (!(await isLast(call, user))) return
      if (await isOwn(call, user)) throw lastAdmin()
      const tenant = user.tenant === LOCAL_TENANT ? '' : ` --tenant ${user.tenant}`
      call.warn(
        `Nobody can sign in as an administrator of the organisation '${user.tenant}' any more. Create one with castellan users create EMAIL --admin${tenant} (user_create role=admin).`,
      )
    },
  }
}

const lastAdmin = (): AppError =>
  new AppError(
    'ERR_LAST_ADMIN',
    'user: you are the only administrator of this organisation who can sign in, and nobody else in it could make another. Make another user an administrator first (user_update role=admin), or have the owner of the machine do this',
    { field: 'user' },
  )
