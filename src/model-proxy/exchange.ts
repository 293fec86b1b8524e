import type { IncomingHttpHeaders } from 'node:http'
import { AppError } from '../contract/app-error.ts'
import { limits } from '../contract/limits.ts'
import { isEncoded, isEventStream, isJson } from './answer-type.ts'
import { AnswerWriter, endWith } from './answer-writer.ts'
import type { ExchangeInput, ExchangeParts } from './exchange-input.ts'
import { headersToClient } from './forwarded-headers.ts'
import { headerList, headerText } from './header-text.ts'
import { whenKnown } from './judging/events.ts'
import type { AnswerJudge } from './judging/ports.ts'
import { KeyMask, withoutKey } from './key-mask.ts'
import type { FinishedRequest } from './ports.ts'
import type { AnswerFormat } from './protocols/protocol.ts'
import { isTimeout, notAnswered, notReadable, redirected } from './proxy-errors.ts'
import { type ReadAnswer, readAnswer } from './read-answer.ts'
import type { PreparedRequest } from './request-body.ts'
import { requestFacts } from './request-facts.ts'
import { RetainedAnswer } from './retained-answer.ts'
import { StreamTap } from './stream-tap.ts'
import { billOf, completeTokens, isRefusal, redirects } from './token-estimate.ts'
import type { UpstreamController, UpstreamHandler } from './upstream/ports.ts'

/**
 * One request under way to an upstream, and its answer on the way back.
 * 1. The status and headers of the upstream are those of the answer. Nothing is sent before they are there.
 * 2. A refusal of the upstream passes unchanged, without the key in it if that is not the caller's.
 * 3. Calls of tools in an answer wait until they are judged. Everything else passes at once.
 * 4. A client that leaves ends the request upstream. What the provider may bill for it is accounted for.
 * 5. So it is with whatever else fails once the request is sent: a time limit, a broken connection, a fault of ours. What was not sent,
 *    and what the provider refuses by its status, costs nothing.
 */
export class Exchange implements UpstreamHandler {
  readonly #parts: ExchangeParts
  readonly #input: ExchangeInput
  readonly #format: AnswerFormat | undefined
  #controller: UpstreamController | undefined
  #status = 0
  #headers: IncomingHttpHeaders | undefined
  #tap: StreamTap | undefined
  #whole: Buffer[] | undefined
  /** A refusal may repeat the key that it refuses, and a provider any key in any answer. */
  #hidesKey = false
  #mask: KeyMask | undefined
  readonly #retained: RetainedAnswer | undefined
  #judge: AnswerJudge | undefined
  /** While something is being judged, later parts wait. */
  #judging: Promise<void> | undefined
  #writer: AnswerWriter | undefined
  #responseId: string | undefined
  #answerBytes = 0
  #firstByteMs: number | null = null
  #sentAtMs = 0
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

  /** It is not sent at all, so there is nothing to record. Its caller is answered elsewhere. */
  drop(): void {
    this.#isOver = true
    this.#input.res.off('close', this.#onClosed)
  }

