import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import { statement } from './statements.ts'
import { sessionOf } from './tx.ts'

/** The name and the public key under which the log of this store was started. */
type RecordedLogIdentity = Readonly<{ logId: string; verifierKey: string }>

const findIdentity = statement<Record<never, never>>('log-identity.findIdentity')((db) =>
  db.selectFrom('log_identity').select(['log_id', 'verifier_key']),
)
const insertIdentity = statement<{ log_id: string; verifier_key: string }>('log-identity.insertIdentity')((db, arg) =>
  db
    .insertInto('log_identity')
    .values({ only_row: 0, log_id: arg('log_id'), verifier_key: arg('verifier_key') })
    .onConflict((conflict) => conflict.column('only_row').doNothing()),
)

export async function findLogIdentity(tx: ReadTx): Promise<RecordedLogIdentity | undefined> {
  const row = await sessionOf(tx).get(findIdentity, {})
  return row === undefined ? undefined : { logId: row.log_id, verifierKey: row.verifier_key }
}

/** The first writer counts; later ones change nothing. */
export async function recordLogIdentity(tx: WriteTx, identity: RecordedLogIdentity): Promise<void> {
  await sessionOf(tx).run(insertIdentity, { log_id: identity.logId, verifier_key: identity.verifierKey })
}
