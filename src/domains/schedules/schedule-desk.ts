import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { Principal, TenantId } from '../../contract/principal.ts'
import type { ReadUnit, WriteUnit } from '../../contract/unit.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { AgentSchedule } from '../agents/normalised-manifest.ts'
import type { ScheduleStore } from './ports.ts'

export type ScheduleDeskDeps = Readonly<{
  store: ScheduleStore
  /** Whose the executions are that the principal starts. */
  ownerOf(unit: ReadUnit | WriteUnit, principal: Principal): Promise<string>
  mayExecute(principal: Principal): boolean
  /** Called within a transaction: something will have changed once it is committed. */
  changed(): void
}>

type SettingCall = Pick<Call, 'write' | 'principal' | 'nowMs' | 'record'>
type ScheduledAgent = Readonly<{ tenant: TenantId; id: string }>

export type ScheduleDesk = ReturnType<typeof createScheduleDesk>

/** What the registry of agents says when it changes one, in the same transaction. */
export function createScheduleDesk({ store, ownerOf, mayExecute, changed }: ScheduleDeskDeps) {
  async function remove(call: SettingCall, { tenant, id }: ScheduledAgent): Promise<void> {
    await store.lock(call.write, tenant)
    if (await store.remove(call.write, tenant, id)) {
      call.record({ kind: 'schedule_removed', body: { agent_id: id } })
      changed()
    }
  }

  return {
    remove,
    /** The same timing keeps its next time: deploying again does not put an execution off. */
    async set(call: SettingCall, agent: ScheduledAgent, timing: AgentSchedule | null): Promise<void> {
      if (timing === null || !timing.enabled) return await remove(call, agent)
      const { principal } = call
      if (!mayExecute(principal)) throw mayNotExecute()
      const { nextTime } = await import('./due-times.ts')
      const { tenant, id: agentId } = agent
      await store.lock(call.write, tenant)
      const before = await store.find(call.write, tenant, agentId)
      const isSame = before !== undefined && beatOf(before.timing) === beatOf(timing)
      const nextAtMs = isSame ? before.nextAtMs : nextTime(timing, call.nowMs)
      if (nextAtMs === null) return await remove(call, agent)
      await store.put(call.write, {
        tenant,
        agentId,
        timing,
        principal: lastingPart(principal),
        owner: await ownerOf(call.write, principal),
        nextAtMs,
        lastRunId: before?.lastRunId ?? null,
        missed: isSame ? before.missed : 0,
        skipped: isSame ? before.skipped : 0,
      })
      call.record({ kind: 'schedule_set', body: { agent_id: agentId, next_at: isoTime(nextAtMs) } })
      changed()
    },
  }
}

const beatOf = (timing: AgentSchedule): string =>
  JSON.stringify(timing.type === 'cron' ? [timing.cron, timing.timezone] : timing.everyMs)

/**
 * Without what belongs to one conversation or one execution: the schedule outlives them. What the platform deployed for
 * somebody who may not deploy is executed with the rights of that one, and not with those that it was deployed with.
 */
const lastingPart = ({
  conversationId: _conversation,
  executionId: _execution,
  sealSessionId: _session,
  workspaceId: _workspace,
  newNamesOnly,
  ...rest
}: Principal): Principal => (newNamesOnly === true ? { ...rest, tier: 'user' } : rest)

const mayNotExecute = (): AppError =>
  new AppError(
    'ERR_PERMISSION_DENIED',
    'spec.schedule: its executions would be yours, and you may not execute agents; leave spec.schedule out, or have agent:execute granted',
    { field: 'spec.schedule', permission: 'agent:execute' },
  )
