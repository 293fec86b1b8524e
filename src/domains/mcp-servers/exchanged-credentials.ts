import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import { identityOf, type Principal, userIdOf } from '../../contract/principal.ts'
import type { Subjects } from '../../contract/upstream-tools.ts'
import type { Clock } from '../../kernel/clock.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import type { SecretService } from '../secrets/service.ts'
import type { OauthClient } from './oauth.ts'
import type { CatalogItem } from './ports.ts'
import type { ExchangeConfig } from './rules.ts'
import type { UpstreamAuthorization } from './runtime.ts'

type ExchangeDeps = Readonly<{
  secrets: Pick<SecretService, 'resolve'>
  oauth: Pick<OauthClient, 'exchange'>
  subjects: Subjects
  /** Where people sign in, for callers that did not use an address of this server. */
  origin: string
  database: Pick<Database, 'read'>
  clock: Pick<Clock, 'nowMs'>
}>

export type CredentialExchange = ReturnType<typeof createCredentialExchange>

/** Credentials of one caller: `caller` differs for every person and sign-in. */
export type ExchangedCredentials = Readonly<{ caller: string; authorization: UpstreamAuthorization }>

/** Why the tools of an item cannot use exchanged credentials; undefined if they can. */
export function exchangeProblem(
  { config, tenant }: Pick<CatalogItem, 'config' | 'tenant'>,
  subjects: Pick<Subjects, 'sourceAt'>,
): string | undefined {
  const { enterpriseManagedConfig: exchange } = config
  if (exchange === undefined) {
    return 'the MCP server has no enterpriseManagedConfig, so there is no endpoint to exchange tokens at; add it with edit_mcp_config, or use static or dynamic'
  }
  if (subjects.sourceAt(tenant, exchange.token_endpoint) !== undefined) return undefined
  return 'no identity provider allows its tokens to be exchanged at the token_endpoint of enterpriseManagedConfig; ask the operator to add that address to exchange_endpoints of the provider (oidc_providers), or use static or dynamic'
}

/**
 * Credentials for one caller, exchanged for the token of the person's sign-in at an identity provider. A connection holds them;
 * they are never stored.
 */
export function createCredentialExchange(deps: ExchangeDeps) {
  return async (
    item: CatalogItem,
    { principal, origin = deps.origin }: Readonly<{ principal: Principal; origin?: string }>,
  ): Promise<ExchangedCredentials> => {
    const problem = exchangeProblem(item, deps.subjects)
    if (problem !== undefined) throw new AppError('ERR_FEATURE_DISABLED', `credentialResolutionMode: ${problem}.`)
    const config = item.config.enterpriseManagedConfig!
    const source = deps.subjects.sourceAt(item.tenant, config.token_endpoint)!
    const subject = await deps.subjects.subjectOf(principal, source)
    const signIn = `${origin}/sign-in/provider/${source.id}`
    if (subject === undefined) throw signInFirst(item, signIn, missing(principal))
    let current: Promise<Readonly<{ token: string; endsAtMs: number }>> | undefined

    /** If the provider refuses the token, it has expired or was revoked: the person must sign in again. */
    const subjectToken = () =>
      subject.token(config.subject_token_type ?? 'access_token').catch((error: unknown) => {
        throw signInFirst(item, signIn, 'Your token of that provider has expired.', error)
      })

    async function exchange() {
      const { client_secret: secret } = config
      const client_secret =
        secret === undefined ? undefined : await deps.secrets.resolve(deps.database.read, item.tenant, secret)
      const { signal } = new AbortController()
      const tokens = await deps.oauth
        .exchange({ ...config, client_secret }, await subjectToken(), signal)
        .catch((error: unknown) => {
          if (!(error instanceof AppError) || error.details['oauth_error'] !== 'invalid_grant') throw error
          throw signInFirst(item, signIn, 'The provider no longer accepts your token.', error)
        })
      const lastsMs = tokens.expiresInSecs === undefined ? Number.POSITIVE_INFINITY : tokens.expiresInSecs * 1_000
      return { token: tokens.accessToken, endsAtMs: deps.clock.nowMs() + lastsMs - limits.mcpTokenRenewalMs }
    }

    function begin() {
      const made = exchange()
      current = made
      made.catch(() => {
        if (current === made) current = undefined
      })
      return made
    }

    const authorization: UpstreamAuthorization = {
      async token() {
        const known = await (current ?? begin())
        return known.endsAtMs > deps.clock.nowMs() ? known.token : (await begin()).token
      },
      async renew(refused) {
        const known = await current?.catch(() => undefined)
        if (known === undefined || refused === undefined || known.token === refused) await begin()
      },
      ...injectionOf(config),
    }
    return { caller: sha256Hex(`${identityOf(principal)}\n${subject.id}`), authorization }
  }
}

function injectionOf({ injection = 'bearer', header_name }: ExchangeConfig): Pick<UpstreamAuthorization, 'header'> {
  if (injection === 'bearer') return {}
  return { header: injection === 'raw' ? 'authorization' : header_name! }
}

const missing = (principal: Principal): string =>
  userIdOf(identityOf(principal)) === undefined
    ? 'Only a person who signed in has such a token: connect with OAuth.'
    : 'You have not signed in with that provider, or that session has ended.'

const signInFirst = ({ id, name }: CatalogItem, url: string, why: string, cause?: unknown): AppError =>
  new AppError(
    'ERR_CREDENTIAL_REQUIRED',
    `The MCP server needs a token that an identity provider issues in exchange for your sign-in token. ${why} Sign in at ${url}, then call again.`,
    { catalog_id: id, server: name, sign_in_url: url },
    { cause },
  )
