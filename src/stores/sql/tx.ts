import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import type { Session } from './statements.ts'
import type { TenantHead } from './tenant-head.ts'

/** What the opaque transactions of the contract are made of in a SQL store. */
type SqlReadTx = ReadTx & Readonly<{ session: Session }>
type SqlWriteTx = WriteTx & Readonly<{ session: Session; head: TenantHead }>

export const readTx = (session: Session): SqlReadTx => ({ __tx: 'read', session })
export const writeTx = (session: Session, head: TenantHead): SqlWriteTx => ({ __tx: 'write', session, head })

export const sessionOf = (tx: ReadTx | WriteTx): Session => (tx as SqlReadTx).session

/** The session of a write to one tenant's rows; the transaction of another tenant holds the wrong lock and is refused. */
export function writerOf(tx: WriteTx, tenant: string): Session {
  const { head, session } = tx as SqlWriteTx
  if (head.tenant !== tenant) throw foreignTx()
  return session
}

/**
 * The session of a write to what belongs to everybody, inside the transaction of the writer. The head of the writer's
 * tenant does not hold back writers of other tenants: the store that uses this must do so itself.
 */
export const sharedWriterOf = (tx: WriteTx): Session => (tx as SqlWriteTx).session

/** The locked head of the transaction's tenant. A store may only use it for the tenant that the transaction was opened for. */
export function headOf(tx: WriteTx, tenant: string): TenantHead {
  const { head } = tx as SqlWriteTx
  if (head.tenant !== tenant) throw foreignTx()
  return head
}

/** The head of a write transaction that is used for reading; undefined for a read transaction. */
export const writeHeadOf = (tx: ReadTx | WriteTx): TenantHead | undefined =>
  tx.__tx === 'write' ? (tx as SqlWriteTx).head : undefined

const foreignTx = () => new Error('a write transaction belongs to another tenant')
