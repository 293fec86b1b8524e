import type { Database } from '../../src/contract/database.ts'
import { LOCAL_TENANT, localOwner } from '../../src/contract/principal.ts'
import type { WriteTx } from '../../src/contract/tx.ts'
import type { EngineDeps } from '../../src/engine/core.ts'
import { createEngine } from '../../src/engine/engine.ts'
import type { ChangingCall, Engine, NewRun, Run, RunEvent, RunStore } from '../../src/engine/ports.ts'
import { type Clock, systemClock } from '../../src/kernel/clock.ts'
import { silentLogger } from '../../src/kernel/logger.ts'
import { sqlLogStore } from '../../src/stores/sql/log-store.ts'
import { sqlRunStore } from '../../src/stores/sql/run-store.ts'

/** An engine on a real store, and what a test asks of it. */
export type TestEngine = Engine & ReturnType<typeof conveniences>

export type EngineRequest = Readonly<{
  bootId?: string
  concurrentMax?: number
  pendingMax?: number
  clock?: Clock
  isRevoked?: EngineDeps['owners']['isRevoked']
  store?: RunStore
}>

let count = 0

export function openEngine(database: Database, request: EngineRequest = {}): TestEngine {
  const bootId = request.bootId ?? 'boot-1'
  const clock = request.clock ?? systemClock
  const engine = createEngine({
    store: request.store ?? sqlRunStore,
    log: sqlLogStore,
    database,
    clock,
    logger: silentLogger,
    newId: () => `run-${++count}`,
    node: 'here',
    bootId,
    isAlive: (id) => id === bootId,
    owners: { isRevoked: request.isRevoked ?? (async () => false) },
    isReadOnly: false,
    concurrentMax: request.concurrentMax ?? 8,
    pendingMax: request.pendingMax ?? 1_000,
    reconcileMs: 50,
  })
  return { ...engine, ...conveniences(engine, database, clock) }
}

export const sampleRun: NewRun = {
  kind: 'execution',
  subjectId: 'agent-1',
  subjectName: 'sample',
  subjectVersion: '1.0.0',
  input: {},
}

function conveniences(engine: Engine, database: Database, clock: Clock) {
  const never = new AbortController().signal
  const call = <T>(work: (call: ChangingCall) => Promise<T>): Promise<T> =>
    database.write(LOCAL_TENANT, (write: WriteTx) =>
      work({ write, principal: localOwner, nowMs: clock.nowMs(), record() {} }),
    )
  return {
    call,
    run: (start: Partial<NewRun> = {}): Promise<Run> => call((one) => engine.start(one, { ...sampleRun, ...start })),
    async end(id: string): Promise<Run> {
      const untilMs = clock.nowMs() + 60_000
      const run = await engine.waitForEnd(LOCAL_TENANT, id, { untilMs, signal: never })
      if (run?.endedAtMs == null) throw new Error(`the run did not end: ${JSON.stringify(run)}`)
      return run
    },
    /** Resolves once the run is as wanted. */
    async until(id: string, isSo: (run: Run) => boolean): Promise<Run> {
      for (;;) {
        const run = await engine.find(database.read, LOCAL_TENANT, id)
        if (run !== undefined && isSo(run)) return run
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
    },
    async journal(id: string): Promise<readonly RunEvent[]> {
      const run = await engine.find(database.read, LOCAL_TENANT, id)
      return (await engine.events(database.read, run!, { limit: 1_000, offset: 0 })).events
    },
  }
}
