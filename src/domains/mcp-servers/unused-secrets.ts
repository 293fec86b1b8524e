import type { TenantId } from '../../contract/principal.ts'
import type { WriteTx } from '../../contract/tx.ts'
import type { SecretService } from '../secrets/service.ts'
import { secretsIn } from './config-rules.ts'
import { secretsOf } from './deployment-texts.ts'
import type { McpServerStore } from './ports.ts'

export type UnusedSecretDeps = Readonly<{
  store: Pick<McpServerStore, 'listItems' | 'listDeployments'>
  secrets: Pick<SecretService, 'remove'>
}>

/**
 * Removes secrets with what referred to them, which is gone by now. One to which another server or deployment of the tenant refers
 * stays: a person may have given the same reference to several.
 */
export async function removeUnusedSecrets(
  { store, secrets }: UnusedSecretDeps,
  tx: WriteTx,
  tenant: TenantId,
  references: readonly string[],
): Promise<void> {
  const used = new Set<string>()
  for (const { config } of await store.listItems(tx, tenant)) for (const one of secretsIn(config)) used.add(one)
  for (const deployment of await store.listDeployments(tx, tenant)) {
    for (const one of secretsOf(deployment)) used.add(one)
  }
  for (const reference of references) if (!used.has(reference)) await secrets.remove(tx, tenant, reference)
}
