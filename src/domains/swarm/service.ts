import type { SwarmDeps } from './ports.ts'
import { createPrepare } from './prepare.ts'
import { createSwarms } from './run-swarm.ts'

export type SwarmService = ReturnType<typeof createSwarmService>

/** Prepares workspaces for forking, and runs swarms of forks. */
export const createSwarmService = (deps: SwarmDeps) => ({ ...createPrepare(deps), ...createSwarms(deps) })
