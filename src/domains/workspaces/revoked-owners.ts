import { AppError } from '../../contract/app-error.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { Core } from './core.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Workspace } from './ports.ts'

/**
 * What an owner has at work ends with the owner: its workspaces are stopped, and with them every command and job in them, and
 * no port leads there any more. What they hold stays, for a caller that may adopt it.
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
      logger.info('a workspace was stopped: its owner was revoked', { id: workspace.id })
    } catch (error) {
      // The operation in progress will end; it is looked for again.
      if (error instanceof AppError && (error.code === 'ERR_BUSY' || error.code === 'ERR_WORKSPACE_STATE')) return
      logger.warn('a workspace whose owner was revoked could not be stopped', {
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
    /** Owners with something at work here that are revoked: by another process, or while no process watched. */
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
