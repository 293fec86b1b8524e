import type { Progress } from '../contract/call.ts'
import { limits } from '../contract/limits.ts'
import type { Logger } from '../kernel/logger.ts'
import type { ToolAnswer, ToolCaller, ToolHost } from '../tools/runtime/tool-host.ts'
import { brokenAnswer, busyAnswer, interruptedAnswer, notStartedAnswer } from './door-answers.ts'

/**
 * Every tool call of the door passes here, whichever transport carried it.
 * 1. A call that was started settles exactly once: with the host's answer, or with ERR_SHUTTING_DOWN when the door closes.
 * 2. A refused call (too many under way, or closing) settles before `start` returns and yields no handle.
 * 3. Cancelling only aborts the signal; the host still answers, and the transport decides whether that answer is sent.
 */
export type ConnectionCalls = { inFlight: number }

export type CallSettled = (answer: ToolAnswer, call: PendingCall | undefined) => void

export class PendingCall {
  readonly controller = new AbortController()
  readonly connection: ConnectionCalls
  readonly onSettled: CallSettled
  cancelled = false
  settled = false

  constructor(connection: ConnectionCalls, onSettled: CallSettled) {
    this.connection = connection
    this.onSettled = onSettled
  }

  cancel(reason?: unknown): void {
    if (this.settled || this.cancelled) return
    this.cancelled = true
    this.controller.abort(reason)
  }
}

export type InFlightCalls = Readonly<{
  start(
    connection: ConnectionCalls,
    caller: ToolCaller,
    name: string,
    args: unknown,
    progress: ((update: Progress) => void) | undefined,
    onSettled: CallSettled,
  ): PendingCall | undefined
  /** Refuses new calls, waits for those under way, and fails the ones that outlast the grace. */
  drain(graceMs: number): Promise<void>
  readonly closing: boolean
}>

export function createInFlightCalls(deps: { host: ToolHost; logger: Logger }): InFlightCalls {
  const { host, logger } = deps
  const pending = new Set<PendingCall>()
  const busy = busyAnswer(limits.callsInFlightPerConnectionMax)
  let closing = false
  let onEmpty: (() => void) | undefined

  function settle(call: PendingCall, answer: ToolAnswer): void {
    if (call.settled) return
    call.settled = true
    call.connection.inFlight--
    pending.delete(call)
    call.onSettled(answer, call)
    if (pending.size === 0) onEmpty?.()
  }

  return {
    get closing() {
      return closing
    },
    start(connection, caller, name, args, progress, onSettled) {
      if (closing) {
        onSettled(notStartedAnswer, undefined)
        return undefined
      }
      if (connection.inFlight >= limits.callsInFlightPerConnectionMax) {
        onSettled(busy, undefined)
        return undefined
      }
      connection.inFlight++
      const call = new PendingCall(connection, onSettled)
      pending.add(call)
      const signal = call.controller.signal
      const options = progress === undefined ? { signal } : { signal, progress: whileIncreasing(call, progress) }
      host.call(caller, name, args, options).then(
        (answer) => settle(call, answer),
        (error: unknown) => {
          logger.error('A tool host broke its promise never to reject', { tool: name, error: String(error) })
          settle(call, brokenAnswer)
        },
      )
      return call
    },
    async drain(graceMs) {
      closing = true
      if (pending.size === 0) return
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, graceMs)
        onEmpty = () => {
          clearTimeout(timer)
          resolve()
        }
      })
      for (const call of pending) {
        settle(call, interruptedAnswer)
        call.controller.abort(new Error('The server is shutting down'))
      }
    },
  }
}

/** The protocol wants progress values to grow and none after the answer. */
function whileIncreasing(call: PendingCall, progress: (update: Progress) => void): (update: Progress) => void {
  let last = Number.NEGATIVE_INFINITY
  return (update) => {
    if (call.settled || call.cancelled || !(update.progress > last)) return
    last = update.progress
    progress(update)
  }
}
