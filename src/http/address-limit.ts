import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import { networkOf } from '../kernel/address-network.ts'
import type { Clock } from '../kernel/clock.ts'

/** Rate-limits unauthenticated requests by address. Throws ERR_RATE_LIMITED. */
type AddressLimit = (address: string) => void

/**
 * Each address has a rate. In IPv6 a subscriber has a whole network of 64 bits, so that counts as one address. If too many
 * addresses are counted, new ones wait; known ones do not.
 */
export function createAddressLimit(clock: Clock): AddressLimit {
  let windowMs = 0
  const counts = new Map<string, number>()
  return (address) => {
    const nowMs = clock.monotonicMs()
    if (nowMs - windowMs >= 60_000) {
      windowMs = nowMs
      counts.clear()
    }
    const key = networkOf(address)
    const count = counts.get(key)
    const isFull = count === undefined && counts.size >= limits.oauthAddressesMax
    if (isFull || (count ?? 0) >= limits.oauthRequestsPerMinuteMax) {
      throw new AppError(
        'ERR_RATE_LIMITED',
        'Too many token requests came from your address. Wait a minute, then try again.',
        { retry_after_ms: 60_000 },
      )
    }
    counts.set(key, (count ?? 0) + 1)
  }
}
