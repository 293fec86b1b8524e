import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { callerKey, canBeRevoked, keyIdentity, type Principal, standsOn } from '../../contract/principal.ts'
import { SlotSet } from '../../kernel/slot-set.ts'
import type { Presence } from './presence.ts'

/**
 * Every call that a transport has accepted and not yet answered, in one place.
 * 1. A connection has at most `limits.callsInFlightPerConnectionMax` calls. Without a connection, the bound applies to the
 *    caller.
 * 2. The calls of a key are cancelled when it is revoked or expires.
 * 3. When the transports close, streams end at once. Calls that outlast the grace period are answered by their transport, then
 *    cancelled.
 */
export type InFlightCalls = Readonly<{
  /**
   * `onInterrupted` answers it when the transports close before it ends. `onAborted` is told what the signal is told, for calls that need
   * no signal.
   */
  begin(onInterrupted: () => void, kind?: 'call' | 'stream', onAborted?: (reason: unknown) => void): InFlightCall
  /** Accepts no more calls, waits for those in flight, and interrupts those that outlast the grace period. */
  drain(graceMs: number): Promise<void>
  /** Answers and cancels all that are in flight. */
  interruptAll(): void
  readonly closing: boolean
}>

export type InFlightCall = Readonly<{
  /** Created on first use. */
  signal: AbortSignal
  /** Whether the client has cancelled it. */
  isCancelled(): boolean
  /** Counts it as a call of the principal; false if that would be too many. Called at most once. */
  admit(principal: Principal, connection?: Counted): boolean
  /** Only aborts the signal; the call still ends by itself. */
  cancel(reason?: unknown): void
  /** True the first time. */
  end(): boolean
  hasEnded(): boolean
}>

/** What calls are counted on. */
export type Counted = { inFlight: number }

type Caller = Counted & Readonly<{ calls: SlotSet<Call> }>
/** A caller without calls will most likely make one soon. */
const CALLERS_CACHED = 256
type Registry = Readonly<{
  presence: Presence
  calls: SlotSet<Call>
  /** Callers with keys, and callers whose calls are not counted on a connection. */
  callers: Map<string, Caller>
  ended(): void
}>

class Call implements InFlightCall {
  readonly kind: 'call' | 'stream'
  onInterrupted: () => void
  readonly #registry: Registry
  #onAborted: ((reason: unknown) => void) | undefined
  #controller: AbortController | undefined
  #aborted: Readonly<{ reason: unknown }> | undefined
  /** The session of a signed call, once admitted. */
  sealSessionId: string | undefined
  /** The identity of the virtual key, for a caller that is counted as its owner. */
  virtualKey: string | undefined
  #counted: Counted | undefined
  #callerKey: string | undefined
  #stopWatching: (() => void) | undefined
  #isCancelled = false
  #hasEnded = false

  constructor(
    registry: Registry,
    onInterrupted: () => void,
    kind: 'call' | 'stream',
    onAborted: ((reason: unknown) => void) | undefined,
  ) {
    this.#registry = registry
    this.#onAborted = onAborted
    this.onInterrupted = onInterrupted
    this.kind = kind
    registry.calls.add(this)
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#aborted !== undefined) this.#controller.abort(this.#aborted.reason)
    }
    return this.#controller.signal
  }
  isCancelled(): boolean {
    return this.#isCancelled
  }
  hasEnded(): boolean {
    return this.#hasEnded
  }

  admit(principal: Principal, connection?: Counted): boolean {
    const isRevocable = standsOn(principal).some(canBeRevoked)
    const key = connection === undefined || isRevocable ? callerKey(principal) : undefined
    const caller =
      key === undefined ? undefined : (this.#registry.callers.get(key) ?? { inFlight: 0, calls: new SlotSet<Call>() })
    const counted = connection ?? caller!
    if (counted.inFlight >= limits.callsInFlightPerConnectionMax) return false
    counted.inFlight++
    this.#counted = counted
    this.sealSessionId = principal.sealSessionId
    const { virtualKeyId } = principal
    if (virtualKeyId !== undefined) this.virtualKey = keyIdentity(virtualKeyId)
    if (key !== undefined) {
      this.#callerKey = key
      this.#registry.callers.set(key, caller!)
      caller!.calls.add(this)
    }
    if (isRevocable) this.#stopWatching = this.#registry.presence.watch(principal)
    return true
  }

  abort(reason?: unknown): void {
    if (this.#aborted !== undefined) return
    this.#aborted = { reason }
    this.#controller?.abort(reason)
    this.#onAborted?.(reason)
  }

  cancel(reason?: unknown): void {
    if (this.#hasEnded || this.#isCancelled) return
    this.#isCancelled = true
    // A client's own words go no further: what listens to the signal may pass them on.
    this.abort(reason instanceof Error ? reason : undefined)
  }

  end(): boolean {
    if (this.#hasEnded) return false
    this.#hasEnded = true
    const { calls, callers, ended } = this.#registry
    calls.delete(this)
    if (this.#counted !== undefined) this.#counted.inFlight--
    if (this.#callerKey !== undefined) {
      const caller = callers.get(this.#callerKey)!
      caller.calls.delete(this)
      if (caller.calls.size === 0 && callers.size > CALLERS_CACHED) callers.delete(this.#callerKey)
    }
    this.#stopWatching?.()
    // A list that still has it keeps nothing else alive.
    this.onInterrupted = nothing
    this.#onAborted = undefined
    this.#stopWatching = undefined
    ended()
    return true
  }
}

const nothing = (): void => {}

export function createInFlightCalls(presence: Presence): InFlightCalls {
  const calls = new SlotSet<Call>()
  const callers = new Map<string, Caller>()
  let draining: Promise<void> | undefined
  let onEmpty = (): void => {}
  const registry: Registry = {
    presence,
    calls,
    callers,
    ended() {
      if (calls.size === 0) onEmpty()
    },
  }
  presence.onRevoked((tenant, owner) => {
    for (const call of callers.get(`${tenant}/${owner}`)?.calls ?? []) call.abort(revokedMeanwhile())
    for (const call of calls) {
      if (call.sealSessionId === owner) call.abort(sessionRevokedMeanwhile())
      else if (call.virtualKey === owner) call.abort(revokedMeanwhile())
    }
  })

  function interruptAll(): void {
    for (const call of calls) {
      call.onInterrupted()
      call.abort(new AppError('ERR_SHUTTING_DOWN', 'The server is shutting down.'))
    }
  }

  async function drain(graceMs: number): Promise<void> {
    for (const call of calls) if (call.kind === 'stream') call.abort()
    if (calls.size === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, graceMs)
    onEmpty = resolve
    await promise
    clearTimeout(timer)
    interruptAll()
  }

  return {
    begin: (onInterrupted, kind = 'call', onAborted) => new Call(registry, onInterrupted, kind, onAborted),
    interruptAll,
    drain(graceMs) {
      draining ??= drain(graceMs)
      return draining
    },
    get closing() {
      return draining !== undefined
    },
  }
}

const revokedMeanwhile = (): AppError =>
  new AppError('ERR_CANCELLED', 'The API key was revoked or has expired during the call.')
const sessionRevokedMeanwhile = (): AppError =>
  new AppError('ERR_CANCELLED', 'The session was revoked during the call. Attest again.')
