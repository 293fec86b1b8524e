import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'

/**
 * Server-sent events. Each has its number as its id, so that a client that comes back misses nothing. The source is read only as
 * fast as the reader reads; a reader that reads nothing for long is disconnected.
 */
export type StreamedEvent = Readonly<{ id: number | string; data: unknown }>

/** From the header that browsers send, or from the address. */
export function lastEventId(req: IncomingMessage, query: URLSearchParams): string | undefined {
  const input = query.get('last_event_id')
  const header = req.headers['last-event-id']
  return typeof header === 'string' ? header : (input ?? undefined)
}

/** The client's last event number; 0 for a new client. */
export function sequenceOf(written = '0'): number {
  if (!/^(0|[1-9][0-9]{0,14})$/.test(written)) throw notOfThisStream('the number of an event')
  return Number(written)
}

export const notOfThisStream = (what: string): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    `Last-Event-ID: must be ${what} of this stream; leave it out to start from the beginning.`,
    {
      field: 'last_event_id',
    },
  )

type StreamOptions = Readonly<{
  signal: AbortSignal
  /** Called before each event, and periodically while the stream is open; a throw ends it. */
  isStillWelcome(): Promise<void>
}>

export const streamHeaders = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-store',
  'x-accel-buffering': 'no',
  'x-content-type-options': 'nosniff',
} as const

export async function streamEvents(
  res: ServerResponse,
  events: AsyncIterable<StreamedEvent>,
  { signal, isStillWelcome }: StreamOptions,
): Promise<void> {
  res.writeHead(200, streamHeaders)
  res.flushHeaders()
  const over = new AbortController()
  const ended = AbortSignal.any([signal, over.signal])
  const beat = setInterval(() => {
    isStillWelcome().then(
      () => {
        if (!res.writableNeedDrain) res.write(': keep-alive\n\n')
      },
      () => over.abort(),
    )
  }, limits.eventStreamKeepAliveMs)
  const stop = (): void => void res.end()
  ended.addEventListener('abort', stop, { once: true })
  try {
    for await (const { id, data } of events) {
      if (ended.aborted || !(await isStillWelcome().then(yes, no))) return
      if (!res.write(`id: ${id}\ndata: ${JSON.stringify(data)}\n\n`)) await drained(res, ended)
    }
  } finally {
    clearInterval(beat)
    ended.removeEventListener('abort', stop)
    res.end()
  }
}

const yes = (): boolean => true
const no = (): boolean => false

async function drained(res: ServerResponse, signal: AbortSignal): Promise<void> {
  const patience = AbortSignal.timeout(limits.eventStreamStallMs)
  try {
    await once(res, 'drain', { signal: AbortSignal.any([signal, patience]) })
  } catch {
    if (patience.aborted) res.destroy()
  }
}
