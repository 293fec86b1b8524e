import { isIPv4 } from 'node:net'
import { createMutex } from '../../kernel/keyed-mutex.ts'
import type { Logger } from '../../kernel/logger.ts'
import { ownAddresses } from '../../kernel/own-addresses.ts'

/** Watches the host's addresses. No workspace may reach the host itself, by an address that it has now or gets later. */
type HostAddressWatch = Readonly<{
  /** The current addresses, which the caller passes to the supervisor. Later changes are sent from here. */
  current(): readonly string[]
  /** Sends changes since the last call, if there are any. */
  catchUp(): Promise<void>
  close(): void
}>

/** Netlink would need a helper program; reading the list takes less than a millisecond. */
const POLL_MS = 2_000

export function watchHostAddresses(deps: {
  send(addresses: readonly string[]): Promise<unknown>
  /** Whether a supervisor runs. One that starts later gets the addresses of that moment. */
  isNeeded(): boolean
  logger: Logger
}): HostAddressWatch {
  let sent = ''
  const withLock = createMutex()
  /** Serialised, so that the last list sent is the last list read. */
  const catchUp = (): Promise<void> =>
    withLock(async () => {
      const addresses = ownIpv4()
      if (addresses.join(' ') === sent) return
      await deps.send(addresses)
      sent = addresses.join(' ')
    })
  const timer = setInterval(() => {
    if (!deps.isNeeded()) return
    catchUp().catch((error: unknown) => {
      deps.logger.warn('the supervisor did not take the addresses of this machine', { error: String(error) })
    })
  }, POLL_MS)
  timer.unref()
  return {
    current() {
      const addresses = ownIpv4()
      sent = addresses.join(' ')
      return addresses
    },
    catchUp,
    close: () => clearInterval(timer),
  }
}

const ownIpv4 = (): string[] =>
  ownAddresses()
    .filter((address) => isIPv4(address))
    .sort()
