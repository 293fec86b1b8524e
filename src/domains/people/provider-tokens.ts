import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import { identityOf, type TenantId, userIdentity, userIdOf } from '../../contract/principal.ts'
import type { Subjects, TokenSource } from '../../contract/upstream-tools.ts'
import type { Clock } from '../../kernel/clock.ts'
import { createSingleFlight } from '../../kernel/single-flight.ts'
import { parseReference } from '../secrets/rules.ts'
import type { SecretService } from '../secrets/service.ts'
import type { IssuedTokens, PeopleStore } from './ports.ts'

type ProviderTokenDeps = Readonly<{
  sources: readonly TokenSource[]
  secrets: Pick<SecretService, 'put' | 'resolve' | 'enter' | 'ofSessions'>
  store: Pick<PeopleStore, 'findUserById' | 'findSessionByToken'>
  database: Pick<Database, 'read' | 'write'>
  clock: Pick<Clock, 'nowMs'>
  /** Rejects with an AppError. */
  refresh(source: string, refreshToken: string): Promise<IssuedTokens>
}>

export type ProviderTokens = Subjects &
  Readonly<{
    /** The tokens of a person whose session has just started. */
    keep(source: string, sessionToken: string, issued: IssuedTokens): Promise<void>
  }>

const TOKEN_TYPE = 'urn:ietf:params:oauth:token-type:'

type RetainedTokens = IssuedTokens & Readonly<{ source: string }>

export const sourceFinder =
  (sources: readonly TokenSource[]): Subjects['sourceAt'] =>
  (tenant, endpoint) =>
    sources.find(
      (source) =>
        source.tenant === tenant && source.exchangeEndpoints.some((known) => addressOf(known) === addressOf(endpoint)),
    )

/**
 * Tokens of identity providers, for token exchange.
 *
 * 1. They are stored only for a provider with an exchange address, encrypted, as a secret of the session that began with them:
 *    they are removed with the session or the user.
 * 2. A token is for the person who signed in, and goes only to addresses that the operator listed for its provider. Otherwise an
 *    editor, who may register MCP servers, could collect tokens.
 */
export function createProviderTokens(deps: ProviderTokenDeps): ProviderTokens {
  const { secrets, database, clock } = deps
  const renewals = createSingleFlight<RetainedTokens>()
  /** Renewed tokens that could not be saved: the old refresh token is void, so these are all there is. */
  const unsaved = new Map<string, RetainedTokens>()

  const open = async (tenant: TenantId, reference: string): Promise<RetainedTokens> =>
    unsaved.get(reference) ?? (JSON.parse(await secrets.resolve(database.read, tenant, reference)) as RetainedTokens)

  async function save(tenant: TenantId, reference: string, tokens: RetainedTokens): Promise<void> {
    const { name } = parseReference(reference)!
    await database.write(tenant, (tx) => secrets.enter(tx, tenant, name, JSON.stringify(tokens), clock.nowMs()))
    unsaved.delete(reference)
  }

  async function renew(tenant: TenantId, reference: string, known: RetainedTokens): Promise<RetainedTokens> {
    try {
      const issued = await deps.refresh(known.source, known.refreshToken!)
      const next: RetainedTokens = {
        ...issued,
        source: known.source,
        idToken: issued.idToken ?? known.idToken,
        refreshToken: issued.refreshToken ?? known.refreshToken,
      }
      unsaved.set(reference, next)
      await save(tenant, reference, next)
      return next
    } catch (error) {
      // Another process may have renewed it with the same refresh token.
      const now = await open(tenant, reference)
      if (now.accessToken !== known.accessToken) return now
      throw error
    }
  }

  async function current(tenant: TenantId, reference: string): Promise<RetainedTokens> {
    const late = unsaved.get(reference)
    if (late !== undefined) await save(tenant, reference, late)
    const known = await open(tenant, reference)
    const { expiresAtMs, refreshToken } = known
    const isEnding = expiresAtMs !== null && expiresAtMs - limits.mcpTokenRenewalMs <= clock.nowMs()
    if (!isEnding || refreshToken === undefined) return known
    return await renewals.run(reference, () => renew(tenant, reference, known))
  }

  return {
    sourceAt: sourceFinder(deps.sources),

    async keep(source, sessionToken, issued) {
      const known = deps.sources.find(({ id }) => id === source)
      const session = await deps.store.findSessionByToken(database.read, sessionToken)
      const user = session && (await deps.store.findUserById(database.read, session.userId))
      if (known === undefined || user === undefined) return
      const retained: RetainedTokens = { ...issued, source }
      await database.write(user.tenant, (tx) =>
        secrets.put(tx, user.tenant, {
          owner: userIdentity(user.id),
          purpose: `tokens of ${known.name}`,
          value: JSON.stringify(retained),
          sessionId: session!.id,
          nowMs: clock.nowMs(),
        }),
      )
    },

    async subjectOf(principal, source) {
      const { tenant } = principal
      const owner = identityOf(principal)
      if (userIdOf(owner) === undefined) return undefined
      for (const reference of await secrets.ofSessions(database.read, tenant, owner, clock.nowMs())) {
        if ((await open(tenant, reference)).source !== source.id) continue
        return {
          id: reference,
          async token(type) {
            const { accessToken, idToken } = await current(tenant, reference)
            return { token: type === 'id_token' ? (idToken ?? '') : accessToken, type: `${TOKEN_TYPE}${type}` }
          },
        }
      }
      return undefined
    },
  }
}

const addressOf = (text: string): string => URL.parse(text)?.href ?? text
