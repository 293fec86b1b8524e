import type { Database } from '../../src/contract/database.ts'
import { LOCAL_TENANT, localOwner } from '../../src/contract/principal.ts'
import type { Timing } from '../../src/contract/timing.ts'
import type { Schedule } from '../../src/domains/schedules/ports.ts'
import { createScheduler, type SchedulerDeps } from '../../src/domains/schedules/scheduler.ts'
import { createScheduleService } from '../../src/domains/schedules/service.ts'
import type { Run } from '../../src/engine/ports.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { sqlScheduleStore } from '../../src/stores/sql/schedule-store.ts'
import type { movableClock } from './app.ts'
import { openEngine, sampleRun, type TestEngine } from './engine.ts'

const AGENT = 'agent-1'

/** One server: a scheduler and an engine on a real store, with a clock that the test moves. */
export type TestServer = Readonly<{
  engine: TestEngine
  scheduler: ReturnType<typeof createScheduler>
  set(timing: Partial<Timing> & Pick<Timing, 'type'>): Promise<void>
  remove(): Promise<void>
  find(): Promise<Schedule | undefined>
  /** The newest last. */
  runs(): Promise<Run[]>
  /** What each run was told of its schedule. */
  reasons(): Promise<unknown[]>
  close(): Promise<void>
}>

type AccessRequest = Readonly<{ bootId?: string; deps?: Partial<SchedulerDeps> }>

export function openServer(
  database: Database,
  clock: ReturnType<typeof movableClock>,
  request: AccessRequest = {},
): TestServer {
  const engine = openEngine(database, { bootId: request.bootId ?? 'boot-1', clock })
  engine.register('execution', async (_, steps) => {
    await steps.wait('go', { details: {} })
    return { status: 'completed', output: null }
  })
  const scheduler = createScheduler({
    store: sqlScheduleStore,
    database,
    engine,
    clock,
    logger: silentLogger,
    isReadOnly: false,
    owners: { isRevoked: async () => false },
    mayStart: () => true,
    start: (call, { subjectId }, payload) => engine.start(call, { ...sampleRun, subjectId, payload }),
    reconcileMs: 50,
    ...request.deps,
  })
  const invoker = createScheduleService({
    store: sqlScheduleStore,
    kind: 'agent',
    field: 'spec.schedule',
    permission: 'agent:execute',
    ownerOf: async () => 'owner',
    mayStart: () => true,
    floorMs: 0,
    changed: scheduler.scheduleReconcile,
  })
  const agent = { tenant: LOCAL_TENANT, id: AGENT }
  const runs = async (): Promise<Run[]> =>
    (await engine.list(database.read, LOCAL_TENANT, { kind: 'execution', subjectId: AGENT, limit: 100 })).toReversed()
  return {
    engine,
    scheduler,
    set: (timing) =>
      engine.call((call) =>
        invoker.set({ ...call, principal: localOwner }, agent, {
          enabled: true,
          overlap: 'skip',
          missed: 'once',
          input: null,
          jitterMs: 0,
          ...timing,
        } as Timing),
      ),
    remove: () => engine.call((call) => invoker.remove(call, agent)),
    find: () => sqlScheduleStore.find(database.read, LOCAL_TENANT, AGENT),
    runs,
    async reasons() {
      const journals = await Promise.all((await runs()).map(({ id }) => engine.journal(id)))
      return journals.map(([started]) => (started!.payload as { schedule?: unknown }).schedule)
    },
    async close() {
      await scheduler.close()
      await engine.close()
    },
  }
}
