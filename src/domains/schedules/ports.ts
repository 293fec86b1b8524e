import type { Principal, TenantId } from '../../contract/principal.ts'
import type { Timing } from '../../contract/timing.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'

export type SubjectKind = 'agent' | 'workflow'

/** When a subject is started by itself. There is one for each agent and workflow whose latest manifest asks for it. */
export type Schedule = Readonly<{
  /** Of the subject: that of the system for an agent that is global. */
  tenant: TenantId
  kind: SubjectKind
  subjectId: string
  timing: Timing
  /** The identity that deployed the subject and owns its runs. */
  principal: Principal
  owner: string
  /** The next time of the calendar or of the beat. */
  dueAtMs: number
  /** When it fires for that: put off by the part of the jitter that falls to that time. */
  nextAtMs: number
  lastRunId: string | null
  /** Since the last run: times that came while nobody could start one, and while the last one was not over. */
  missed: number
  skipped: number
}>

/** Each method reads or writes within the transaction that it is passed. */
export type ScheduleStore = Readonly<{
  /** Holds back everybody else who wants to change a schedule of the tenant until the transaction ends. */
  lock(tx: WriteTx, tenant: TenantId): Promise<void>
  /** Replaces what the subject had before. */
  put(tx: WriteTx, schedule: Schedule): Promise<void>
  /** Answers whether there was one. */
  remove(tx: WriteTx, tenant: TenantId, subjectId: string): Promise<boolean>
  find(tx: ReadTx | WriteTx, tenant: TenantId, subjectId: string): Promise<Schedule | undefined>
  /** Over all tenants, the earliest first. */
  due(tx: ReadTx, untilMs: number): Promise<Schedule[]>
  /** The earliest time after `afterMs` at which one is due. */
  firstAfter(tx: ReadTx, afterMs: number): Promise<number | undefined>
}>
