import type { ServerResponse } from 'node:http'
import { clientCapabilitiesOf } from '../contract/calling-client.ts'
import type { RequestHead } from '../http/exchange/request-head.ts'
import type { InFlightCall } from '../tools/runtime/in-flight-calls.ts'
import type { ResolvedCaller } from './http-caller.ts'
import type { HttpSession, HttpSessions } from './http-sessions.ts'
import type { RequestId } from './json-rpc.ts'
import { inSession } from './session-identity.ts'

/** Whether the client answers questions of servers, or requests their logs. */
export const isInterested = ({ server, connection }: HttpSession): boolean =>
  connection.logLevel !== undefined || clientCapabilitiesOf(server.getClientCapabilities()) !== undefined

/** Starts a call that the client can cancel until it has settled. */
export function startUnderWay(
  { callsUnderWay }: HttpSession,
  id: RequestId,
  start: (onSettled: () => void) => InFlightCall | undefined,
): void {
  let underWay: Readonly<{ id: RequestId; call: InFlightCall }> | undefined
  const call = start(() => {
    if (underWay !== undefined) callsUnderWay.delete(underWay)
  })
  if (call === undefined) return
  underWay = { id, call }
  callsUnderWay.add(underWay)
}

export const callUnderWay = ({ callsUnderWay }: HttpSession, requestId: RequestId): InFlightCall | undefined =>
  [...callsUnderWay].find(({ id }) => id === requestId)?.call

/** The answer to a disconnected client cannot be fetched later. */
export function cancelWhenClosed({ transport }: HttpSession, res: ServerResponse, requestId: RequestId): void {
  res.once('close', () => {
    if (res.writableFinished) return
    const params = { requestId, reason: 'The client disconnected' }
    transport.onmessage?.({ jsonrpc: '2.0', method: 'notifications/cancelled', params })
  })
}

/** The identity of a session never changes, but its rights can. */
export function useCaller(session: HttpSession, { principal }: ResolvedCaller): void {
  if (session.latest === principal) return
  session.latest = principal
  session.caller = { ...session.caller, principal: inSession(principal, session.id) }
}

export function headerOf(req: RequestHead, name: string): string | undefined {
  const value = req.headers[name]
  return typeof value === 'string' ? value : undefined
}

export const NO_SESSION = 'Session not found; initialize again'

/** Goes on with a request in a session, unless another process has ended the session. */
export function unlessEnded(
  sessions: Pick<HttpSessions, 'isEndedElsewhere'>,
  session: HttpSession,
  refuse: (status: 404 | 503, reason: string) => void,
  work: () => void,
): void {
  sessions.isEndedElsewhere(session).then(
    (isEnded) => (isEnded ? refuse(404, NO_SESSION) : work()),
    () => refuse(503, 'The store could not be read. Send the request again.'),
  )
}
