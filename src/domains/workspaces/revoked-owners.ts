import { AppError } from '../../contract/app-error.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { Core } from './core.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Workspace } from './ports.ts'

/**
 * Stops the workspaces of a revoked owner, with every command and job in them, and closes their forwarded ports. Their content
 * stays, for a caller that may adopt it.
 */
export function createRevokedOwners(core: Core, lifecycle: Lifecycle) {
  const { store, database, node, owners, logger } = core

  async function end(workspace: Workspace): Promise<void> {
    const call = {
      signal: new AbortController().signal,
      transact: <T>(work: Parameters<typeof database.write<T>>[1]) => database.write(workspace.tenant, work),
    }
    try {
      await lifecycle.stop(call, workspace, { forGood: true })
      logger.info('workspace stopped: its owner was revoked', { id: workspace.id })
    } catch (error) {
      // Another operation is in progress. The next check tries again.
      if (error instanceof AppError && (error.code === 'ERR_BUSY' || error.code === 'ERR_WORKSPACE_STATE')) return
      logger.warn('workspace of a revoked owner could not be stopped', {
        id: workspace.id,
        cause: String(error),
      })
    }
  }

  async function ownerRevoked(tenant: TenantId, owner: string): Promise<void> {
    if (core.isReadOnly) return
    const own = (await store.listWorkspaces(database.read, tenant)).filter(
      (workspace) => workspace.owner === owner && workspace.node === node && workspace.state === 'running',
    )
    await Promise.all(own.map(end))
  }

  return {
    ownerRevoked,
    /** Revoked owners with running workspaces here, whether revoked by another process or while no process watched. */
    async revokedOwners(): Promise<readonly Readonly<{ tenant: TenantId; owner: string }>[]> {
      if (core.isReadOnly) return []
      const found: { tenant: TenantId; owner: string }[] = []
      for (const one of await store.ownersOnNode(database.read, node)) {
        if (await owners.isRevoked(database.read, one.tenant, one.owner)) found.push(one)
      }
      return found
    },
  }
}
