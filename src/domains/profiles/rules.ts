import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { SharedResource, Sharing } from '../../contract/sharing.ts'
import { nameKey } from '../../kernel/name-key.ts'
import type { Label, Profile, ProfileKind, SuggestedPrompt } from './ports.ts'

const resources: Readonly<Record<ProfileKind, SharedResource>> = {
  agent: 'agent',
  profile: 'agent',
  mcp_gateway: 'mcpGateway',
  llm_proxy: 'llmProxy',
}
export const resourceOf = (kind: ProfileKind): SharedResource => resources[kind]

const SLUG_MAX = 63

/** A name in letters, digits and hyphens; undefined if it has none of them. */
export function slugOf(name: string): string | undefined {
  const slug = name
    .normalize('NFKD')
    .replace(/\p{Mark}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, SLUG_MAX)
    .replace(/^-+|-+$/g, '')
  return slug === '' ? undefined : slug
}

export const numberedSlug = (slug: string, number: number): string => {
  const ending = `-${number}`
  return `${slug.slice(0, SLUG_MAX - ending.length).replace(/-+$/, '')}${ending}`
}

/** Whether two have scopes in which names must differ: one author, one team, the organisation. */
export function shareScope(one: Sharing, other: Sharing): boolean {
  if (one.scope !== other.scope) return false
  if (one.scope === 'personal') return one.author === other.author
  return one.scope === 'org' || one.teams.some((team) => other.teams.includes(team))
}

const nearness = { personal: 0, team: 1, org: 2 } as const

/** Of several of one name, the intended one: the caller's own, then a team's, then the organisation's. */
export const nearestFirst = <T extends Pick<Profile, 'sharing'>>(profiles: readonly T[]): readonly T[] =>
  profiles.toSorted((one, other) => nearness[one.sharing.scope] - nearness[other.sharing.scope])

export function checkName(name: string): string {
  const trimmed = name.trim()
  if (trimmed === '') throw invalid('name', 'must not be blank')
  if (/\p{Cc}/u.test(trimmed)) throw invalid('name', 'must be one line without control characters')
  return trimmed
}

/** Each key once; otherwise it would be undefined which value counts. */
export function checkLabels(labels: readonly Label[]): readonly Label[] {
  const keys = new Set<string>()
  for (const { key } of labels) {
    if (keys.has(key)) throw invalid('labels', 'each key may occur only once')
    keys.add(key)
  }
  return labels
}

export function checkPrompts(prompts: readonly SuggestedPrompt[]): readonly SuggestedPrompt[] {
  if (prompts.some(({ summaryTitle, prompt }) => summaryTitle.trim() === '' || prompt.trim() === '')) {
    throw invalid('suggestedPrompts', 'each needs a summaryTitle and a prompt that are not blank')
  }
  return prompts
}

export const nameTaken = (name: string): AppError =>
  new AppError('ERR_ALREADY_EXISTS', 'name: another one in this scope already has this name; choose another name', {
    field: 'name',
    name,
  })

export const isNamed = (profile: Profile, name: string): boolean =>
  nameKey(profile.name) === nameKey(name) || profile.slug === name

export const tooMany = (kind: ProfileKind): AppError =>
  new AppError(
    'ERR_QUOTA_EXCEEDED',
    `One author has at most ${limits.profilesOfAuthorMax} of the kind ${kind}. Delete one that is not needed.`,
  )

export const invalid = (field: string, problem: string): AppError =>
  new AppError('ERR_INVALID_INPUT', `${field}: ${problem}`, { field })

export const missingName = (): AppError => invalid('id', 'give an id or a name')

/** The permission that a caller lacks to change what it sees. */
export function modifyPermission({ kind, sharing }: Pick<Profile, 'kind' | 'sharing'>): string {
  return `${resourceOf(kind)}:${sharing.scope === 'org' ? 'admin' : 'team-admin'}`
}

/** There are no knowledge bases or connectors, so any named one does not exist. */
export function requireNoKnowledge({
  knowledgeBaseIds = [],
  connectorIds = [],
}: Readonly<{
  knowledgeBaseIds?: readonly string[] | undefined
  connectorIds?: readonly string[] | undefined
}>): void {
  if (knowledgeBaseIds.length > 0) throw noSuch('knowledgeBaseIds', 'knowledge base; leave knowledgeBaseIds out')
  if (connectorIds.length > 0) throw noSuch('connectorIds', 'knowledge connector; leave connectorIds out')
}

export const noSuch = (field: string, what: string): AppError =>
  new AppError('ERR_NOT_FOUND', `${field}: there is no such ${what}`, { field })

/** The displayed profile of agents and gateways; there is no knowledge to assign. */
export const profileView = (profile: Profile) => ({
  id: profile.id,
  name: profile.name,
  slug: profile.slug,
  description: profile.description,
  icon: profile.icon,
  scope: profile.sharing.scope,
  toolExposureMode: profile.exposure,
  considerContextUntrusted: profile.contextUntrusted,
  agentType: profile.kind,
  systemPrompt: profile.systemPrompt,
  labels: [...profile.labels],
  knowledgeBaseIds: [],
  connectorIds: [],
  suggestedPrompts: [...profile.suggestedPrompts],
})
