import type { Principal, TenantId } from '../../contract/principal.ts'
import type { ReadUnit, WriteUnit } from '../../contract/unit.ts'
import type { AgentSchedule } from '../agents/normalised-manifest.ts'

/** When an agent is executed by itself. There is one for each agent whose latest manifest asks for it. */
export type Schedule = Readonly<{
  /** Of the agent: that of the system for one that is global. */
  tenant: TenantId
  agentId: string
  timing: AgentSchedule
  /** Whoever deployed the agent; its executions are theirs. */
  principal: Principal
  owner: string
  nextAtMs: number
  lastRunId: string | null
  /** Since the last execution: times that came while nobody could start one, and while the last one was not over. */
  missed: number
  skipped: number
}>

/** Each method reads or writes within the unit it is given. */
export type ScheduleStore = Readonly<{
  /** Holds back everybody else who wants to change a schedule of the tenant until the transaction ends. */
  lock(unit: WriteUnit, tenant: TenantId): Promise<void>
  /** In place of what the agent had before. */
  put(unit: WriteUnit, schedule: Schedule): Promise<void>
  /** Answers whether there was one. */
  remove(unit: WriteUnit, tenant: TenantId, agentId: string): Promise<boolean>
  find(unit: ReadUnit | WriteUnit, tenant: TenantId, agentId: string): Promise<Schedule | undefined>
  /** Over all tenants, the earliest first. */
  due(unit: ReadUnit, untilMs: number): Promise<Schedule[]>
  /** The earliest time after `afterMs` at which one is due. */
  firstAfter(unit: ReadUnit, afterMs: number): Promise<number | undefined>
}>
