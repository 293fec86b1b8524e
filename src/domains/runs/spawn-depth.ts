import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { Engine } from '../../engine/ports.ts'

/**
 * How many runs have started one another before the one that this caller starts. No parent waits for such a run, so the depth
 * limit does not bound it, and an agent that executes itself would continue for ever. Inputs store it as `generation`.
 */
export async function nextSpawnDepth(
  engine: Pick<Engine, 'find'>,
  tx: ReadTx,
  { tenant, executionId }: Principal,
): Promise<number> {
  if (executionId === undefined) return 0
  const run = await engine.find(tx, tenant, executionId)
  const root = run === undefined || run.rootId === run.id ? run : await engine.find(tx, tenant, run.rootId)
  const { generation: depth = 0 } = (root?.input ?? {}) as { generation?: number }
  if (depth < limits.spawnDepthMax) return depth + 1
  throw new AppError(
    'ERR_DEPTH_EXCEEDED',
    `This run would exceed the limit of ${limits.spawnDepthMax} runs that start each other without waiting. Start it from the caller that started the first run.`,
    { generations_max: limits.spawnDepthMax },
  )
}
