import { AppError } from '../../contract/app-error.ts'
import type { TenantId } from '../../contract/principal.ts'
import type { Core } from './core.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Workspace } from './ports.ts'

/**
 * What an owner has at work ends with the owner: its workspaces are stopped, and with them every command and job in them, and
 * no port leads there any more. What they hold stays, for whoever may adopt it.
 */
export function createRevokedOwners(core: Core, lifecycle: Lifecycle) {
  const { store, database, node, owners, clock, logger } = core

  async function end(workspace: Workspace): Promise<void> {
    const call = {
      signal: new AbortController().signal,
      transact: <T>(work: Parameters<typeof database.write<T>>[1]) => database.write(workspace.tenant, work),
    }
    try {
      await lifecycle.stop(call, workspace, { forGood: true })
      logger.info('a workspace was stopped: the key that owns it is gone', { id: workspace.id })
    } catch (error) {
      // Whoever works on it now will be done; it is looked for again.
      if (error instanceof AppError && (error.code === 'ERR_BUSY' || error.code === 'ERR_WORKSPACE_STATE')) return
      logger.warn('a workspace whose owner is gone was not stopped', { id: workspace.id, cause: String(error) })
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
    /** Of all that run here: a key may have gone while nobody watched, or by another process. */
    async stopRevoked(): Promise<void> {
      if (core.isReadOnly) return
      for (const { tenant, owner } of await store.ownersOnNode(database.read, node)) {
        if (await owners.isRevoked(database.read, tenant, owner, clock.nowMs())) await ownerRevoked(tenant, owner)
      }
    },
  }
}
