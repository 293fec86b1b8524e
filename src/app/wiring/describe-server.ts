import type { LogGuard } from '../../audit/log-guard.ts'
import type { Database } from '../../contract/database.ts'
import type { ClockKeeper } from '../../domains/server/clock-keeper.ts'
import { createServerService } from '../../domains/server/service.ts'
import type { SkillService } from '../../domains/skills/service.ts'
import type { Catalog } from '../../tools/runtime/catalog.ts'
import { stageNames } from '../../tools/runtime/stages.ts'
import type { AppDeps } from '../build-app.ts'
import { unsetVariables } from '../unset-variables.ts'

type Parts = Readonly<{
  database: Database
  guard: LogGuard
  time: ClockKeeper
  usage: Readonly<{ problem(): string | undefined }>
}>

/** The program's own description; without `parts`, of one that has opened nothing. */
export function describeServer(deps: AppDeps, catalog: Catalog, skills: SkillService, parts: Parts | undefined) {
  return createServerService({
    clock: deps.clock,
    version: deps.version,
    mode: deps.config.mode,
    stages: stageNames,
    governance: deps.config.governance,
    toolCount: () => catalog.tools.length,
    store: () => parts?.database,
    ownerPid: deps.ownerPid,
    process: () => {
      const { rss, heapUsed } = process.memoryUsage()
      return { pid: process.pid, rssBytes: rss, heapUsedBytes: heapUsed }
    },
    async problems() {
      const found = (await skills.problems()).map((problem) => `Skill ${problem.path}: ${problem.reason}`)
      const store = parts?.database.problem()
      const time = parts?.time.problem()
      const exported = parts?.usage.problem()
      if (exported !== undefined) found.unshift(exported)
      if (time !== undefined) found.unshift(time)
      if (store !== undefined) found.unshift(store)
      const unset = unsetVariables(deps.config).map(({ problem }) => problem)
      return [...(parts?.guard.problems() ?? []), ...found, ...unset]
    },
  })
}
