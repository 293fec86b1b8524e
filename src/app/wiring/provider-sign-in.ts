import type { Accounts } from '../../accounts/create-accounts.ts'
import type { OidcProvider } from '../../accounts/oidc.ts'
import { AppError } from '../../contract/app-error.ts'
import { rightsOf } from '../../contract/permissions.ts'
import { type Principal, tenantId } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { TokenSource } from '../../contract/upstream-tools.ts'
import { mayVouchFor, notAdmitted, type ProviderRules } from '../../domains/people/admission.ts'
import type { PeopleStore } from '../../domains/people/ports.ts'
import type { ProviderTokens } from '../../domains/people/provider-tokens.ts'
import type { SignInGuard } from '../../domains/people/sign-in.ts'
import type { PeopleGate } from '../../http/people-gate.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { ToolHost } from '../../tools/runtime/tool-host.ts'
import type { Config } from '../config.ts'

export type ConfiguredProvider = OidcProvider & Readonly<{ rules: ProviderRules; exchangeEndpoints: readonly string[] }>

/** The configured identity providers, without those whose secret is not set (`unset-variables.ts` reports them). */
export const usableProviders = ({ oidc_providers }: Pick<Config, 'oidc_providers'>): readonly ConfiguredProvider[] =>
  oidc_providers.flatMap((entry) => {
    const { id, client_secret: reference } = entry
    const clientSecret = reference === undefined ? undefined : process.env[reference.slice('env:'.length)]
    if (reference !== undefined && (clientSecret ?? '') === '') return []
    const rules: ProviderRules = {
      id,
      tenant: tenantId(entry.tenant),
      newUsers: entry.new_users,
      role: entry.default_role,
      emailDomains: entry.email_domains,
    }
    const { name, issuer, client_id: clientId, scopes, exchange_endpoints: exchangeEndpoints } = entry
    const assumesEmailVerified = entry.assume_email_verified
    return [{ id, name, issuer, clientId, clientSecret, scopes, exchangeEndpoints, assumesEmailVerified, rules }]
  })

/** Those whose tokens are stored. */
export const tokenSourcesOf = (providers: readonly ConfiguredProvider[]): readonly TokenSource[] =>
  providers
    .filter(({ exchangeEndpoints }) => exchangeEndpoints.length > 0)
    .map(({ id, name, rules, exchangeEndpoints }) => ({ id, name, tenant: rules.tenant, exchangeEndpoints }))

type ProviderSignInDeps = Readonly<{
  providers: readonly ConfiguredProvider[]
  accounts(): Promise<Accounts>
  store: Pick<PeopleStore, 'findUserById'>
  read: ReadTx
  guard: Pick<SignInGuard, 'note'>
  clock: Clock
  host(): ToolHost
  /** Stores the provider's tokens of the person, for token exchange. */
  keepTokens: ProviderTokens['keep']
}>

/** A person who returns from a provider: a known user, or one whom `user_admit` admits. */
export function createProviderSignIn(deps: ProviderSignInDeps): PeopleGate['finishProviderSignIn'] {
  return async (origin, { provider: id, request, address }) => {
    const accounts = await deps.accounts()

    async function admit(
      person: Readonly<{ subject: string; email: string; name: string | undefined }>,
    ): Promise<void> {
      const { rules } = deps.providers.find((entry) => entry.id === id)!
      const userId = await accounts.findSubject(origin, id, person.subject)
      if (userId === undefined) {
        const args = { provider: id, email: person.email, ...(person.name === undefined ? {} : { name: person.name }) }
        await callAs(deps.host(), newcomer(rules, person), 'user_admit', args)
      } else if (!mayVouchFor(rules, person.email.toLowerCase(), await deps.store.findUserById(deps.read, userId))) {
        throw notAdmitted()
      }
    }

    const finished = await accounts.finishProviderSignIn(origin, {
      provider: id,
      request,
      async admit(person) {
        const email = person.email.trim().toLowerCase().slice(0, 320)
        const attempt = { email, address, nowMs: deps.clock.nowMs() }
        try {
          await admit(person)
        } catch (error) {
          await deps.guard.note(attempt, 'refused')
          throw error
        }
        await deps.guard.note(attempt, 'signed_in')
      },
    })
    const { location, cookies, sessionToken, issued } = finished
    const { exchangeEndpoints } = deps.providers.find((entry) => entry.id === id)!
    if (issued !== undefined && exchangeEndpoints.length > 0) await deps.keepTokens(id, sessionToken, issued)
    return { location, cookies }
  }
}

/** The person who requests admission, with the rights that the provider's rules need, for one call. */
const newcomer = (
  rules: ProviderRules,
  { email, subject }: Readonly<{ email: string; subject: string }>,
): Principal => ({
  tenant: rules.tenant,
  kind: 'user',
  actor: email,
  ...rightsOf('admin'),
  tier: 'operator',
  teams: [],
  user: `${rules.id}:${subject}`.slice(0, 128),
})

export async function callAs(
  host: ToolHost,
  principal: Principal,
  tool: string,
  args: object,
): Promise<Record<string, unknown>> {
  const caller = { principal, transport: 'http', exposure: 'full', safeNames: false } as const
  const { failure, output } = await host.call(caller, tool, args)
  if (failure !== undefined) throw new AppError(failure.code, failure.message, failure.details)
  return output as Record<string, unknown>
}
