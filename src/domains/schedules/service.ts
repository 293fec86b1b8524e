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
  /** The manifest field and the permission that the runs need, for a refusal. */
  field: string
  permission: string
  /** The owner of the principal's runs. */
  ownerOf(tx: ReadTx | WriteTx, principal: Principal): Promise<string>
  mayStart(principal: Principal): boolean
  /** The shortest interval between two runs. */
  floorMs: number
  /** Called within a transaction: the change takes effect once it is committed. */
  changed(): void
}>

type SettingCall = Pick<Call, 'write' | 'principal' | 'nowMs' | 'record'>
type Subject = Readonly<{ tenant: TenantId; id: string }>

export type ScheduleService = ReturnType<typeof createScheduleService>

/** Called by the registry of agents or of workflows when it changes one, in the same transaction. */
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
    /** The same timing keeps its next time: deploying again does not delay a run. */
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
 * Without fields of one conversation or one execution, which the schedule outlives. If the platform deployed for a caller that
 * may not deploy, the runs have that caller's rights, not those of the deployment.
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
    `${field}: runs must be at least ${floorMs / 1_000} s apart, but two of them are ${gapMs / 1_000} s apart. Choose less frequent times, or ask the operator to lower executions.schedule_floor_secs.`,
    { field, constraint: `at least ${floorMs / 1_000} s apart` },
  )

const mayNotStart = ({ field, permission }: ScheduleServiceDeps): AppError =>
  new AppError(
    'ERR_PERMISSION_DENIED',
    `${field}: the scheduled runs would start in your name, and you may not start them; omit ${field}, or ask for the permission ${permission}`,
    { field, permission },
  )
