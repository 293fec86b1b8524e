import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import { limits } from '../../contract/limits.ts'
import type { SubjectToken } from '../../contract/upstream-tools.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { SecretService } from '../secrets/service.ts'
import type { OauthClient } from './oauth.ts'
import type { CatalogItem } from './ports.ts'
import type { ExchangeConfig } from './rules.ts'
import type { UpstreamAuthorization } from './runtime.ts'

export type ExchangeDeps = Readonly<{
  secrets: Pick<SecretService, 'resolve'>
  oauth: Pick<OauthClient, 'exchange'>
  database: Pick<Database, 'read'>
  clock: Pick<Clock, 'nowMs'>
}>

export type CredentialExchange = ReturnType<typeof createCredentialExchange>

/** Why the tools of an item cannot be used with credentials that an identity provider gives out; undefined if they can. */
export const exchangeProblem = ({ config }: Pick<CatalogItem, 'config'>): string | undefined =>
  config.enterpriseManagedConfig === undefined
    ? 'the MCP server has no enterpriseManagedConfig, which says where tokens are exchanged; add it with edit_mcp_config, or use static or dynamic'
    : undefined

/** Credentials for one caller, in return for a token with which that caller came. They are held by a connection and never stored. */
export function createCredentialExchange(deps: ExchangeDeps) {
  return (item: CatalogItem, subject: SubjectToken | undefined): UpstreamAuthorization => {
    const problem = exchangeProblem(item)
    if (problem !== undefined) throw new AppError('ERR_FEATURE_DISABLED', `credentialResolutionMode: ${problem}.`)
    if (subject === undefined) throw noSubject(item)
    const config = item.config.enterpriseManagedConfig!
    let current: Promise<Readonly<{ token: string; endsAtMs: number }>> | undefined

    async function exchange() {
      const { client_secret: secret } = config
      const client_secret =
        secret === undefined ? undefined : await deps.secrets.resolve(deps.database.read, item.tenant, secret)
      const { signal } = new AbortController()
      const tokens = await deps.oauth.exchange({ ...config, client_secret }, subject!, signal)
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

    return {
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
  }
}

function injectionOf({ injection = 'bearer', header_name }: ExchangeConfig): Pick<UpstreamAuthorization, 'header'> {
  if (injection === 'bearer') return {}
  return { header: injection === 'raw' ? 'authorization' : header_name! }
}

const noSubject = ({ id, name }: CatalogItem): AppError =>
  new AppError(
    'ERR_CREDENTIAL_REQUIRED',
    'The MCP server is used with a token that an identity provider gives out for the caller, in return for a token of that provider. You came without one: connect with it, or use a deployment with credentials of its own.',
    { catalog_id: id, server: name },
  )
