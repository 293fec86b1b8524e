import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { Principal, TenantId } from '../../contract/principal.ts'
import type { ScheduleView, Timing } from '../../contract/timing.ts'
import type { ReadTx, WriteTx } from '../../contract/tx.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { Schedule, ScheduleStore, SubjectKind } from './ports.ts'

type ScheduleServiceDeps = Readonly<{
  store: ScheduleStore
  kind: SubjectKind
  /** The field of the manifest and the permission that the runs need, for a caller that is refused. */
  field: string
  permission: string
  /** Whose the runs are that the principal starts. */
  ownerOf(tx: ReadTx | WriteTx, principal: Principal): Promise<string>
  mayStart(principal: Principal): boolean
  /** Least time between two runs. */
  floorMs: number
  /** Called within a transaction: something will have changed once it is committed. */
  changed(): void
}>

type SettingCall = Pick<Call, 'write' | 'principal' | 'nowMs' | 'record'>
type Subject = Readonly<{ tenant: TenantId; id: string }>

export type ScheduleService = ReturnType<typeof createScheduleService>

/** What the registry of agents or of workflows says when it changes one, in the same transaction. */
export function createScheduleService(deps: ScheduleServiceDeps) {
  const { store, kind, ownerOf, changed } = deps

  async function remove(call: SettingCall, { tenant, id }: Subject): Promise<void> {
    await store.lock(call.write, tenant)
    if (await store.remove(call.write, tenant, id)) {
      call.record({ kind: 'schedule_removed', body: { [`${kind}_id`]: id } })
      changed()
    }
  }

  return {
    remove,
    async find(tx: ReadTx | WriteTx, { tenant, id }: Subject): Promise<ScheduleView | null> {
      const found = await store.find(tx, tenant, id)
      return found === undefined ? null : displayed(found)
    },
    /** The same timing keeps its next time: deploying again does not put a run off. */
    async set(call: SettingCall, subject: Subject, timing: Timing | null): Promise<void> {
      if (timing === null || !timing.enabled) return await remove(call, subject)
      const { principal } = call
      if (!deps.mayStart(principal)) throw mayNotStart(deps)
      const { firingTime, nextTime, shortestGapMs } = await import('./due-times.ts')
      const gapMs = shortestGapMs(timing, call.nowMs)
      if (gapMs < deps.floorMs) throw tooOften(deps, gapMs)
      const { tenant, id: subjectId } = subject
      await store.lock(call.write, tenant)
      const before = await store.find(call.write, tenant, subjectId)
      const isSame = before !== undefined && beatOf(before.timing) === beatOf(timing)
      const dueAtMs = isSame ? before.dueAtMs : nextTime(timing, call.nowMs)
      if (dueAtMs === null) return await remove(call, subject)
      const nextAtMs = firingTime(timing, subjectId, dueAtMs)
      await store.put(call.write, {
        tenant,
        kind,
        subjectId,
        timing,
        principal: lastingPart(principal),
        owner: await ownerOf(call.write, principal),
        dueAtMs,
        nextAtMs,
        lastRunId: before?.lastRunId ?? null,
        missed: isSame ? before.missed : 0,
        skipped: isSame ? before.skipped : 0,
      })
      call.record({ kind: 'schedule_set', body: { [`${kind}_id`]: subjectId, next_at: isoTime(nextAtMs) } })
      changed()
    },
  }
}

const displayed = ({ timing, nextAtMs }: Schedule): ScheduleView => ({
  ...(timing.type === 'cron'
    ? { type: timing.type, cron: timing.cron, timezone: timing.timezone }
    : { type: timing.type, seconds: timing.everyMs / 1_000 }),
  next_run_at: isoTime(nextAtMs),
})

const beatOf = (timing: Timing): string =>
  JSON.stringify(timing.type === 'cron' ? [timing.cron, timing.timezone] : timing.everyMs)

/**
 * Without what belongs to one conversation or one execution: the schedule outlives them. What the platform deployed for
 * a caller that may not deploy is executed with the rights of that one, and not with those that it was deployed with.
 */
const lastingPart = ({
  conversationId: _conversation,
  executionId: _execution,
  sealSessionId: _session,
  mcpSessionId: _connection,
  runRootId: _root,
  workspaceId: _workspace,
  newNamesOnly,
  ...rest
}: Principal): Principal => (newNamesOnly === true ? { ...rest, tier: 'user' } : rest)

const tooOften = ({ field, floorMs }: ScheduleServiceDeps, gapMs: number): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    `${field}: runs must be at least ${floorMs / 1_000} s apart, and two of these are ${gapMs / 1_000} s apart. Choose rarer times, or have executions.schedule_floor_secs lowered.`,
    { field, constraint: `at least ${floorMs / 1_000} s apart` },
  )

const mayNotStart = ({ field, permission }: ScheduleServiceDeps): AppError =>
  new AppError(
    'ERR_PERMISSION_DENIED',
    `${field}: its runs would be started as you, and you may not start them; leave ${field} out, or ask for the permission ${permission}`,
    { field, permission },
  )
