import type { ServerResponse } from 'node:http'
import { abilitiesOf } from '../contract/calling-client.ts'
import type { ResolvedCaller } from './http-caller.ts'
import type { HttpSession } from './http-sessions.ts'
import { inSession } from './session-identity.ts'
import type { RequestId } from './wire.ts'

/** Whether its client answers what servers ask, or wants to hear what they log. */
export const isInterested = ({ server, connection }: HttpSession): boolean =>
  connection.logLevel !== undefined || abilitiesOf(server.getClientCapabilities()) !== undefined

/** Nobody can fetch the answer of a request whose client is gone. */
export function cancelWhenClosed({ transport }: HttpSession, res: ServerResponse, requestId: RequestId): void {
  res.once('close', () => {
    if (res.writableFinished) return
    const params = { requestId, reason: 'The client disconnected' }
    transport.onmessage?.({ jsonrpc: '2.0', method: 'notifications/cancelled', params })
  })
}

/** The identity of a session never changes, what it may do can. */
export function useCaller(session: HttpSession, { principal }: ResolvedCaller): void {
  if (session.latest === principal) return
  session.latest = principal
  session.caller = { ...session.caller, principal: inSession(principal, session.id) }
}
