import type { ServerResponse } from 'node:http'
import type { Progress } from '../contract/call.ts'
import type { Reply } from '../http/exchange/reply.ts'
import type { Counted, InFlightCall } from '../tools/runtime/in-flight-calls.ts'
import type { ToolCaller } from '../tools/runtime/tool-host.ts'
import { callOutcome } from './call-outcome.ts'
import type { PlainToolCall } from './call-request.ts'
import type { StartCall } from './start-call.ts'
import { writeBounded } from './web-bridge.ts'
import type { Era, Wire } from './wire.ts'

/**
 * A plain tool call over HTTP: one JSON body as the answer, or an event stream from the first progress message on. The stream
 * carries the progress messages and then the same answer.
 */
export type HttpCall = Readonly<{
  call: PlainToolCall
  caller: ToolCaller
  /** The session's counter; without one the call is counted on the caller. */
  calls: Counted | undefined
  era: Era
  sessionId: string | undefined
  /** The revision of the session; none in the stateless revision. */
  revision: string | undefined
  acceptsEvents: boolean
}>

const KEEP_ALIVE_MS = 15_000

export function serveHttpCall(
  deps: Readonly<{ startCall: StartCall; wire: Wire }>,
  reply: Reply,
  /** For an event stream; without it there is no progress. */
  res: ServerResponse | undefined,
  { call, caller, calls, era, sessionId, revision, acceptsEvents }: HttpCall,
  onSettled?: () => void,
): InFlightCall | undefined {
  const { startCall, wire } = deps
  const { id, name, args, progressToken } = call
  let keepAlive: NodeJS.Timeout | undefined

  function progressOn(stream: ServerResponse): (update: Progress) => void {
    return (update) => {
      if (stream.destroyed) return
      if (keepAlive === undefined) {
        stream.writeHead(200, eventStreamHeaders(sessionId))
        keepAlive = setInterval(() => stream.write(': keepalive\n\n'), KEEP_ALIVE_MS)
        keepAlive.unref()
      }
      writeBounded(stream, eventOf(wire.progress(progressToken!, update)))
    }
  }

  const progress = progressToken !== undefined && acceptsEvents && res !== undefined ? progressOn(res) : undefined
  const pending = startCall(calls, caller, name, args, progress, (answer) => {
    onSettled?.()
    clearInterval(keepAlive)
    if (reply.isDisconnected()) return
    const text = wire.callResponse(id, callOutcome(caller, answer, revision), era)
    if (keepAlive === undefined) reply.send(text, sessionHeaders(sessionId))
    else res?.end(eventOf(text))
  })
  // In the stateless revision the end of the response stream is the cancellation. In older ones a disconnect need not be one, but
  // several clients cancel in no other way, and this answer cannot be fetched later: it is sent here or nowhere.
  reply.onDisconnected(() => pending?.cancel(new Error('The client disconnected')))
  return pending
}

const sessionHeaders = (sessionId: string | undefined): Record<string, string> | undefined =>
  sessionId === undefined ? undefined : { 'mcp-session-id': sessionId }

function eventStreamHeaders(sessionId: string | undefined): Record<string, string> {
  return {
    'content-type': 'text/event-stream',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
    ...sessionHeaders(sessionId),
  }
}

const eventOf = (text: string): string => `event: message\ndata: ${text}\n\n`