  /** Ends it from outside: the key was revoked, or the server closes. */
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
    // The upstream then reports that it was ended, which is expected.
    this.#over('cut_off')
    this.#controller?.abort(clientClosed)
  }

  onRequestStart(controller: UpstreamController): void {
    this.#controller = controller
    this.#sentAtMs = this.#parts.clock.monotonicMs()
    if (this.#hasLeft) controller.abort(clientClosed)
  }

  onResponseStart(controller: UpstreamController, status: number, headers: IncomingHttpHeaders): void {
    try {
      this.#start(controller, status, headers)
    } catch (error) {
      this.#failHere(controller, error)
    }
  }

  onResponseData(controller: UpstreamController, chunk: Buffer): void {
    try {
      this.#take(controller, chunk)
    } catch (error) {
      this.#failHere(controller, error)
    }
  }

  onResponseEnd(controller: UpstreamController): void {
    try {
      this.#end(controller)
    } catch (error) {
      this.#failHere(controller, error)
    }
  }

  #start(controller: UpstreamController, status: number, headers: IncomingHttpHeaders): void {
    if (status < 200 || this.#isOver) return
    this.#status = status
    if (this.#input.fallBack !== undefined && (fallsBack.has(status) || redirects.has(status))) {
      this.#over('failed')
      controller.abort(answeredElsewhere)
      this.#input.fallBack()
      return
    }
    if (redirects.has(status)) {
      const { req, res, route } = this.#input
      const error = redirected(route.upstream.name)
      this.#over('failed', undefined, error.code)
      controller.abort(error)
      this.#parts.refuse(req, res, route, error)
      return
    }
    this.#headers = headers
    const isTranslated = this.#input.translator !== undefined
    if (status < 300) this.#judge = this.#input.judged?.answer
    if (this.#judge !== undefined && isEncoded(headers)) {
      this.#fail(controller, notReadable(this.#input.route.upstream.name))
      return
    }
    const { hiddenKey } = this.#input
    this.#hidesKey = hiddenKey !== undefined && (status >= 400 || hiddenKey.length >= KEY_CHARS_MIN)
    if (status >= 400 && this.#hidesKey) {
      this.#whole = []
      return
    }
    if ((status < 300 && this.#format !== undefined) || isTranslated) {
      if (this.#format !== undefined && isEventStream(headers))
        this.#tap = new StreamTap(this.#format, this.#input.request.hidesUsage)
      else {
        this.#whole = []
        return
      }
      if (this.#hidesKey) this.#mask = new KeyMask(hiddenKey!)
    } else if (this.#hidesKey) {
      this.#whole = []
      return
    }
    this.#input.res.writeHead(status, this.#headersToClient(this.#tap === undefined))
    this.#writer = new AnswerWriter(this.#input.res, controller, this.#parts.idleTimeoutMs)
  }

  #take(controller: UpstreamController, came: Buffer): void {
    if (this.#isOver) return
    this.#firstByteMs ??= this.#parts.clock.monotonicMs() - this.#input.startedMs
    this.#answerBytes += came.length
    const chunk = this.#mask === undefined ? came : this.#mask.take(came)
    if (!this.#hidesKey || this.#mask !== undefined) this.#retained?.take(chunk)
    if (this.#whole !== undefined) {
      this.#whole.push(Buffer.from(chunk))
      if (this.#answerBytes > limits.modelAnswerBytesMax) this.#tooLarge(controller)
      return
    }
    const tap = this.#tap
    if (tap !== undefined) this.#findId(chunk, STREAMED_ID)
    const passed = tap === undefined ? chunk : tap.take(chunk)
    if (passed !== undefined) this.#pass(controller, passed)
    const heldBytes = tap === undefined ? 0 : tap.heldBytes + (this.#judge?.heldBytes ?? 0)
    if (heldBytes > limits.modelEventBytesMax) this.#tooLarge(controller)
  }

  #end(controller: UpstreamController): void {
    if (this.#isOver) return
    if (this.#whole === undefined) {
      this.#enqueue(controller, () => this.#endStream())
      return
    }
    const { res, translator } = this.#input
    const came = this.#whole.length === 1 ? this.#whole[0]! : Buffer.concat(this.#whole)
    const bytes = this.#hidesKey ? withoutKey(came, this.#input.hiddenKey!) : came
    if (this.#hidesKey) this.#retained?.take(bytes)
    this.#findId(bytes, WHOLE_ID)
    this.#enqueue(controller, () =>
      whenKnown(this.#judge === undefined ? bytes : this.#judge.whole(bytes, isJson(this.#headers!)), (judged) => {
        if (this.#isOver) return
        if (judged === undefined) return this.#fail(controller, notReadable(this.#input.route.upstream.name))
        const displayed = translator === undefined ? judged : translator.whole(this.#status, judged)
        res.writeHead(this.#status, this.#headersToClient(translator === undefined && judged === came))
        // The client does not wait until the answer is read and accounted for; nobody else's turn comes in between.
        endWith(res, displayed)
        this.#over(this.#status < 400 ? 'ok' : 'failed', bytes)
      }),
    )
  }

  #endStream(): void | Promise<void> {
    const masked = this.#mask?.finish()
    const before = masked === undefined || masked.length === 0 ? undefined : this.#tap!.take(masked)
    const rest = joinedParts(before, this.#tap?.finish())
    const forwarded = rest === undefined ? undefined : this.#forward(rest)
    const finished = forwarded instanceof Promise ? forwarded.then(() => this.#judge?.finish()) : this.#judge?.finish()
    return whenKnown(finished, (last) => {
      if (this.#isOver) return
      this.#write(last)
      const end = this.#input.translator?.finish()
      if (end !== undefined) this.#writer!.write(end)
      this.#writer!.end()
      this.#over(this.#status < 400 ? 'ok' : 'failed')
    })
  }

  /** Nearly always there is nothing to wait for. */
  #pass(controller: UpstreamController, bytes: Buffer): void {
    if (this.#judging !== undefined) {
      const retained = Buffer.from(bytes)
      this.#enqueue(controller, () => this.#forward(retained))
      return
    }
    const judged = this.#judge === undefined ? bytes : this.#judge.take(bytes)
    if (judged instanceof Promise) this.#enqueue(controller, () => judged.then((known) => this.#write(known)))
    else this.#write(judged)
  }

  /** The part that passes, once it is judged. */
  #forward(bytes: Buffer): void | Promise<void> {
    const judged = this.#judge === undefined ? bytes : this.#judge.take(bytes)
    return whenKnown(judged, (known) => this.#write(known))
  }

  #write(bytes: Buffer | undefined): void {
    if (bytes === undefined || this.#isOver) return
    const { translator } = this.#input
    const displayed = translator === undefined ? bytes : translator.take(bytes)
    if (displayed !== undefined) this.#writer!.write(displayed)
  }

  /** One at a time. The upstream pauses meanwhile. */
  #enqueue(controller: UpstreamController, work: () => void | Promise<void>): void {
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
  #fail(controller: UpstreamController, error: unknown): void {
    if (this.#isOver) return
    const { req, res, route } = this.#input
    this.#over('cut_off', undefined, error instanceof AppError ? error.code : null)
    controller.abort(error instanceof Error ? error : new Error(String(error)))
    this.#parts.refuse(req, res, route, error)
  }

  /** What fails here is not the provider's failure: it has answered, and bills that. */
  #failHere(controller: UpstreamController, error: unknown): void {
    const { req, res, route } = this.#input
    if (!this.#isOver) this.#fail(controller, error)
    else if (!res.headersSent) this.#parts.refuse(req, res, route, error)
  }

  #headersToClient(keepsLength: boolean): string[] {
    const returned = headersToClient(this.#headers!, keepsLength, this.#hidesKey ? this.#input.hiddenKey : undefined)
    const { judged, replaced, route, request } = this.#input
    if (replaced !== undefined) {
      const used = headerText(`${route.upstream.name}:${request.model}`)
      returned.push(USED_MODEL, used, MODEL_RULE, headerText(replaced.rule.name))
    }
    const removed = judged?.removed ?? []
    return removed.length === 0 ? returned : [...returned, REMOVED_TOOLS, headerList(removed)]
  }

  /** The id of an answer that the provider stores, which is near its beginning. */
  #findId(bytes: Buffer, pattern: RegExp): void {
    if (this.#responseId !== undefined || this.#input.judged?.answered === undefined) return
    if (this.#answerBytes - bytes.length > ID_WITHIN_BYTES) return
    this.#responseId = pattern.exec(bytes.toString('latin1', 0, ID_WITHIN_BYTES))?.[1]
  }

  onResponseError(_: UpstreamController | undefined, error: Error): void {
    if (this.#isOver) return
    const { req, res, route } = this.#input
    // Who waits no longer does not know what the provider goes on to write.
    this.#isBroken = !isTimeout(error)
    if (this.#status === 0 || this.#whole !== undefined) {
      if (!isRefusal(this.#status)) this.#status = 0
      const failure = notAnswered(error, route.upstream.name)
      const { fallBack } = this.#input
      this.#over('failed', undefined, failure.code)
      // A whole answer is forwarded when it is complete, so nothing of it has been.
      if (fallBack !== undefined) fallBack()
      else this.#parts.refuse(req, res, route, failure)
      return
    }
    this.#over('cut_off')
    // The upstream's connection broke, so ours breaks too: a clean end would say that the answer is complete.
    res.destroy()
  }

  #tooLarge(controller: UpstreamController): void {
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
    const { res, request, startedMs } = this.#input
    res.off('close', this.#onClosed)
    this.#writer?.stopWaiting()
    const read = answer === undefined ? undefined : readAnswer(answer, this.#format)
    const { tokens, isEstimated } = this.#bill(status, read)
    const { replaced } = this.#input
    const usedModel = read?.model ?? this.#tap?.model ?? (replaced === undefined ? null : request.model)
    this.#parts.finished({
      ...requestFacts(this.#input),
      usedModel,
      status,
      httpStatus: this.#status,
      errorCode,
      tokens,
      costNanodollars: this.#input.spending?.settle(usedModel, tokens) ?? null,
      isEstimated,
      durationMs: this.#parts.clock.monotonicMs() - startedMs,
      firstByteMs: this.#firstByteMs,
      decisions: this.#input.judged?.decisions ?? [],
      answerBytes: this.#answerBytes,
      answerBody: this.#retained?.bytes,
    })
    this.#tap?.release()
  }

  #bill(status: FinishedRequest['status'], read: ReadAnswer | undefined) {
    const { request, spending } = this.#input
    const said = read?.tokens ?? this.#tap?.tokens
    if (this.#format === undefined) return { tokens: completeTokens(said), isEstimated: false }
    return billOf({
      ...{ said, tap: this.#tap, bounds: spending },
      wasSent: this.#controller !== undefined,
      httpStatus: this.#status,
      ending: status === 'ok' ? 'complete' : this.#isBroken ? 'broken' : 'left',
      isStreamed: this.#tap !== undefined || (this.#whole === undefined && request.isStream),
      sentForMs: this.#parts.clock.monotonicMs() - this.#sentAtMs,
      textBytes: read?.textBytes ?? (() => this.#answerBytes),
      isUnfinished: read?.isUnfinished === true || isInBackground(request),
    })
  }
}

const REMOVED_TOOLS = 'x-castellan-removed-tools'
const USED_MODEL = 'x-castellan-model'
const MODEL_RULE = 'x-castellan-model-rule'
/** Statuses of a provider that is too busy, or fails, so that another model may be tried. */
const fallsBack: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504, 529])
const answeredElsewhere = new Error('falling back to another model')
const WHOLE_ID = /^\s*\{\s*"id"\s*:\s*"([^"]{1,256})"/
const STREAMED_ID = /"response"\s*:\s*\{\s*"id"\s*:\s*"([^"]{1,256})"/
const ID_WITHIN_BYTES = 4_096
/** Shorter ones, as servers of one's own have them, are words that an answer has by chance. */
const KEY_CHARS_MIN = 16

const joinedParts = (one: Buffer | undefined, other: Buffer | undefined): Buffer | undefined =>
  one === undefined || other === undefined ? (one ?? other) : Buffer.concat([one, other])

/** The provider continues to write after the connection has ended. */
const isInBackground = ({ body }: PreparedRequest): boolean => (body?.['background'] ?? false) !== false

const clientClosed = new Error('the client disconnected')
