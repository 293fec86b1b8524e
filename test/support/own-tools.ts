import { createPolicyEvaluator } from '../../src/domains/security-contexts/policy-evaluator.ts'
import { systemClock } from '../../src/kernel/clock.ts'
import type { Logger } from '../../src/kernel/logger.ts'
import { sqlLogStore } from '../../src/stores/sql/log-store.ts'
import { type CallTool, createCallTool } from '../../src/tools/runtime/call-tool.ts'
import type { Catalog } from '../../src/tools/runtime/catalog.ts'
import { createGuard } from '../../src/tools/runtime/guard.ts'
import { createRateLimiter } from '../../src/tools/runtime/rate-limiter.ts'
import { createStages } from '../../src/tools/runtime/stages.ts'
import { createToolViews } from '../../src/tools/runtime/tool-views.ts'
import type { TestApp } from './app.ts'

/** The real pipeline over tools of a test, with the store and the log of the app. */
export async function pipelineOf(app: TestApp, catalog: Catalog): Promise<{ call: CallTool; logged: string[] }> {
  const logged: string[] = []
  const note = (message: string, fields: unknown) => logged.push(`${message} ${JSON.stringify(fields)}`)
  const logger: Logger = { debug() {}, info() {}, warn() {}, error: note }
  const { clock } = app
  let calls = 0
  const call = createCallTool({
    spelling: catalog.spelling,
    stages: createStages({
      views: createToolViews({ catalog, clock }),
      mode: 'FULL',
      rateLimiter: createRateLimiter({ clock, enabled: false }),
      limitOwner: false,
      guard: createGuard({ policies: createPolicyEvaluator({ clock: systemClock }) }),
    }),
    database: (await app.app.ready).database,
    log: sqlLogStore,
    services: {} as never,
    clock,
    logger,
    newCallId: () => `c_${calls++}`,
    readRecords: 'batched',
  })
  return { call, logged }
}
