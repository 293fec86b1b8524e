import type { Call } from '../../contract/call.ts'
import { limits } from '../../contract/limits.ts'

/** The same call for a part of its work, with its own progress or signal. What it reads and runs is judged as that call's. */
export function viewOf(call: Call, changes: Partial<Pick<Call, 'progress' | 'signal'>>): Call {
  return {
    id: call.id,
    principal: call.principal,
    transport: call.transport,
    nowMs: call.nowMs,
    signal: changes.signal ?? call.signal,
    progress: changes.progress ?? ((update) => call.progress(update)),
    read: call.read,
    get write() {
      return call.write
    },
    snapshot: (work) => call.snapshot(work),
    warn: (message) => call.warn(message),
    record: (effect) => call.record(effect),
    transact: (work) => call.transact(work),
    enterWorkspace: async (id, reachesOut) => await call.enterWorkspace?.(id, reachesOut),
    opensNetwork: async () => await call.opensNetwork?.(),
    fillsWorkspace: async (id) => await call.fillsWorkspace?.(id),
    bringsInto: async (id, from) => await call.bringsInto?.(id, from),
    readsFrom: (context) => call.readsFrom?.(context),
    writesTo: async (context, tx) => await call.writesTo?.(context, tx),
  }
}

/** For steps that must complete even if the call was cancelled. */
export const uninterrupted = (call: Call): Call => viewOf(call, { signal: new AbortController().signal })

export type Reporter = Readonly<{
  /** One of the `total` steps is done. */
  step(message: string): void
  /** A message between two steps. */
  say(message: string): void
  stop(): void
}>

/**
 * Reports progress: at every step, and in between about once a second with the text of `present`, so that a long step does not
 * look dead. The number only grows: between two steps it approaches the next.
 */
export function createReporter(call: Pick<Call, 'progress'>, total: number, present: () => string): Reporter {
  let steps = 0
  let between = 0
  const tell = (message: string): void => {
    const progress = Math.min(steps, total - 1) + between / (between + 1)
    call.progress({ progress: steps >= total ? total : progress, total, message })
  }
  const say = (message: string): void => {
    between++
    tell(message)
  }
  const timer = setInterval(() => say(present()), limits.execProgressMs)
  timer.unref()
  return {
    step(message) {
      steps++
      between = 0
      tell(message)
    },
    say,
    stop: () => clearInterval(timer),
  }
}
