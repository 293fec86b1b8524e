import type { IncomingMessage } from 'node:http'
import { AppError } from '../contract/app-error.ts'
import type { Principal } from '../contract/principal.ts'
import type { Clock } from '../kernel/clock.ts'
import { isLoopbackAddress } from './peer-address.ts'
import type { PeopleGate } from './people-gate.ts'
import type { RequestClients } from './request-client.ts'

/**
 * The user of a request's session, by our own rules. better-auth knows a session by its cookie alone, so requests that it serves
 * with a session are checked here first.
 */
export async function signedInBy(
  deps: Readonly<{ clients: RequestClients; clock: Clock }>,
  { principals }: Pick<PeopleGate, 'principals'>,
  req: IncomingMessage,
): Promise<Principal | undefined> {
  const address = deps.clients.addressOf(req)
  const presented = { address, isLoopback: isLoopbackAddress(address), resource: '' }
  try {
    return await principals.ofCookie(req.headers.cookie ?? '', presented, deps.clock.nowMs())
  } catch (error) {
    if (error instanceof AppError && error.code === 'ERR_UNAUTHENTICATED') return undefined
    throw error
  }
}
