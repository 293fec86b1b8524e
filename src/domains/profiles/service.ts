import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'
import { isAtConsole } from '../../contract/person.ts'
import { identityOf, LOCAL_OWNER, type Principal, SYSTEM_TENANT, type TenantId } from '../../contract/principal.ts'
import { canModify, canSee, requireShareable, type Scope, type Sharing, viewerOf } from '../../contract/sharing.ts'
import type { Trust } from '../../contract/trust.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { UserTeams } from '../../contract/user-teams.ts'
import type { Random } from '../../kernel/random.ts'
import { uuidOf } from '../../kernel/uuid.ts'
import type { Exposure, Label, Profile, ProfileKind, ProfileStore, SuggestedPrompt } from './ports.ts'
import {
  checkLabels,
  checkName,
  checkPrompts,
  isNamed,
  modifyPermission,
  nameTaken,
  nearestFirst,
  numberedSlug,
  resourceOf,
  shareScope,
  slugOf,
  tooMany,
} from './rules.ts'

/** The fields of a profile as callers write them; omitted ones stay, or have their default. */
export type ProfileFields = Readonly<{
  name?: string | undefined
  scope?: Scope | undefined
  /** Ids or names. */
  teams?: readonly string[] | undefined
  description?: string | null | undefined
  icon?: string | null | undefined
  labels?: readonly Label[] | undefined
  systemPrompt?: string | null | undefined
  suggestedPrompts?: readonly SuggestedPrompt[] | undefined
  toolExposureMode?: Exposure | undefined
  considerContextUntrusted?: boolean | undefined
}>

type ProfileDeps = Readonly<{
  store: ProfileStore
  teams: UserTeams
  random: Random
  trust: Pick<Trust, 'hasReadUntrusted'>
}>

export type ProfileService = ReturnType<typeof createProfileService>

/** The scope if the caller names neither a scope nor teams. */
const defaultScope: Readonly<Record<ProfileKind, Scope>> = {
  agent: 'personal',
  profile: 'personal',
  mcp_gateway: 'org',
  llm_proxy: 'org',
}

