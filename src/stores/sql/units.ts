import type { ReadUnit, WriteUnit } from '../../contract/unit.ts'
import type { Session } from './statements.ts'
import type { TenantHead } from './tenant-head.ts'

/** What the opaque units of the contract are made of in a SQL store. */
export type SqlReadUnit = ReadUnit & Readonly<{ session: Session }>
export type SqlWriteUnit = WriteUnit & Readonly<{ session: Session; head: TenantHead }>

export const readUnit = (session: Session): SqlReadUnit => ({ __unit: 'read', session })
export const writeUnit = (session: Session, head: TenantHead): SqlWriteUnit => ({ __unit: 'write', session, head })

export const sessionOf = (unit: ReadUnit | WriteUnit): Session => (unit as SqlReadUnit).session

/** The session of a write to one tenant's rows; the unit of another tenant holds the wrong lock and is refused. */
export function writerOf(unit: WriteUnit, tenant: string): Session {
  const { head, session } = unit as SqlWriteUnit
  if (head.tenant !== tenant) throw foreignUnit()
  return session
}

/**
 * The session of a write to what belongs to everybody, inside the transaction of whoever writes it. The head of the writer's
 * tenant does not hold back writers of other tenants: the store that uses this must do so itself.
 */
export const sharedWriterOf = (unit: WriteUnit): Session => (unit as SqlWriteUnit).session

/** The locked head of the unit's tenant. A store may only use it for the tenant that the unit was opened for. */
export function headOf(unit: WriteUnit, tenant: string): TenantHead {
  const { head } = unit as SqlWriteUnit
  if (head.tenant !== tenant) throw foreignUnit()
  return head
}

/** The head of a write unit that is used for reading; undefined for a read unit. */
export const writeHeadOf = (unit: ReadUnit | WriteUnit): TenantHead | undefined =>
  unit.__unit === 'write' ? (unit as SqlWriteUnit).head : undefined

const foreignUnit = () => new Error('a write unit belongs to another tenant')
