import { limits } from '../contract/limits.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Tokens } from './ports.ts'
import type { AnswerFormat } from './protocols/protocol.ts'
import { readAnswer } from './read-answer.ts'
import { RetainedAnswer } from './retained-answer.ts'
import type { Spending } from './spending.ts'
import { StreamTap } from './stream-tap.ts'
import { billOf } from './token-estimate.ts'

/** What is known now of one request's traffic. */
export type Measured = Readonly<{
  /** Undefined if nothing was sent, or the provider refused. */
  tokens: Tokens | undefined
  isEstimated: boolean
  usedModel: string | null
  httpStatus: number
  firstByteMs: number | null
  requestBody: Buffer | undefined
  answerBytes: number
  answerBody: Buffer | undefined
}>

type MeasuredFetch = Readonly<{
  fetch: typeof globalThis.fetch
  /** Whether a part of an answer has arrived. */
  hasStarted(): boolean
  /**
   * By the same rule as for requests through the proxy. `broken`: the provider, or the network, ended it. `left`: we did.
   */
  measured(ending: 'complete' | 'broken' | 'left', spending: Spending): Measured
}>

/** A `fetch` for one request to a model: the answer passes unchanged, and its tokens are read. */
export function createMeasuredFetch(
  format: AnswerFormat,
  { clock, keepsBodies, isStream }: Readonly<{ clock: Clock; keepsBodies: boolean; isStream: boolean }>,
): MeasuredFetch {
  const startedMs = clock.monotonicMs()
  const retained = keepsBodies ? new RetainedAnswer() : undefined
  let requestBody: Buffer | undefined
  let tap: StreamTap | undefined
  let whole: Buffer[] | undefined
  let httpStatus = 0
  let wasSent = false
  let sentAtMs = startedMs
  let answerBytes = 0
  let firstByteMs: number | null = null

  function take(chunk: Uint8Array): void {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    firstByteMs ??= clock.monotonicMs() - startedMs
    answerBytes += bytes.length
    retained?.take(bytes)
    tap?.take(bytes)
    if (answerBytes <= limits.modelAnswerBytesMax) whole?.push(Buffer.from(bytes))
  }

  return {
    async fetch(input, init) {
      if (typeof init?.body === 'string') requestBody = Buffer.from(init.body)
      wasSent = true
      sentAtMs = clock.monotonicMs()
      // What a provider answers leads nowhere else: headers with keys, other than the standard one, would go along.
      const response = await globalThis.fetch(input, { ...init, redirect: 'manual' }).catch((error: unknown) => {
        wasSent = !isUnsent(error)
        throw error
      })
      httpStatus = response.status
      const { body, headers, status, statusText } = response
      if (!response.ok || body === null) return response
      if (headers.get('content-type')?.startsWith('text/event-stream')) tap = new StreamTap(format, false)
      else whole = []
      const passed = body.pipeThrough(
        new TransformStream<Uint8Array, Uint8Array>({
          transform(chunk, controller) {
            take(chunk)
            controller.enqueue(chunk)
          },
        }),
      )
      return new Response(passed, { headers, status, statusText })
    },
    hasStarted: () => answerBytes > 0,
    measured(ending, bounds) {
      tap?.finish()
      const read = tap === undefined ? readAnswer(Buffer.concat(whole ?? []), format) : undefined
      const { tokens: said, model } = tap ?? read ?? {}
      const textBytes = read?.textBytes ?? (() => answerBytes)
      const isStreamed = tap !== undefined || (whole === undefined && isStream)
      const sentForMs = clock.monotonicMs() - sentAtMs
      const counted = { wasSent, httpStatus, ending, isStreamed, sentForMs, said, tap, textBytes, bounds }
      return {
        ...billOf(counted),
        usedModel: model ?? null,
        httpStatus,
        firstByteMs,
        requestBody,
        answerBytes,
        answerBody: retained?.bytes,
      }
    },
  }
}

const NOT_VERIFIED = /CERT|^UNABLE_TO_VERIFY/

/** Whether no connection was made, or not with the right server. Of any other error, nobody knows what the provider got before it. */
function isUnsent(error: unknown): boolean {
  const { cause } = error instanceof Error ? error : {}
  const causes: readonly unknown[] = cause instanceof AggregateError ? cause.errors : [cause]
  return causes.every((one) => {
    const { syscall, code = '' } = (one ?? {}) as { syscall?: string; code?: string }
    if (syscall === 'connect' || syscall === 'getaddrinfo') return true
    return code === 'UND_ERR_CONNECT_TIMEOUT' || NOT_VERIFIED.test(code)
  })
}