/** The names and sharing of agents, gateways and proxies. Their functions are elsewhere. */
export function createProfileService(deps: ProfileDeps) {
  const { store, random } = deps

  /** Undefined if there is none or the caller may not see it. */
  async function find(read: ReadTx, principal: Principal, kind: ProfileKind, idOrName: string) {
    const { tenant } = principal
    const byId = await store.findProfile(read, tenant, idOrName)
    if (byId !== undefined && byId.kind === kind && canSee(principal, resourceOf(kind), byId.sharing)) return byId
    return (await findAllNamed(read, principal, kind, idOrName))[0]
  }

  /** All of the name that the caller sees, the nearest first. */
  async function findAllNamed(read: ReadTx, principal: Principal, kind: ProfileKind, name: string) {
    const named = await store.findNamed(read, principal.tenant, kind, name)
    return nearestFirst(named.filter(({ sharing }) => canSee(principal, resourceOf(kind), sharing)))
  }

  /** By id or name; all of them must exist. */
  async function teamIds(call: Call, names: readonly string[]): Promise<string[]> {
    const ids: string[] = []
    for (const name of names) {
      const team = await deps.teams.findTeam(call.read, call.principal.tenant, name)
      if (team === undefined) throw noTeam()
      ids.push(team.id)
    }
    return [...new Set(ids)]
  }

  async function sharingOf(call: Call, kind: ProfileKind, fields: ProfileFields, before?: Sharing): Promise<Sharing> {
    const { principal } = call
    const named = fields.teams === undefined ? undefined : await teamIds(call, fields.teams)
    const hasTeams = (named?.length ?? 0) > 0
    const scope = fields.scope ?? (hasTeams ? 'team' : (before?.scope ?? defaultScope[kind]))
    const teams = named ?? (scope === 'team' ? (before?.teams ?? []) : [])
    const isSame =
      before !== undefined && scope === before.scope && teams.toSorted().join() === before.teams.toSorted().join()
    if (!isSame) requireShareable(principal, resourceOf(kind), scope, teams)
    return { scope, teams, author: before?.author ?? identityOf(principal) }
  }

  async function requireFreeName(read: ReadTx, tenant: TenantId, profile: Profile): Promise<void> {
    for (const name of new Set([profile.name, profile.slug])) {
      const others = await store.findNamed(read, tenant, profile.kind, name)
      const isTaken = others.some(
        (other) => other.id !== profile.id && shareScope(other.sharing, profile.sharing) && isNamed(other, name),
      )
      if (isTaken) throw nameTaken(profile.name)
    }
  }

  async function freeSlug(read: ReadTx, tenant: TenantId, kind: ProfileKind, name: string, sharing: Sharing) {
    const plain = slugOf(name) ?? `${kind.replaceAll('_', '-')}-${random.bytes(4).toString('hex')}`
    for (let number = 1; number <= SLUG_TRIES; number++) {
      const slug = number === 1 ? plain : numberedSlug(plain, number)
      const others = await store.findNamed(read, tenant, kind, slug)
      if (!others.some((other) => shareScope(other.sharing, sharing) && isNamed(other, slug))) return slug
    }
    throw nameTaken(name)
  }

  /** A profile that may be stored. Nothing is written yet. */
  async function prepare(call: Call, kind: ProfileKind, fields: ProfileFields & Readonly<{ name: string }>) {
    const { principal, read, nowMs } = call
    const { tenant } = principal
    const name = checkName(fields.name)
    const sharing = await sharingOf(call, kind, fields)
    const isBounded = sharing.author !== LOCAL_OWNER
    if (isBounded && (await store.countOf(read, tenant, kind, sharing.author)) >= limits.profilesOfAuthorMax) {
      throw tooMany(kind)
    }
    const sameName = await store.findNamed(read, tenant, kind, name)
    if (sameName.some((other) => shareScope(other.sharing, sharing))) throw nameTaken(name)
    const profile: Profile = {
      tenant,
      id: uuidOf(random.bytes(16)),
      kind,
      name,
      slug: await freeSlug(read, tenant, kind, name, sharing),
      description: fields.description ?? null,
      sharing,
      icon: fields.icon ?? null,
      labels: checkLabels(fields.labels ?? []),
      systemPrompt: fields.systemPrompt ?? null,
      suggestedPrompts: checkPrompts(fields.suggestedPrompts ?? []),
      exposure: fields.toolExposureMode ?? 'full',
      contextUntrusted: fields.considerContextUntrusted ?? false,
      isDefault: false,
      createdAtMs: nowMs,
      updatedAtMs: nowMs,
    }
    return profile
  }

  async function insert(call: Call, profile: Profile): Promise<void> {
    await store.insertProfile(call.write, profile.tenant, profile)
    call.record(effectOf('profile_created', profile, call.principal))
  }

  /**
   * Making a profile trusted lifts restrictions on its calls, so a context that has read untrusted data may not do it.
   */
  async function requireTrusted(call: Call): Promise<void> {
    if (!isAtConsole(call) && (await deps.trust.hasReadUntrusted(call.principal))) throw mayNotTrust()
  }

  /** The changed profile, if the caller may change it. Its slug stays, because addresses and tool names use it. */
  async function change(call: Call, before: Profile, fields: ProfileFields): Promise<Profile> {
    const { kind } = before
    if (!canModify(call.principal, resourceOf(kind), before.sharing)) throw mayNotModify(before)
    if (before.contextUntrusted && fields.considerContextUntrusted === false) await requireTrusted(call)
    const after: Profile = {
      ...before,
      name: fields.name === undefined ? before.name : checkName(fields.name),
      sharing: await sharingOf(call, kind, fields, before.sharing),
      description: fields.description === undefined ? before.description : fields.description,
      icon: fields.icon === undefined ? before.icon : fields.icon,
      labels: fields.labels === undefined ? before.labels : checkLabels(fields.labels),
      systemPrompt: fields.systemPrompt === undefined ? before.systemPrompt : fields.systemPrompt,
      suggestedPrompts:
        fields.suggestedPrompts === undefined ? before.suggestedPrompts : checkPrompts(fields.suggestedPrompts),
      exposure: fields.toolExposureMode ?? before.exposure,
      contextUntrusted: fields.considerContextUntrusted ?? before.contextUntrusted,
      updatedAtMs: call.nowMs,
    }
    await requireFreeName(call.read, before.tenant, after)
    return after
  }

  async function save(call: Call, profile: Profile): Promise<void> {
    await store.saveProfile(call.write, profile.tenant, profile)
    call.record(effectOf('profile_updated', profile, call.principal))
  }

  return {
    find,
    findAllNamed,
    prepare,
    insert,
    change,
    save,

    async create(call: Call, kind: ProfileKind, fields: ProfileFields & Readonly<{ name: string }>): Promise<Profile> {
      const profile = await prepare(call, kind, fields)
      await insert(call, profile)
      return profile
    },

    async edit(call: Call, before: Profile, fields: ProfileFields): Promise<Profile> {
      const after = await change(call, before, fields)
      await save(call, after)
      return after
    },

    /** The visible profiles by name, and their number: first those of the tenant, then those that every tenant sees. */
    async list(
      read: ReadTx,
      principal: Principal,
      kind: ProfileKind,
      { name, limit, offset }: Readonly<{ name?: string | undefined; limit: number; offset: number }>,
    ) {
      const filter = { kind, viewer: viewerOf(principal, resourceOf(kind)), ...(name !== undefined && { name }) }
      const profiles: Profile[] = []
      let total = 0
      for (const tenant of new Set([principal.tenant, SYSTEM_TENANT])) {
        const page = { limit: limit - profiles.length, offset: Math.max(0, offset - total) }
        if (page.limit > 0) profiles.push(...(await store.listProfiles(read, tenant, filter, page)))
        total += await store.countProfiles(read, tenant, filter)
      }
      return { profiles, total }
    },

    /** With their names; a removed team is omitted. */
    async teamsOf(read: ReadTx, { tenant, sharing }: Profile): Promise<{ id: string; name: string }[]> {
      const found = await Promise.all(sharing.teams.map((id) => deps.teams.findTeam(read, tenant, id)))
      return found.flatMap((team) => (team === undefined ? [] : { id: team.id, name: team.name }))
    },
  }
}

