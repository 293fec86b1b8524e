import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import { networkOf } from '../kernel/address-network.ts'
import type { Clock } from '../kernel/clock.ts'

/**
 * Slows down guessing of keys, by network.
 *
 * 1. A valid key works at once, whatever others try from the same network.
 * 2. Beyond `limits.keyFailuresPerMinuteMax` in a minute, a wrong key is answered late, and with 429.
 * 3. That is recorded once a minute for each network.
 */
export type KeyGuard = Readonly<{
  /** Called for every wrong key; resolves with the error to send. */
  refusalOf(address: string, error: unknown): unknown | Promise<unknown>
}>

const MINUTE_MS = 60_000

export function createKeyGuard({ clock, note }: Readonly<{ clock: Clock; note(address: string): void }>): KeyGuard {
  const networks = new Map<string, { sinceMs: number; failures: number }>()
  let waiting = 0

  /** Of this minute, including this one. */
  function countOf(network: string): number {
    const nowMs = clock.monotonicMs()
    const known = networks.get(network)
    if (known !== undefined && nowMs - known.sinceMs < MINUTE_MS) return ++known.failures
    networks.delete(network)
    if (networks.size >= limits.keyFailureNetworksMax) networks.delete(networks.keys().next().value!)
    networks.set(network, { sinceMs: nowMs, failures: 1 })
    return 1
  }

  async function late(): Promise<AppError> {
    waiting++
    await new Promise((resolve) => setTimeout(resolve, limits.keyFailureDelayMs))
    waiting--
    return tooMany()
  }

  return {
    refusalOf(address, error) {
      if (!(error instanceof AppError) || error.code !== 'ERR_UNAUTHENTICATED') return error
      const failures = countOf(networkOf(address))
      if (failures <= limits.keyFailuresPerMinuteMax) return error
      if (failures === limits.keyFailuresPerMinuteMax + 1) note(address)
      return waiting < limits.keyFailuresWaitingMax ? late() : tooMany()
    },
  }
}

const tooMany = (): AppError =>
  new AppError(
    'ERR_RATE_LIMITED',
    'Too many keys were refused from your address. Wait a minute, then send a valid one.',
    {
      retry_after_ms: MINUTE_MS,
    },
  )
