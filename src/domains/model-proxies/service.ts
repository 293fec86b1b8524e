import type { Call } from '../../contract/call.ts'
import { createProfileAccess } from '../profiles/access.ts'
import type { Profile, ProfileStore } from '../profiles/ports.ts'
import { profileView } from '../profiles/rules.ts'
import type { ProfileFields, ProfileService } from '../profiles/service.ts'

type ModelProxyDeps = Readonly<{
  profiles: Pick<ProfileStore, 'deleteProfile'>
  sharing: ProfileService
  /** Called for every change, before it is committed. */
  noteChange(): void
}>

export type ModelProxyService = ReturnType<typeof createModelProxyService>

/** Model proxies: addresses through which programs reach language models, for those with whom they are shared. */
export function createModelProxyService({ profiles, sharing, noteChange }: ModelProxyDeps) {
  const access = createProfileAccess({
    profiles,
    sharing,
    noun: { kind: 'llm_proxy', long: 'model proxy', short: 'proxy', listTool: 'list_llm_proxies' },
  })

  /** A proxy has no assigned tools: programs bring their own. */
  const viewOf = async (call: Call, profile: Profile) => ({
    ...profileView(profile),
    path: `/v1/{provider}/${profile.slug}`,
    teams: await sharing.teamsOf(call.read, profile),
    tools: [],
  })

  return {
    async create(call: Call, input: ProfileFields & Readonly<{ name: string }>) {
      const made = await sharing.create(call, 'llm_proxy', input)
      noteChange()
      return await viewOf(call, made)
    },

    async edit(call: Call, input: ProfileFields & Readonly<{ id: string }>) {
      const edited = await sharing.edit(call, await access.require(call, input.id), input)
      noteChange()
      return await viewOf(call, edited)
    },

    async get(call: Call, input: Readonly<{ id?: string | undefined; name?: string | undefined }>) {
      return await viewOf(call, await access.requireEither(call, input))
    },

    async remove(call: Call, { id }: Readonly<{ id: string }>) {
      const removed = await access.remove(call, id)
      noteChange()
      return { id: removed.id, deleted: true }
    },

    async list(call: Call, input: Readonly<{ name?: string | undefined; limit: number; offset: number }>) {
      const { profiles: page, total } = await sharing.list(call.read, call.principal, 'llm_proxy', input)
      const proxies = []
      for (const profile of page) {
        const { id, name, slug, path, description, scope, teams, labels } = await viewOf(call, profile)
        proxies.push({ id, name, slug, path, description, scope, teams, labels })
      }
      return { total, proxies }
    },
  }
}