const SLUG_TRIES = 1_000

const noTeam = (): AppError =>
  new AppError('ERR_NOT_FOUND', 'teams: there is no such team; use the id or the name of a team of yours', {
    field: 'teams',
  })

const mayNotTrust = (): AppError =>
  new AppError(
    'ERR_POLICY_DENIED',
    'considerContextUntrusted: a context that has read untrusted data cannot end this. A person can, with castellan call at a terminal or signed in at the web address of the server.',
    { field: 'considerContextUntrusted', context: 'untrusted' },
  )

const mayNotModify = (profile: Profile): AppError => {
  const permission = modifyPermission(profile)
  return new AppError(
    'ERR_PERMISSION_DENIED',
    `id: this one has the scope ${profile.sharing.scope}; changing it needs the permission '${permission}'`,
    { field: 'id', permission },
  )
}

const effectOf = (kind: string, profile: Profile, { actor }: Principal) => ({
  kind,
  body: {
    id: profile.id,
    kind: profile.kind,
    name: profile.name,
    slug: profile.slug,
    description: profile.description,
    scope: profile.sharing.scope,
    author: profile.sharing.author,
    teams: [...profile.sharing.teams],
    icon: profile.icon,
    labels: profile.labels.map(({ key, value }) => ({ key, value })),
    system_prompt: profile.systemPrompt,
    suggested_prompts: profile.suggestedPrompts.map(({ summaryTitle, prompt }) => ({ summaryTitle, prompt })),
    exposure: profile.exposure,
    context_untrusted: profile.contextUntrusted,
    by: actor,
  },
})
