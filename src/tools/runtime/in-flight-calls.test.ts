import { describe, expect, it, vi } from 'vitest'
import { limits } from '../../contract/limits.ts'
import { LOCAL_TENANT, localOwner, type Principal, tenantId } from '../../contract/principal.ts'
import { createInFlightCalls } from './in-flight-calls.ts'
import { everPresent, type Presence } from './presence.ts'

const ann: Principal = { ...localOwner, kind: 'key', keyId: 'ann', actor: 'ann' }
const bob: Principal = { ...ann, keyId: 'bob', actor: 'bob' }
const nothing = (): void => {}
const max = limits.callsInFlightPerConnectionMax

/** Who is watched, and a way to report that an owner is revoked. */
function watchedPresence() {
  const watched: string[] = []
  let tell: Parameters<Presence['onRevoked']>[0] = nothing
  const presence: Presence = {
    watch({ keyId = '' }) {
      watched.push(keyId)
      return () => void watched.splice(watched.indexOf(keyId), 1)
    },
    onRevoked(listener) {
      tell = listener
      return nothing
    },
  }
  return { presence, watched, revoke: (tenant = LOCAL_TENANT, owner = 'key:ann') => tell(tenant, owner) }
}

describe('calls in flight', () => {
  it('are bounded for a caller, and for each connection by itself', () => {
    const inFlight = createInFlightCalls(everPresent)
    const calls = Array.from({ length: max }, () => inFlight.begin(nothing))
    expect(calls.every((call) => call.admit(ann))).toBe(true)
    expect(inFlight.begin(nothing).admit(ann)).toBe(false)
    expect(inFlight.begin(nothing).admit(bob)).toBe(true)
    const connection = { inFlight: 0 }
    const connected = inFlight.begin(nothing)
    expect([connected.admit(ann, connection), connection.inFlight]).toEqual([true, 1])
    expect(inFlight.begin(nothing).admit(ann, { inFlight: max })).toBe(false)

    expect([calls[0]!.end(), calls[0]!.end()]).toEqual([true, false])
    expect(inFlight.begin(nothing).admit(ann)).toBe(true)
    connected.end()
    expect(connection.inFlight).toBe(0)
  })

  it('of a key are cancelled when it is gone, whatever they are counted on, and are watched until they end', () => {
    const { presence, watched, revoke } = watchedPresence()
    const inFlight = createInFlightCalls(presence)
    const [alone, connected, other, owner] = [ann, ann, bob, localOwner].map((principal, index) => {
      const call = inFlight.begin(nothing)
      call.admit(principal, index === 1 ? { inFlight: 0 } : undefined)
      return call
    })
    expect(watched).toEqual(['ann', 'ann', 'bob'])
    revoke(tenantId('other'))
    expect(alone!.signal.aborted).toBe(false)
    revoke()
    expect([alone, connected, other, owner].map((call) => call!.signal.aborted)).toEqual([true, true, false, false])
    expect(alone!.signal.reason).toMatchObject({ code: 'ERR_CANCELLED' })
    // The transport still answers: it was not the client who cancelled.
    expect(alone!.isCancelled()).toBe(false)
    for (const call of [alone, connected, other, owner]) call!.end()
    expect(watched).toEqual([])
  })

  it('may end while the transports close; streams are ended first', async () => {
    const inFlight = createInFlightCalls(everPresent)
    const interrupted = vi.fn()
    const stream = inFlight.begin(interrupted, 'stream')
    const call = inFlight.begin(interrupted)
    const drained = inFlight.drain(60_000)
    expect([inFlight.closing, stream.signal.aborted, call.signal.aborted]).toEqual([true, true, false])
    stream.end()
    call.end()
    await drained
    expect(interrupted).not.toHaveBeenCalled()
  })

  it('that outlast the grace are answered, then cancelled, also those of whom nobody knows yet', async () => {
    const inFlight = createInFlightCalls(everPresent)
    const order: string[] = []
    const call = inFlight.begin(() => order.push(`answered ${call.signal.aborted}`))
    await inFlight.drain(1)
    expect(order).toEqual(['answered false'])
    expect(call.signal.reason).toMatchObject({ code: 'ERR_SHUTTING_DOWN' })
  })
})
