import { join } from 'node:path'
import { createCheckpointer } from '../../audit/checkpointer.ts'
import { guardDatabase } from '../../audit/guarded-database.ts'
import { createLogGuard } from '../../audit/log-guard.ts'
import { createNodeReader } from '../../audit/node-reader.ts'
import { createLogRecovery } from '../../domains/log/log-recovery.ts'
import { createLogService } from '../../domains/log/service.ts'
import { createTrailService } from '../../domains/trail/service.ts'
import { createChainVerifier } from '../../domains/trail/verify-chain.ts'
import { removeAbandonedFiles } from '../../stores/files/atomic-file.ts'
import { createCheckpointStore } from '../../stores/files/checkpoint-store.ts'
import { sqlAnchors } from '../../stores/sql/log-anchors.ts'
import { sqlLogStore } from '../../stores/sql/log-store.ts'
import { sqlTaskStore } from '../../stores/sql/task-store.ts'
import { sqlTrailStore } from '../../stores/sql/trail-store.ts'
import type { AppDeps } from '../build-app.ts'
import { nodeOf } from '../state-directory.ts'
import type { OpenedDatabase } from './open-database.ts'
import { openLogIdentity } from './open-log-identity.ts'

/** The log with its key, checkpoints and proofs, and the trail made of its entries. */
export async function openRecord(
  { config, random, logger }: Pick<AppDeps, 'config' | 'random' | 'logger'>,
  { database, directory }: Pick<OpenedDatabase, 'database' | 'directory'>,
) {
  const logIdentity = await openLogIdentity({ database, path: join(directory, 'log-key.json'), random })
  const checkpointFolder = join(directory, 'checkpoints')
  for (const folder of [directory, checkpointFolder]) await removeAbandonedFiles(folder)
  const checkpoints = createCheckpointStore(checkpointFolder)
  const anchors = sqlAnchors(database, nodeOf(database.kind, directory))
  const guard = createLogGuard({
    read: database.read,
    synced: database.synced,
    log: sqlLogStore,
    rootAt: createNodeReader(sqlLogStore).rootAt,
    checkpoints,
    anchors,
    logId: logIdentity.logId,
    signer: logIdentity.signer,
    logger,
  })
  const guarded = guardDatabase(database, guard, sqlLogStore)
  const trail = createTrailService({
    trail: sqlTrailStore,
    tasks: sqlTaskStore,
    log: sqlLogStore,
    verify: createChainVerifier({
      log: sqlLogStore,
      trail: sqlTrailStore,
      checkpoints,
      anchors,
      tasks: sqlTaskStore,
      verifierKey: logIdentity.signer.verifierKey,
    }),
  })
  const checkpointer = createCheckpointer({
    read: database.read,
    log: sqlLogStore,
    checkpoints,
    guard,
    intervalMs: config.audit.checkpoint_interval_ms,
    logger,
  })
  const logService = {
    ...createLogService({ log: sqlLogStore, identity: logIdentity, guard }),
    ...createLogRecovery({ log: sqlLogStore, database: guarded, guard, checkpointer }),
  }
  return { logIdentity, logService, trail, guard, checkpointer, database: guarded }
}
