import type { TenantId } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { SecretUse } from '../secrets/ports.ts'
import type { SecretService } from '../secrets/service.ts'
import { secretsIn } from './config-rules.ts'
import { secretsOf } from './deployment-texts.ts'
import type { McpServerStore } from './ports.ts'

type UnusedSecretDeps = Readonly<{
  store: Pick<McpServerStore, 'listItems' | 'listDeployments'>
  secrets: Pick<SecretService, 'removeUnused'>
}>

/** The tenant's servers and deployments that refer to a secret. */
export async function secretUses(
  store: UnusedSecretDeps['store'],
  tx: ReadTx | WriteTx,
  tenant: TenantId,
  reference: string,
): Promise<readonly SecretUse[]> {
  const uses: SecretUse[] = []
  const names = new Map<string, string>()
  for (const { id, name, config } of await store.listItems(tx, tenant)) {
    names.set(id, name)
    if (secretsIn(config).includes(reference)) uses.push({ kind: 'mcp_server', id, name })
  }
  for (const deployment of await store.listDeployments(tx, tenant)) {
    const { id, catalogId } = deployment
    if (secretsOf(deployment).includes(reference))
      uses.push({
        ...{ kind: 'mcp_deployment', id, name: names.get(catalogId) ?? id },
        // Tokens are for the server that they were issued for, and no other.
        owns: deployment.grant === reference,
      })
  }
  return uses
}

/**
 * Removes secrets with what referred to them, which is gone by now. One to which something else of the tenant refers stays: a person may
 * have given the same reference to several.
 */
export async function removeUnusedSecrets(
  { secrets }: Pick<UnusedSecretDeps, 'secrets'>,
  tx: WriteTx,
  tenant: TenantId,
  references: readonly string[],
): Promise<void> {
  for (const reference of references) await secrets.removeUnused(tx, tenant, reference)
}
