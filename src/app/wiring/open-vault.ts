import { join } from 'node:path'
import { LOCAL_TENANT } from '../../contract/principal.ts'
import { tenantFolderName } from '../../domains/vault/rules.ts'
import { createVaultService, type VaultService } from '../../domains/vault/service.ts'
import type { VisibleTeams } from '../../domains/vault/team-folders.ts'
import { createVaultStore } from '../../stores/files/vault-store.ts'
import { openFileLock } from '../../stores/sqlite/file-lock.ts'
import type { AppDeps } from '../build-app.ts'

/** The vault of the tenant `local` is at the configured path; mode TEST never touches it. */
export function openVault({ config, clock }: AppDeps, directory: string, visibleTeams: VisibleTeams): VaultService {
  const isTest = config.mode === 'TEST'
  const localPath = isTest ? join(directory, 'vault') : config.vault.path
  const others = join(isTest ? directory : config.data_dir, 'vaults')
  return createVaultService({
    store: createVaultStore({
      rootOf: (tenant) => (tenant === LOCAL_TENANT ? localPath : join(others, tenantFolderName(tenant))),
      openFileLock,
    }),
    clock,
    isEnabled: config.vault.enabled,
    extensions: config.vault.extensions,
    excludedFolders: config.vault.exclude_dirs,
    visibleTeams,
  })
}
