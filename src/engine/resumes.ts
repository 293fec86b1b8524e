import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import type { WriteTx } from '../contract/tx.ts'
import type { EngineDeps } from './core.ts'
import { appendToRun } from './journal.ts'
import { isEnded, type ProgramEnd, type Run } from './ports.ts'
import { toRunError } from './run-error.ts'

const RESUMED = 'run_resumed'

/** `resumes`: how often in a row it was resumed after a process died, this time included, without progress. */
export type Claimed = Readonly<{ run: Run; resumes: number }>

/**
 * Records this process as the owner of the run. If another process died during the run, the journal says so: otherwise a run that
 * crashes the server would do so for ever.
 */
export async function takeUp(deps: EngineDeps, tx: WriteTx, run: Run): Promise<Claimed> {
  const change = { claim: deps.bootId, status: 'running' } as const
  if (!(await wasLeft(deps, tx, run))) {
    const claimed = { ...run, ...change }
    await deps.store.saveRun(tx, claimed)
    return { run: claimed, resumes: 0 }
  }
  const resumes = 1 + (await resumesBefore(deps, tx, run))
  const row = { type: RESUMED, payload: { times: resumes } }
  return { run: await appendToRun(deps, tx, run, deps.clock.nowMs(), [row], change), resumes }
}

/** An orderly shutdown releases runs first. A run that waits for its child runs does nothing; the child counts for itself. */
async function wasLeft({ store, bootId }: EngineDeps, tx: WriteTx, run: Run): Promise<boolean> {
  if (run.status !== 'running' || run.claim === null || run.claim === bootId) return false
  const all = await store.runsUnder(tx, run.tenant, run.rootId)
  return all.every((one) => one.parentId !== run.id || isEnded(one))
}

async function resumesBefore({ store }: EngineDeps, tx: WriteTx, run: Run): Promise<number> {
  const page = 2 * limits.runResumesMax + 2
  const after = Math.max(0, run.lastSequence - page)
  const rows = await store.listEvents(tx, run.tenant, run.id, { after, limit: page })
  const last = rows.findLastIndex(({ type }) => type !== RESUMED)
  return rows.length - 1 - last
}

export const isStuck = (resumes: number): boolean => resumes > limits.runResumesMax

/** The cleanup may be what crashes the server. */
export const mayTidyUp = (resumes: number): boolean => resumes <= 2 * limits.runResumesMax

export function stuckEnd({ lastSequence }: Run, resumes: number): ProgramEnd {
  const sequence = lastSequence - resumes
  const error = new AppError(
    'ERR_RUN_STUCK',
    `The server crashed ${resumes} times while this run repeated the step after event ${sequence} of its log, so the step is not tried again. Correct the step, then start a new run.`,
    { sequence, resumes },
  )
  return { status: 'failed', output: null, error: toRunError(error) }
}
