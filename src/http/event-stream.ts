import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'

/**
 * Server-sent events. Each has its number as its id, so that a client that comes back says where it was and misses
 * nothing. What a slow reader has not taken is not read from the source either; one that takes nothing for long is let go.
 */
export type StreamedEvent = Readonly<{ id: number | string; data: unknown }>

/** From the header that browsers send by themselves, or from the address. */
export function lastEventId(req: IncomingMessage, query: URLSearchParams): string | undefined {
  const input = query.get('last_event_id')
  const header = req.headers['last-event-id']
  return typeof header === 'string' ? header : (input ?? undefined)
}

/** The number that a client named as its last; 0 for one that is new. */
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
  /** Asked before each event, and again and again while the stream is open; a throw ends it. */
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
