import type { Principal, TenantId } from '../../contract/principal.ts'
import type { Timing } from '../../contract/timing.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

export type SubjectKind = 'agent' | 'workflow'

/** When a subject is started automatically. There is one for each agent and workflow whose latest manifest requests it. */
export type Schedule = Readonly<{
  /** Of the subject: the system tenant for a global agent. */
  tenant: TenantId
  kind: SubjectKind
  subjectId: string
  timing: Timing
  /** The identity that deployed the subject and owns its runs. */
  principal: Principal
  owner: string
  /** The next scheduled time. */
  dueAtMs: number
  /** When it fires: delayed by its part of the jitter. */
  nextAtMs: number
  lastRunId: string | null
  /** Since the last run: times that were missed, and times that were skipped because the last run was still going. */
  missed: number
  skipped: number
}>

/** Each method reads or writes within the transaction that it is passed. */
export type ScheduleStore = Readonly<{
  /** Blocks all other changes of the tenant's schedules until the transaction ends. */
  lock(tx: WriteTx, tenant: TenantId): Promise<void>
  /** Replaces the subject's schedule. */
  put(tx: WriteTx, schedule: Schedule): Promise<void>
  /** Answers whether there was one. */
  remove(tx: WriteTx, tenant: TenantId, subjectId: string): Promise<boolean>
  find(tx: ReadTx | WriteTx, tenant: TenantId, subjectId: string): Promise<Schedule | undefined>
  /** Over all tenants, the earliest first. */
  due(tx: ReadTx, untilMs: number): Promise<Schedule[]>
  /** The earliest time after `afterMs` at which one is due. */
  firstAfter(tx: ReadTx, afterMs: number): Promise<number | undefined>
}>
