import type { OwnerDirectory } from '../../contract/owner-directory.ts'
import type { ProviderKeyDirectory } from '../../domains/model-proxies/provider-key-directory.ts'
import { createProviderKeyService, type ProviderKeyService } from '../../domains/model-proxies/provider-keys.ts'
import type { SecretService } from '../../domains/secrets/service.ts'
import { hasOurCredential } from '../../http/authenticate.ts'
import { sqlPeopleStore } from '../../stores/sql/people-store.ts'
import { sqlProviderKeyStore } from '../../stores/sql/provider-key-store.ts'
import type { AppDeps } from '../build-app.ts'
import type { Config } from '../config.ts'
import { upstreamsOf } from './model-upstreams.ts'
import { providersOf } from './open-models.ts'

export type ProviderKeyParts = Readonly<{
  secrets: SecretService
  owners: Pick<OwnerDirectory, 'isRevoked'>
  storedKeys: Pick<ProviderKeyDirectory, 'noteChange'>
}>

/** Keys of providers that people store. */
export const openProviderKeys = (
  { config, random }: AppDeps,
  { secrets, owners, storedKeys }: ProviderKeyParts,
): ProviderKeyService =>
  createProviderKeyService({
    store: sqlProviderKeyStore,
    secrets,
    teams: sqlPeopleStore,
    random,
    providers: reachedProviders(config),
    isOurs: hasOurCredential,
    isRevoked: owners.isRevoked,
    noteChange: storedKeys.noteChange,
  })

/** Names of the providers that have an address here. */
export const reachedProviders = (config: Config): readonly string[] =>
  [...upstreamsOf(providersOf(config)).keys()].sort()
