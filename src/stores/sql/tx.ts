import { SYSTEM_TENANT } from '../../contract/principal.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { Session } from './statements.ts'
import type { TenantHead } from './tenant-head.ts'

/** The SQL store's implementation of the opaque transactions. */
type SqlReadTx = ReadTx & Readonly<{ session: Session }>
type SqlWriteTx = WriteTx & Readonly<{ session: Session; head: TenantHead }>

export const readTx = (session: Session): SqlReadTx => ({ __tx: 'read', session })
export const writeTx = (session: Session, head: TenantHead): SqlWriteTx => ({ __tx: 'write', session, head })

export const sessionOf = (tx: ReadTx | WriteTx): Session => (tx as SqlReadTx).session

/** The session for writes to one tenant's rows; another tenant's transaction holds the wrong lock and is refused. */
export function writerOf(tx: WriteTx, tenant: string): Session {
  const { head, session } = tx as SqlWriteTx
  if (head.tenant !== tenant) throw foreignTx()
  return session
}

/**
 * The session for writes to shared rows, inside the transaction of the writer. The head of the writer's tenant does not block
 * writers of other tenants, so the store that uses this must lock itself.
 */
export const sharedWriterOf = (tx: WriteTx): Session => (tx as SqlWriteTx).session

/** The locked head of the transaction's tenant. A store may use it only for that tenant. */
export function headOf(tx: WriteTx, tenant: string): TenantHead {
  const { head } = tx as SqlWriteTx
  if (head.tenant !== tenant) throw foreignTx()
  return head
}

/** The head of a write transaction that is used for reading; undefined for a read transaction. */
export const writeHeadOf = (tx: ReadTx | WriteTx): TenantHead | undefined =>
  tx.__tx === 'write' ? (tx as SqlWriteTx).head : undefined

const foreignTx = () => new Error('a write transaction belongs to another tenant')

/** For rows that belong to one tenant or to everybody. */
export const ownWriterOf = (tx: WriteTx, tenant: string): Session =>
  tenant === SYSTEM_TENANT ? sharedWriterOf(tx) : writerOf(tx, tenant)

/** The tenant's next public number. They have no gaps: a failed transaction returns its own. */
export function takeNumber(
  tx: WriteTx,
  tenant: string,
  counter: 'taskCount' | 'thoughtCount' | 'sessionCount',
): number {
  const head = headOf(tx, tenant)
  head.changed = true
  head.state[counter] += 1
  return head.state[counter]
}
