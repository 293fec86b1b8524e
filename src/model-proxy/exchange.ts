import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Dispatcher } from 'undici'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import type { Clock } from '../kernel/clock.ts'
import { callerLabels, traceParentOf } from './caller-labels.ts'
import type { Route } from './find-route.ts'
import { whenKnown } from './judging/events.ts'
import type { AnswerJudge, JudgedRequest } from './judging/ports.ts'
import { headersToClient } from './passed-headers.ts'
import type { Caller, FinishedRequest, ProxyFacts, Tokens } from './ports.ts'
import type { AnswerFormat, Endpoint, PartialTokens } from './protocols/protocol.ts'
import type { PreparedRequest } from './request-body.ts'
import { RetainedAnswer } from './retained-answer.ts'
import type { AnswerTranslator } from './router/answer-translator.ts'
import type { Spending } from './spending.ts'
import { StreamTap } from './stream-tap.ts'
import { estimatedTokens, NO_TOKENS } from './token-estimate.ts'

export type ExchangeParts = Readonly<{
  clock: Clock
  finished(request: FinishedRequest): void
  keepsBodies: boolean
  /** Answers in the provider's own form. */
  refuse(req: IncomingMessage, res: ServerResponse, route: Route, error: unknown): void
}>

export type ExchangeInput = Readonly<{
  req: IncomingMessage
  res: ServerResponse
  route: Route & Readonly<{ endpoint: Endpoint }>
  caller: Caller
  proxy: ProxyFacts | undefined
  request: PreparedRequest
  /** Where the answer is to be in another format than that of the upstream. */
  translator?: AnswerTranslator | undefined
  /** What rules said of the request, and what judges its answer. Absent where there is nothing to judge. */
  judged?: JudgedRequest | undefined
  /** The model is another than the one that was asked for. */
  replaced?: Readonly<{ asked: string | null; rule: string }> | undefined
  /** Called where the provider fails before it answers, and another model is to be asked. */
  fallBack?: (() => void) | undefined
  /** Known before the request is sent. */
  spending?: Spending | undefined
  startedAtMs: number
  startedMs: number
}>

