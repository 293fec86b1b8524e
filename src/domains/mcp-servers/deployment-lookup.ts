import { AppError } from '../../contract/app-error.ts'
import type { Principal } from '../../contract/principal.ts'
import { canSee } from '../../contract/sharing.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { Catalog } from './catalog.ts'
import { noDeployment } from './deployment-texts.ts'
import type { Deployment, McpServerStore } from './ports.ts'

type LookupDeps = Readonly<{
  store: Pick<McpServerStore, 'findDeployment' | 'listDeployments'>
  catalog: Pick<Catalog, 'find'>
}>

/** Finds a deployment that the caller can see: by its id, or by the id or name of a server that has only one. */
export function createDeploymentLookup({ store, catalog }: LookupDeps) {
  return async (tx: ReadTx | WriteTx, principal: Principal, reference: string): Promise<Deployment> => {
    const isVisible = ({ sharing }: Deployment): boolean => canSee(principal, 'mcpServerInstallation', sharing)
    const byId = await store.findDeployment(tx, principal.tenant, reference)
    if (byId !== undefined && isVisible(byId)) return byId
    const item = await catalog.find(tx, principal, reference, 'serverId').catch((error: unknown) => {
      throw error instanceof AppError && error.code === 'ERR_NOT_FOUND' ? noDeployment(reference) : error
    })
    const deployments = (await store.listDeployments(tx, principal.tenant, item.id)).filter(isVisible)
    if (deployments.length === 1) return deployments[0]!
    if (deployments.length === 0) throw noDeployment(reference)
    throw new AppError(
      'ERR_INVALID_INPUT',
      'serverId: the MCP server has several deployments. Use the id of one of them.',
      { field: 'serverId', ids: deployments.map(({ id }) => id) },
    )
  }
}
