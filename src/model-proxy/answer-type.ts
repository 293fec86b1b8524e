import type { IncomingHttpHeaders } from 'node:http'

const typeOf = (headers: IncomingHttpHeaders): string => String(headers['content-type']).trimStart().toLowerCase()
export const isEventStream = (headers: IncomingHttpHeaders): boolean => typeOf(headers).startsWith('text/event-stream')
export const isJson = (headers: IncomingHttpHeaders): boolean => typeOf(headers).startsWith('application/json')

/** The answer was requested unencoded. */
export const isEncoded = (headers: IncomingHttpHeaders): boolean =>
  (headers['content-encoding'] ?? 'identity').toLowerCase() !== 'identity'
