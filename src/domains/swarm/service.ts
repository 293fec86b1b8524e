import type { SwarmDeps } from './ports.ts'
import { createPrepare } from './prepare.ts'
import { createSwarms } from './run-swarm.ts'

export type SwarmService = ReturnType<typeof createSwarmService>

/** Orchestration: a workspace prepared to be forked, and many forks of it at work. */
export const createSwarmService = (deps: SwarmDeps) => ({ ...createPrepare(deps), ...createSwarms(deps) })
