import { isIPv4 } from 'node:net'
import type { Logger } from '../../kernel/logger.ts'
import { ownAddresses } from '../../kernel/own-addresses.ts'

/** Nobody in a workspace may reach the host itself, by whatever address it has, or comes to have. */
type HostAddressWatch = Readonly<{
  /** The addresses of now, which the caller tells the supervisor; later ones are told from here. */
  current(): readonly string[]
  /** Tells of what has changed since, if anything has. */
  catchUp(): Promise<void>
  close(): void
}>

/** The system tells nobody without privilege or a program beside us; asking it takes less than a millisecond. */
const POLL_MS = 2_000

export function watchHostAddresses(deps: {
  tell(addresses: readonly string[]): Promise<unknown>
  /** Whether there is a supervisor to be told; one that comes later is told what is then. */
  isNeeded(): boolean
  logger: Logger
}): HostAddressWatch {
  let told = ''
  let telling: Promise<void> = Promise.resolve()
  /** One after the other, so that what is told last is what was seen last. */
  function catchUp(): Promise<void> {
    const turn = telling.then(tellChange)
    telling = turn.catch(() => {})
    return turn
  }
  async function tellChange(): Promise<void> {
    const addresses = ownIpv4()
    if (addresses.join(' ') === told) return
    await deps.tell(addresses)
    told = addresses.join(' ')
  }
  const timer = setInterval(() => {
    if (!deps.isNeeded()) return
    catchUp().catch((error: unknown) => {
      deps.logger.warn('the workspaces were not told of the addresses of this machine', { error: String(error) })
    })
  }, POLL_MS)
  timer.unref()
  return {
    current() {
      const addresses = ownIpv4()
      told = addresses.join(' ')
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
