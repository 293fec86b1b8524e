import { AppError } from '../contract/app-error.ts'
import type { ProviderKeys } from '../contract/provider-keys.ts'
import { whenKnown } from './judging/events.ts'
import type { Caller, PresentedKeys, Upstream, UsedKey } from './ports.ts'

export type ProviderCredentialDeps = Readonly<{
  /** Those that people stored. */
  storedKeys: ProviderKeys
  /** Whether callers may send their own keys. */
  allowsCallerKeys: boolean
}>

/** Chooses the key that is sent to an upstream. */
export function createProviderCredentials({ storedKeys, allowsCallerKeys }: ProviderCredentialDeps) {
  function configuredKey({ name, apiKey, requiresKey }: Upstream): UsedKey {
    if (apiKey !== null) return { value: apiKey, scope: 'configuration' }
    if (!requiresKey) return { value: null, scope: null }
    const orOwn = allowsCallerKeys ? ' or send a key of your own,' : ''
    const message = `There is no key for the provider '${name}' that you can use. Store one with provider_key_create,${orOwn} or ask the operator to set api_key for it in models.providers.`
    throw new AppError('ERR_PROVIDER_KEY_MISSING', message, { provider: name })
  }

  return {
    requireAllowed({ providers }: PresentedKeys): void {
      if (providers === null || allowsCallerKeys) return
      const message =
        'This server accepts no provider keys. Send an API key or a virtual key of this server, or the key castellan.'
      throw new AppError('ERR_UNAUTHENTICATED', message)
    },

    /**
     * The key that the caller sends; else one that the caller, its teams or its organisation stored; else the
     * operator's.
     */
    keyFor(upstream: Upstream, caller: Caller, { providers }: PresentedKeys): UsedKey | Promise<UsedKey> {
      if (providers !== null) return { value: providers, scope: 'caller' }
      const stored = storedKeys.find(caller.principal, upstream.keyNames, caller.grants?.providerKeys)
      return whenKnown(stored, (found) => found ?? configuredKey(upstream))
    },
  }
}
