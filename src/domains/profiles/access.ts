import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { canModify } from '../../contract/sharing.ts'
import type { Profile, ProfileKind, ProfileStore } from './ports.ts'
import { missingName, modifyPermission, resourceOf } from './rules.ts'
import type { ProfileService } from './service.ts'

/** How refusals name profiles of one kind, and the tool that lists them. */
type ProfileNoun = Readonly<{ kind: ProfileKind; long: string; short: string; listTool: string }>

type ProfileAccessDeps = Readonly<{
  profiles: Pick<ProfileStore, 'deleteProfile'>
  sharing: Pick<ProfileService, 'find'>
  noun: ProfileNoun
}>

/** Profiles of one kind as callers name them: by id or name, found only where the caller sees them. */
export function createProfileAccess({ profiles, sharing, noun }: ProfileAccessDeps) {
  async function require(call: Pick<Call, 'read' | 'principal'>, idOrName: string): Promise<Profile> {
    const found = await sharing.find(call.read, call.principal, noun.kind, idOrName)
    if (found !== undefined) return found
    const message = `There is no such ${noun.long} that you can see. ${noun.listTool} lists them.`
    throw new AppError('ERR_NOT_FOUND', message, { id: idOrName.slice(0, 128).toWellFormed() })
  }

  async function requireModifiable(call: Call, idOrName: string): Promise<Profile> {
    const found = await require(call, idOrName)
    if (canModify(call.principal, resourceOf(noun.kind), found.sharing)) return found
    const permission = modifyPermission(found)
    throw new AppError(
      'ERR_PERMISSION_DENIED',
      `id: this ${noun.short} has the scope ${found.sharing.scope}; changing it needs the permission '${permission}'`,
      { field: 'id', permission },
    )
  }

  return {
    require,
    requireModifiable,

    async requireEither(call: Call, input: Readonly<{ id?: string | undefined; name?: string | undefined }>) {
      const reference = input.id ?? input.name
      if (reference === undefined) throw missingName()
      return await require(call, reference)
    },

    async remove(call: Call, idOrName: string): Promise<Profile> {
      const found = await requireModifiable(call, idOrName)
      await profiles.deleteProfile(call.write, found.tenant, found.id)
      call.record({ kind: 'profile_deleted', body: { id: found.id, kind: found.kind, by: call.principal.actor } })
      return found
    },
  }
}
