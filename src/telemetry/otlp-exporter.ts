import { limits } from '../contract/limits.ts'
import type { InteractionExporter, StoredInteraction } from '../domains/interactions/ports.ts'
import { counted } from '../kernel/counted.ts'
import type { Logger } from '../kernel/logger.ts'
import { withTimeout } from '../kernel/with-timeout.ts'
import { spanOf } from './gen-ai-span.ts'

export type OtlpSettings = Readonly<{
  /** The base, such as `http://127.0.0.1:4318`; `/v1/traces` is added. */
  endpoint: string
  headers(): Readonly<Record<string, string>>
  /** Of this program. */
  version: string
  logger: Logger
  /** The largest number of pending spans. */
  pendingMax?: number
  /** The time limit for the rest at the end. */
  closeMs?: number
}>

type Attempt = Readonly<
  { isTaken: true; rejected: number } | { isTaken: false; reason: string; isFinal: boolean; retryAfterMs?: number }
>

/**
 * Sends requests to models as spans to a collector, by OTLP over HTTP with JSON. Nobody waits for it. Spans are sent in batches.
 * If the collector is unavailable, they are retried with growing pauses; dropped or refused spans are counted and reported in the
 * operator's log.
 */
export function createOtlpExporter(settings: OtlpSettings): InteractionExporter {
  const { logger, pendingMax = limits.otlpPendingMax, closeMs = limits.otlpCloseMs } = settings
  const address = `${settings.endpoint.replace(/\/+$/, '')}/v1/traces`
  const pending: StoredInteraction[] = []
  const lost = new Map<string, number>()
  let lostCount = 0
  let failure: string | undefined
  let timer: NodeJS.Timeout | undefined
  let sending: Promise<void> | undefined
  const ended = new AbortController()
  let isClosing = false
  let wake: (() => void) | undefined

  function lose(count: number, reason: string): void {
    if (count === 0) return
    lostCount += count
    failure = reason
    lost.set(reason, (lost.get(reason) ?? 0) + count)
  }
  function tellLost(): void {
    for (const [reason, count] of lost) {
      logger.warn('spans of model requests could not be exported', { count, reason, count_since_start: lostCount })
    }
    lost.clear()
  }

  function schedule(): void {
    if (sending !== undefined || pending.length === 0 || ended.signal.aborted) return
    if (pending.length >= limits.otlpBatchMax || isClosing) start()
    else timer ??= setTimeout(start, limits.otlpDelayMs).unref()
  }
  function start(): void {
    clearTimeout(timer)
    timer = undefined
    sending ??= deliver(pending.splice(0, limits.otlpBatchMax)).finally(() => {
      sending = undefined
      tellLost()
      schedule()
    })
  }

  async function deliver(batch: readonly StoredInteraction[]): Promise<void> {
    const body = JSON.stringify(requestOf(batch, settings.version))
    for (let tries = 1; ; tries++) {
      const attempt = await send(body)
      if (attempt.isTaken) {
        failure = undefined
        return lose(attempt.rejected, 'the collector rejected them')
      }
      failure = attempt.reason
      if (attempt.isFinal || isClosing || tries >= limits.otlpTriesMax) return lose(batch.length, attempt.reason)
      await pause(attempt.retryAfterMs ?? limits.otlpRetryMs * 2 ** (tries - 1))
    }
  }

  async function send(body: string): Promise<Attempt> {
    try {
      const response = await fetch(address, {
        method: 'POST',
        redirect: 'manual',
        headers: { ...settings.headers(), 'content-type': 'application/json' },
        body,
        signal: withTimeout(ended.signal, limits.otlpTimeoutMs),
      })
      const text = await beginningOf(response)
      if (response.ok) return { isTaken: true, rejected: rejectedIn(text) }
      const { status } = response
      const after = Number(response.headers.get('retry-after') ?? Number.NaN)
      const retryAfterMs = Math.min(after * 1_000, limits.otlpRetryMaxMs)
      return {
        ...{ isTaken: false, reason: `the collector answered ${status}`, isFinal: status !== 429 && status < 500 },
        ...(retryAfterMs >= 0 && { retryAfterMs }),
      }
    } catch (error) {
      // The message could repeat an address with credentials.
      const { name, cause } = error as Error & { cause?: { code?: string } }
      const reason = `the collector cannot be reached: ${cause?.code ?? name}`
      return { isTaken: false, reason, isFinal: false }
    }
  }

  /** Ends early when the program does. */
  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const pausing = setTimeout(resolve, ms).unref()
      wake = () => {
        clearTimeout(pausing)
        resolve()
      }
    })

  return {
    add(interaction) {
      if (isClosing) return lose(1, 'the program ended')
      if (pending.length >= pendingMax) return lose(1, 'too many waited for the collector')
      pending.push(interaction)
      schedule()
    },
    problem: () =>
      failure &&
      `interactions.otlp: requests to models are not exported: ${failure}. ${counted(lostCount, 'span was', 'spans were')} lost since the start. Check the endpoint and the collector.`,
    async close() {
      isClosing = true
      wake?.()
      const deadline = setTimeout(() => ended.abort(), closeMs)
      schedule()
      while (sending !== undefined) await sending
      clearTimeout(deadline)
      lose(pending.splice(0).length, 'the program ended')
      tellLost()
    },
  }
}

const requestOf = (batch: readonly StoredInteraction[], version: string) => ({
  resourceSpans: [
    {
      resource: {
        attributes: [
          { key: 'service.name', value: { stringValue: 'castellan' } },
          { key: 'service.version', value: { stringValue: version } },
        ],
      },
      scopeSpans: [{ scope: { name: 'castellan', version }, spans: batch.map(spanOf) }],
    },
  ],
})

async function beginningOf(response: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.length
    if (size > limits.otlpAnswerBytesMax) break
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** A collector that accepts only some reports how many it rejected. */
function rejectedIn(text: string): number {
  try {
    const { partialSuccess } = JSON.parse(text) as { partialSuccess?: { rejectedSpans?: unknown } }
    const rejected = Number(partialSuccess?.rejectedSpans ?? 0)
    return Number.isSafeInteger(rejected) && rejected > 0 ? rejected : 0
  } catch {
    return 0
  }
}
