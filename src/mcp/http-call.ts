import type { ServerResponse } from 'node:http'
import type { Progress } from '../contract/call.ts'
import { sendJson } from '../http/exchange/send-text.ts'
import type { Counted, InFlightCall } from '../tools/runtime/in-flight-calls.ts'
import type { ToolCaller } from '../tools/runtime/tool-host.ts'
import { callOutcome } from './call-outcome.ts'
import type { PlainToolCall } from './call-request.ts'
import type { StartCall } from './start-call.ts'
import type { Era, Wire } from './wire.ts'

/**
 * A plain tool call over HTTP: one JSON body as the answer, or an event stream from the first progress message on.
 * The stream carries the progress messages and then the same answer.
 */
type HttpCall = Readonly<{
  call: PlainToolCall
  caller: ToolCaller
  /** Of a session; without one the call is counted on the caller. */
  calls: Counted | undefined
  era: Era
  sessionId: string | undefined
  /** What the session agreed on; none in the stateless revision. */
  revision: string | undefined
  acceptsEvents: boolean
}>

const KEEP_ALIVE_MS = 15_000

export function serveHttpCall(
  deps: Readonly<{ startCall: StartCall; wire: Wire }>,
  res: ServerResponse,
  { call, caller, calls, era, sessionId, revision, acceptsEvents }: HttpCall,
  onSettled?: () => void,
): InFlightCall | undefined {
  const { startCall, wire } = deps
  const { id, name, args, progressToken } = call
  let keepAlive: NodeJS.Timeout | undefined

  function progress(update: Progress): void {
    if (res.destroyed) return
    if (keepAlive === undefined) {
      res.writeHead(200, eventStreamHeaders(sessionId))
      keepAlive = setInterval(() => res.write(': keepalive\n\n'), KEEP_ALIVE_MS)
      keepAlive.unref()
    }
    res.write(eventOf(wire.progress(progressToken!, update)))
  }

  const sendsProgress = progressToken !== undefined && acceptsEvents
  const pending = startCall(calls, caller, name, args, sendsProgress ? progress : undefined, (answer) => {
    onSettled?.()
    clearInterval(keepAlive)
    if (res.destroyed) return
    const text = wire.callResponse(id, callOutcome(caller, answer, revision), era)
    if (keepAlive === undefined) sendJson(res, 200, text, sessionHeaders(sessionId))
    else res.end(eventOf(text))
  })
  // In the stateless revision the end of the response stream is the cancellation. Before it a disconnect need not be one,
  // but several clients cancel by nothing else, and nobody can fetch this answer any more: it is sent here or nowhere.
  res.on('close', () => {
    if (!res.writableFinished) pending?.cancel(new Error('The client disconnected'))
  })
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
