import { AppError } from '../contract/app-error.ts'
import type { Clock } from '../kernel/clock.ts'
import type { LimitWatch } from './limit-watch.ts'

/** How long a command waits for a process of its workspace to end. The limit watch notices a fork bomb within it. */
const PROCESS_WAIT_MS = 2_500
const PROCESS_POLL_MS = 50

/** Maps the kernel's refusal of another process to an error that the caller can act on. */
export function refusedProcess(error: unknown): AppError | undefined {
  if (!(error instanceof Error) || error.message !== 'clone: Resource temporarily unavailable') return undefined
  return new AppError(
    'ERR_QUOTA_EXCEEDED',
    'The workspace has as many processes as it may have, so the command could not start. Kill jobs with exec_background, or stop the workspace with workspace_stop.',
    { limit: 'processes' },
  )
}

const isProcessLimit = (error: unknown): boolean =>
  error instanceof AppError && error.code === 'ERR_QUOTA_EXCEEDED' && error.details['limit'] === 'processes'

/** Starts a command again while its workspace is at its process limit: killed processes count until they are reaped. */
export async function whenProcessesEnd<T>(clock: Clock, watch: LimitWatch, start: () => Promise<T>): Promise<T> {
  let deadlineMs = clock.monotonicMs() + PROCESS_WAIT_MS
  for (;;) {
    if (watch.isEndingBomb()) deadlineMs = clock.monotonicMs() + PROCESS_WAIT_MS
    try {
      return await start()
    } catch (error) {
      if (!isProcessLimit(error) || clock.monotonicMs() > deadlineMs) throw error
      await new Promise((resolve) => setTimeout(resolve, PROCESS_POLL_MS))
    }
  }
}
