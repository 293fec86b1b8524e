import { AppError } from '../../contract/app-error.ts'
import type { Database } from '../../contract/database.ts'
import { LOCAL_TENANT } from '../../contract/principal.ts'
import type { LogIdentity } from '../../domains/log/ports.ts'
import type { Random } from '../../kernel/random.ts'
import { claimLogIdentity, createLogIdentity, readLogIdentity } from '../../stores/files/log-identity-store.ts'
import { findLogIdentity, recordLogIdentity } from '../../stores/sql/log-identity.ts'

/**
 * The key that signs this store's log. The store records the key of its log, and the key file records that a store uses it. So a
 * lost key, a second server with another key, and a new store beside an old key are each refused: one log would have two names,
 * or two logs one.
 */
export async function openLogIdentity(deps: {
  database: Database
  path: string
  random: Random
}): Promise<LogIdentity> {
  const { database, path } = deps
  const recorded = await findLogIdentity(database.read)
  const stored = await readLogIdentity(path)
  if (recorded === undefined && stored?.isClaimed === true) throw otherStore(path, stored.logId)
  if (recorded !== undefined && recorded.verifierKey !== stored?.signer.verifierKey)
    throw keyMissing(path, recorded.logId)
  const identity = stored ?? (await createLogIdentity(path, deps.random))
  if (recorded === undefined) await record(database, path, identity)
  if (stored?.isClaimed !== true) await claimLogIdentity(path)
  return identity
}

/** Of two servers that start at once on one database, the first decides; the other is told. */
async function record(database: Database, path: string, identity: LogIdentity): Promise<void> {
  const own = { logId: identity.logId, verifierKey: identity.signer.verifierKey }
  await database.write(LOCAL_TENANT, (tx) => recordLogIdentity(tx, own))
  const winner = await findLogIdentity(database.read)
  if (winner?.verifierKey !== own.verifierKey) throw keyMissing(path, winner?.logId ?? '')
}

const keyMissing = (path: string, logId: string): AppError =>
  new AppError(
    'ERR_INIT_FAILED',
    `The log of this store was started with the key of log ${logId}, but ${path} does not contain that key. Copy it from the server that started the log, or restore it from a backup.`,
    { field: 'data_dir', log_id: logId },
  )

const otherStore = (path: string, logId: string): AppError =>
  new AppError(
    'ERR_INIT_FAILED',
    `${path} is the key of log ${logId}, but this store does not contain that log. Restore the store that has it. To start a new log here, first move the key and its checkpoints away.`,
    { field: 'data_dir', log_id: logId },
  )
