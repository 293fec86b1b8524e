import { createContext, Script } from 'node:vm'

const watch = new Script('work()')
const sandbox: { work: (() => unknown) | undefined } = { work: undefined }
let context: object | undefined

/** How many times longer `work` may take, by the clock, on a machine that has no time for it. */
const STARVED_FACTOR = 5

/**
 * Runs `work` in this thread, and aborts it if it takes too long. The clock alone does not tell: on a busy machine a thread can wait
 * longer than it works. So `work` is run once more, with more time, if it was aborted before it had used half of its time.
 */
export function boundedInTime<T>(timeoutMs: number, work: () => T): T {
  const before = process.threadCpuUsage()
  try {
    return abortedAfter(timeoutMs, work)
  } catch (error) {
    const { user, system } = process.threadCpuUsage(before)
    const isStarved = isTimeout(error) && (user + system) / 1_000 < timeoutMs / 2
    if (!isStarved) throw error
    return abortedAfter(timeoutMs * STARVED_FACTOR, work)
  }
}

function abortedAfter<T>(timeoutMs: number, work: () => T): T {
  context ??= createContext(sandbox)
  sandbox.work = work
  try {
    return watch.runInContext(context, { timeout: timeoutMs }) as T
  } finally {
    sandbox.work = undefined
  }
}

/** Node makes the error in the other context, where `Error` is another one. */
const isTimeout = (error: unknown): boolean =>
  (error as Readonly<{ code?: unknown }> | undefined)?.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT'
