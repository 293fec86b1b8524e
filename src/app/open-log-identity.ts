import { AppError } from '../contract/app-error.ts'
import type { Database } from '../contract/database.ts'
import { LOCAL_TENANT } from '../contract/principal.ts'
import type { LogIdentity } from '../domains/log/ports.ts'
import type { Random } from '../kernel/random.ts'
import { loadLogIdentity, readLogIdentity } from '../stores/files/log-identity-store.ts'
import { findLogIdentity, recordLogIdentity } from '../stores/sql/log-identity.ts'

/**
 * The key that signs this store's log. The store remembers under which key its log was begun, so a lost key file, or a
 * second server with a key of its own, is refused instead of splitting one log between two names.
 */
export async function openLogIdentity(deps: {
  database: Database
  path: string
  random: Random
}): Promise<LogIdentity> {
  const { database, path } = deps
  let recorded = await findLogIdentity(database.read)
  if (recorded !== undefined && (await readLogIdentity(path)) === undefined) throw keyMissing(path, recorded.logId)
  const identity = await loadLogIdentity(path, deps.random)
  if (recorded === undefined) {
    const own = { logId: identity.logId, verifierKey: identity.signer.verifierKey }
    await database.write(LOCAL_TENANT, (unit) => recordLogIdentity(unit, own))
    recorded = await findLogIdentity(database.read)
  }
  if (recorded?.verifierKey !== identity.signer.verifierKey) throw keyMissing(path, recorded?.logId ?? '')
  return identity
}

const keyMissing = (path: string, logId: string): AppError =>
  new AppError(
    'ERR_INIT_FAILED',
    `The log of this store was begun under the key of log ${logId}, and ${path} does not hold that key. Copy log-key.json from the server that began it, or restore it from a backup.`,
    { field: 'data_dir', log_id: logId },
  )
