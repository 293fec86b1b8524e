import type { ServerResponse } from 'node:http'
import type { ToolCaller } from '../tools/runtime/tool-host.ts'
import type { HttpSessions } from './http-sessions.ts'
import { jsonRpcCodes, type RequestId } from './json-rpc.ts'
import type { Wire } from './wire.ts'

const TOO_MANY_SESSIONS = 'Too many sessions. Try again later, or end one with DELETE.'

/** Answers the `initialize` of a client with a new session. The session outlives the process. */
export async function openSession(
  { sessions, wire }: Readonly<{ sessions: HttpSessions; wire: Wire }>,
  request: Request,
  res: ServerResponse,
  caller: ToolCaller,
  id: RequestId | null,
  body: unknown,
): Promise<Response> {
  const session = await sessions.open(caller)
  if (session === undefined) {
    return new Response(wire.errorResponse(id, jsonRpcCodes.serverError, TOO_MANY_SESSIONS), {
      status: 503,
      headers: { 'content-type': 'application/json', 'retry-after': '5' },
    })
  }
  sessions.hold(session, res)
  const response = await session.transport.handleRequest(request, { parsedBody: body })
  if (!response.ok) sessions.end(session)
  else await sessions.remember(session, (body as { params: unknown }).params)
  return response
}
