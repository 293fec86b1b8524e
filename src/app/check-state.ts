import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type FsckReport, runFsck } from '../audit/fsck/run-fsck.ts'
import type { CheckpointStore } from '../audit/ports.ts'
import { AppError } from '../contract/app-error.ts'
import { LOCAL_TENANT, type TenantId, tenantId } from '../contract/principal.ts'
import type { ReadTx } from '../contract/tx.ts'
import { systemClock } from '../kernel/clock.ts'
import { silentLogger } from '../kernel/logger.ts'
import { createCheckpointStore } from '../stores/files/checkpoint-store.ts'
import { readLogIdentity } from '../stores/files/log-identity-store.ts'
import { sqlFsckSource } from '../stores/sql/fsck-source.ts'
import type { Config } from './config.ts'
import { nodeOf, stateDirectory } from './state-directory.ts'

/** Runs the independent checker over the configured state, while other processes use it, without changing anything. */
export async function checkState(
  config: Config,
  options: { onProgress?: (progress: { tenant: string; entries: number }) => void } = {},
): Promise<FsckReport> {
  const directory = stateDirectory(config)
  const checkpoints = await readCheckpoints(join(directory, 'checkpoints'))
  const stored = await readLogIdentity(join(directory, 'log-key.json'))
  const identity = stored && {
    logId: stored.logId,
    verifierKey: stored.signer.verifierKey,
    isClaimed: stored.isClaimed,
  }
  const node = nodeOf(config.database_url === undefined ? 'sqlite' : 'postgres', directory)
  const work = (tx: ReadTx) => {
    const source = sqlFsckSource(tx, checkpoints, node)
    // A first checkpoint that was written after our read is not missing; it may cover entries that we do not see.
    const anchor = async (tenant: string) =>
      (await checkpoints.isThereNow(tenantId(tenant))) ? undefined : await source.anchor(tenant)
    return runFsck({ ...source, anchor }, { ...options, ...(identity === undefined ? {} : { identity }) })
  }
  if (config.database_url !== undefined) {
    const { openPostgresDatabase } = await import('../stores/postgres/postgres-database.ts')
    const url = config.database_url.reveal()
    const database = await openPostgresDatabase({ url, clock: systemClock, logger: silentLogger })
    try {
      return await database.snapshot(work)
    } finally {
      await database.close()
    }
  }
  const path = join(config.data_dir, 'castellan.db')
  if (!existsSync(path)) {
    throw new AppError('ERR_NOT_FOUND', `There is no state in ${config.data_dir}. Use --data-dir to name another.`, {
      field: 'data_dir',
    })
  }
  const { readSqliteSnapshot } = await import('../stores/sqlite/read-snapshot.ts')
  return await readSqliteSnapshot(path, work)
}

/** What to do about a log that could have been truncated unnoticed, for people. */
export const adviceFor = ({ tenant, missing }: FsckReport['unprotected'][number]): string =>
  `${
    missing === 'checkpoint'
      ? `no checkpoint of the log of tenant '${tenant}' is stored here`
      : `the store has no mark that the log of tenant '${tenant}' has a checkpoint`
  }, so a truncation of its end would not be noticed. This is so in the first second of a log, after a crash in it, and on a machine that has just joined. In any other case it was removed: restore it from a backup. To accept the log as it is: castellan call log_checkpoint${tenant === LOCAL_TENANT ? '' : ', with a key of that tenant'}`

/** Before the state itself is read: a running server could write a checkpoint that covers entries that we do not see. */
async function readCheckpoints(
  directory: string,
): Promise<Pick<CheckpointStore, 'read' | 'tenants'> & Readonly<{ isThereNow(tenant: TenantId): Promise<boolean> }>> {
  const store = createCheckpointStore(directory)
  const tenants = await store.tenants()
  const notes = new Map(await Promise.all(tenants.map(async (tenant) => [tenant, await store.read(tenant)] as const)))
  return {
    tenants: async () => tenants,
    read: async (tenant) => notes.get(tenant),
    isThereNow: async (tenant) => (await store.read(tenant)) !== undefined,
  }
}