/**
 * One request under way to an upstream, and its answer on the way back.
 * 1. The status and headers of the upstream are those of the answer. Nothing is sent before they are there.
 * 2. A refusal of the upstream passes unchanged.
 * 3. Calls of tools in an answer wait until they are judged. Everything else passes at once.
 * 4. A client that leaves ends the request upstream. What the provider may bill for it is accounted for.
 */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly #parts: ExchangeParts
  readonly #input: ExchangeInput
  readonly #format: AnswerFormat | undefined
  #controller: Dispatcher.DispatchController | undefined
  #status = 0
  #headers: IncomingHttpHeaders | undefined
  #tap: StreamTap | undefined
  #whole: Buffer[] | undefined
  readonly #retained: RetainedAnswer | undefined
  #judge: AnswerJudge | undefined
  /** While something is being judged, what comes after it waits. */
  #judging: Promise<void> | undefined
  #responseId: string | undefined
  #answerBytes = 0
  #firstByteMs: number | null = null
  #hasLeft = false
  /** The upstream ended its answer before it was complete. */
  #isBroken = false
  #isOver = false

  constructor(parts: ExchangeParts, input: ExchangeInput) {
    this.#parts = parts
    this.#input = input
    this.#format = input.route.upstream.protocol.formatOf(input.route.endpoint.operation)
    this.#retained = parts.keepsBodies ? new RetainedAnswer() : undefined
    input.res.on('close', this.#onClosed)
  }

  /** Ends it from outside: the key is gone, or the server closes. */
  end(reason: Error): void {
    if (this.#isOver) return
    this.#hasLeft = true
    this.#over('cut_off')
    this.#controller?.abort(reason)
    this.#parts.refuse(this.#input.req, this.#input.res, this.#input.route, reason)
  }

  readonly #onClosed = (): void => {
    if (this.#isOver) return
    this.#hasLeft = true
    // The upstream tells at once that it was ended, which is then no news.
    this.#over('cut_off')
    this.#controller?.abort(clientClosed)
  }

  readonly #onDrain = (): void => this.#controller?.resume()

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#hasLeft) controller.abort(clientClosed)
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    if (status < 200 || this.#isOver) return
    this.#status = status
    if (this.#input.fallBack !== undefined && fallsBack.has(status)) {
      this.#over('failed')
      controller.abort(answeredElsewhere)
      this.#input.fallBack()
      return
    }
    this.#headers = headers
    const isTranslated = this.#input.translator !== undefined
    if (status < 300) this.#judge = this.#input.judged?.answer
    if (this.#judge !== undefined && isEncoded(headers)) {
      this.#fail(controller, notReadable(this.#input.route.upstream.name))
      return
    }
    if ((status < 300 && this.#format !== undefined) || isTranslated) {
      if (this.#format !== undefined && isEventStream(headers))
        this.#tap = new StreamTap(this.#format, this.#input.request.hidesUsage)
      else {
        this.#whole = []
        return
      }
    }
    this.#input.res.on('drain', this.#onDrain)
    this.#input.res.writeHead(status, this.#headersToClient(this.#tap === undefined))
    // The client sees at once that the answer has begun.
    if (this.#tap !== undefined) this.#input.res.flushHeaders()
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isOver) return
    this.#firstByteMs ??= this.#parts.clock.monotonicMs() - this.#input.startedMs
    this.#answerBytes += chunk.length
    this.#retained?.take(chunk)
    if (this.#whole !== undefined) {
      this.#whole.push(chunk)
      if (this.#answerBytes > limits.modelAnswerBytesMax) this.#tooLarge(controller)
      return
    }
    const tap = this.#tap
    if (tap !== undefined) this.#findId(chunk, STREAMED_ID)
    const passed = tap === undefined ? chunk : tap.take(chunk)
    if (passed !== undefined) this.#inTurn(controller, () => this.#forward(controller, passed))
    const heldBytes = tap === undefined ? 0 : tap.heldBytes + (this.#judge?.heldBytes ?? 0)
    if (heldBytes > limits.modelEventBytesMax) this.#tooLarge(controller)
  }

  onResponseEnd(controller: Dispatcher.DispatchController): void {
    if (this.#isOver) return
    if (this.#whole === undefined) {
      this.#inTurn(controller, () => this.#endStream(controller))
      return
    }
    const { res, translator } = this.#input
    const bytes = this.#whole.length === 1 ? this.#whole[0]! : Buffer.concat(this.#whole)
    this.#findId(bytes, WHOLE_ID)
    this.#inTurn(controller, () =>
      whenKnown(this.#judge === undefined ? bytes : this.#judge.whole(bytes), (judged) => {
        if (this.#isOver) return
        res.writeHead(this.#status, this.#headersToClient(translator === undefined && judged === bytes))
        this.#over(this.#status < 400 ? 'ok' : 'failed', bytes)
        endWith(res, translator === undefined ? judged : translator.whole(this.#status, judged))
      }),
    )
  }

  #endStream(controller: Dispatcher.DispatchController): void | Promise<void> {
    const rest = this.#tap?.finish()
    const forwarded = rest === undefined ? undefined : this.#forward(controller, rest)
    const finished = forwarded instanceof Promise ? forwarded.then(() => this.#judge?.finish()) : this.#judge?.finish()
    return whenKnown(finished, (last) => {
      if (this.#isOver) return
      const { res, translator } = this.#input
      if (last !== undefined) this.#write(controller, last)
      this.#over(this.#status < 400 ? 'ok' : 'failed')
      res.end(translator?.finish())
    })
  }

  /** What passes of what came, once it is judged. */
  #forward(controller: Dispatcher.DispatchController, bytes: Buffer): void | Promise<void> {
    return whenKnown(this.#judge === undefined ? bytes : this.#judge.take(bytes), (judged) => {
      if (judged !== undefined && !this.#isOver) this.#write(controller, judged)
    })
  }

  #write(controller: Dispatcher.DispatchController, bytes: Buffer): void {
    const { res, translator } = this.#input
    const displayed = translator === undefined ? bytes : translator.take(bytes)
    if (displayed !== undefined && !res.write(displayed)) controller.pause()
  }

  /** One after the other. The upstream pauses while something is waited for. */
  #inTurn(controller: Dispatcher.DispatchController, work: () => void | Promise<void>): void {
    const started = this.#judging === undefined ? work() : this.#judging.then(() => (this.#isOver ? undefined : work()))
    if (!(started instanceof Promise)) return
    controller.pause()
    const settled: Promise<void> = started
      .catch((error: unknown) => this.#fail(controller, error))
      .then(() => {
        if (this.#judging !== settled) return
        this.#judging = undefined
        if (!this.#input.res.writableNeedDrain) controller.resume()
      })
    this.#judging = settled
  }

  /** What cannot be judged does not pass. */
  #fail(controller: Dispatcher.DispatchController, error: unknown): void {
    if (this.#isOver) return
    const { req, res, route } = this.#input
    this.#over('cut_off')
    controller.abort(error instanceof Error ? error : new Error(String(error)))
    this.#parts.refuse(req, res, route, error)
  }

  #headersToClient(keepsLength: boolean): string[] {
    const returned = headersToClient(this.#headers!, keepsLength)
    const { judged, replaced, route, request } = this.#input
    if (replaced !== undefined) {
      returned.push(USED_MODEL, `${route.upstream.name}:${request.model}`, MODEL_RULE, replaced.rule)
    }
    const removed = judged?.removed ?? []
    return removed.length === 0 ? returned : [...returned, REMOVED_TOOLS, removed.join(', ')]
  }

  /** Of an answer that the provider stores. It stands at the beginning. */
  #findId(bytes: Buffer, pattern: RegExp): void {
    if (this.#responseId !== undefined || this.#input.judged?.answered === undefined) return
    if (this.#answerBytes - bytes.length > ID_WITHIN_BYTES) return
    this.#responseId = pattern.exec(bytes.toString('latin1', 0, ID_WITHIN_BYTES))?.[1]
  }

  onResponseError(_: Dispatcher.DispatchController | undefined, error: Error): void {
    if (this.#isOver) return
    const { req, res, route } = this.#input
    if (this.#status === 0 || this.#whole !== undefined) {
      this.#status = 0
      const failure = notAnswered(error, route.upstream.name)
      const { fallBack } = this.#input
      const isBefore = fallBack !== undefined && this.#whole === undefined
      this.#over('failed', undefined, failure.code)
      if (isBefore) fallBack()
      else this.#parts.refuse(req, res, route, failure)
      return
    }
    this.#isBroken = true
    this.#over('cut_off')
    // As the line of the upstream broke, so does ours: an end would say that the answer is complete.
    res.destroy()
  }

  #tooLarge(controller: Dispatcher.DispatchController): void {
    const { req, res, route } = this.#input
    const bytes_max = limits.modelAnswerBytesMax
    const error = new AppError('ERR_TOO_LARGE', `The answer of the provider has more than ${bytes_max} bytes.`, {
      bytes_max,
    })
    this.#over('cut_off')
    controller.abort(error)
    if (res.headersSent) res.destroy()
    else this.#parts.refuse(req, res, route, error)
  }

  #over(status: FinishedRequest['status'], answer?: Buffer, errorCode: string | null = null): void {
    this.#isOver = true
    if (this.#responseId !== undefined) this.#input.judged?.answered?.(this.#responseId)
    const { res, route, caller, proxy, request, req, startedAtMs, startedMs } = this.#input
    res.off('close', this.#onClosed)
    res.off('drain', this.#onDrain)
    const read = answer === undefined ? undefined : this.#read(answer)
    const said = read?.tokens ?? this.#tap?.tokens
    // What a stream says before its end is not all of it.
    const isUnsaid = said?.output === undefined || status === 'cut_off'
    const mayBeBilled = status !== 'failed' && this.#controller !== undefined && this.#status < 400
    const isEstimated = mayBeBilled && isUnsaid && this.#format !== undefined
    const tokens = isEstimated ? this.#estimate(said, status) : complete(said)
    const { replaced } = this.#input
    const usedModel = read?.model ?? this.#tap?.model ?? (replaced === undefined ? null : request.model)
    this.#parts.finished({
      tenant: caller.principal.tenant,
      caller,
      proxy,
      provider: route.upstream.name,
      protocol: route.upstream.protocol.name,
      operation: route.endpoint.operation,
      requestedModel: replaced === undefined ? request.model : replaced.asked,
      rule: replaced?.rule ?? null,
      usedModel,
      isStream: request.isStream,
      status,
      httpStatus: this.#status,
      errorCode,
      tokens,
      costMicrodollars: this.#input.spending?.settle(usedModel, tokens) ?? null,
      isEstimated,
      startedAtMs,
      durationMs: this.#parts.clock.monotonicMs() - startedMs,
      firstByteMs: this.#firstByteMs,
      labels: callerLabels(req.headers),
      traceParent: traceParentOf(req.headers),
      decisions: this.#input.judged?.decisions ?? [],
      requestBody: request.bytes,
      answerBytes: this.#answerBytes,
      answerBody: this.#retained?.bytes,
    })
  }

  #read(answer: Buffer): { tokens: PartialTokens | undefined; model: string | undefined } | undefined {
    try {
      const json: unknown = JSON.parse(answer.toString('utf8'))
      return { tokens: this.#format!.readUsage(json), model: this.#format!.readModel(json) }
    } catch {
      return undefined
    }
  }

  #estimate(said: PartialTokens | undefined, status: FinishedRequest['status']): Tokens {
    const { request, spending } = this.#input
    return estimatedTokens({
      ...{ said, tap: this.#tap, most: spending?.most, mayReason: spending?.mayReason ?? false },
      ...{ requestBytes: request.bytes?.length ?? 0, answerBytes: this.#answerBytes },
      hasLeft: status === 'cut_off' && !this.#isBroken,
    })
  }
}

const REMOVED_TOOLS = 'x-castellan-removed-tools'
const USED_MODEL = 'x-castellan-model'
const MODEL_RULE = 'x-castellan-model-rule'
/** What another model may be spared: the provider is too busy, or fails. */
const fallsBack: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504, 529])
const answeredElsewhere = new Error('another model is asked')
const WHOLE_ID = /^\s*\{\s*"id"\s*:\s*"([^"]{1,256})"/
const STREAMED_ID = /"response"\s*:\s*\{\s*"id"\s*:\s*"([^"]{1,256})"/
const ID_WITHIN_BYTES = 4_096
/** As a text, whose encoding keeps every byte, a short answer goes out in one write with its head. */
function endWith(res: ServerResponse, answer: Buffer | string): void {
  if (typeof answer === 'string' || answer.length > ONE_WRITE_BYTES_MAX) res.end(answer)
  else res.end(answer.toString('latin1'), 'latin1')
}
const ONE_WRITE_BYTES_MAX = 16 * 1024

const complete = (said: PartialTokens | undefined): Tokens | undefined =>
  said === undefined ? undefined : { ...NO_TOKENS, ...said }

/** It was asked for as it is. */
const isEncoded = (headers: IncomingHttpHeaders): boolean =>
  (headers['content-encoding'] ?? 'identity').toLowerCase() !== 'identity'

const notReadable = (provider: string): AppError =>
  new AppError(
    'ERR_MODEL_FAILED',
    `The provider '${provider}' encoded its answer, so its calls of tools cannot be judged.`,
    {
      provider,
    },
  )

const isEventStream = (headers: IncomingHttpHeaders): boolean =>
  String(headers['content-type']).startsWith('text/event-stream')

const clientClosed = new Error('the client went away')

/** Of undici: what took too long has one of these codes. */
const tookTooLong: ReadonlySet<string> = new Set([
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'UND_ERR_CONNECT_TIMEOUT',
])

function notAnswered(error: Error & { code?: string }, provider: string): AppError {
  if (error instanceof AppError) return error
  if (tookTooLong.has(error.code ?? '')) {
    return new AppError('ERR_TIMED_OUT', `The provider '${provider}' did not answer in time.`, { provider })
  }
  const message = `The provider '${provider}' cannot be reached, or broke its answer off. The operator can look at its endpoint in models.providers.`
  return new AppError('ERR_MODEL_FAILED', message, { provider }, { cause: error })
}
