import type { Principal } from './principal.ts'
import type { Scope } from './sharing.ts'

export const providerKeyScopes = ['caller', 'personal', 'team', 'org', 'configuration'] as const
/** Whose key a provider was shown: one that the caller sent, a stored one by its scope, or that of the configuration. */
export type ProviderKeyScope = (typeof providerKeyScopes)[number]

/** The key itself, and whose it is. */
export type StoredProviderKey = Readonly<{ value: string; scope: Scope }>

/** The keys of providers that people stored. */
export type ProviderKeys = Readonly<{
  /**
   * The key that the caller uses for a provider: its own, else one of its teams, else that of the organisation; undefined if there is
   * none. `names` are the names of the provider. `chosen` has ids of keys by provider, for a caller that may use only those. Rejects with
   * ERR_PROVIDER_KEY_MISSING for a chosen key that is gone, and with ERR_SECRET_UNAVAILABLE for one that cannot be read. Answers at once what
   * it was asked a moment ago.
   */
  find(
    principal: Principal,
    names: readonly string[],
    chosen?: Readonly<Record<string, string>> | null,
  ): StoredProviderKey | undefined | Promise<StoredProviderKey | undefined>
}>
