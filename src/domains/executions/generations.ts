import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Principal } from '../../contract/principal.ts'
import type { ReadTx } from '../../contract/tx.ts'
import type { Engine } from '../../engine/ports.ts'

/**
 * How many runs have begun one another before the one that this caller begins; nobody waits for it, so that no depth bounds
 * it. An agent that executes itself would go on for ever.
 */
export async function nextGeneration(
  engine: Pick<Engine, 'find'>,
  tx: ReadTx,
  { tenant, executionId }: Principal,
): Promise<number> {
  if (executionId === undefined) return 0
  const run = await engine.find(tx, tenant, executionId)
  const root = run === undefined || run.rootId === run.id ? run : await engine.find(tx, tenant, run.rootId)
  const { generation = 0 } = (root?.input ?? {}) as { generation?: number }
  if (generation < limits.workflowGenerationsMax) return generation + 1
  throw new AppError(
    'ERR_DEPTH_EXCEEDED',
    `Runs may begin each other ${limits.workflowGenerationsMax} times without waiting; this would be one more. Let whoever began the first begin this one.`,
    { generations_max: limits.workflowGenerationsMax },
  )
}
