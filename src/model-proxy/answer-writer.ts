import type { Answer } from '../http/exchange/answer.ts'

/**
 * Sends an answer that arrives in parts. Parts of one turn are sent in one write, the head with the first of them, before the bytes
 * may change. While the client
 * reads more slowly than the upstream sends, the upstream is paused. A client that stops reading is disconnected after a time: it
 * must not hold for ever what is reserved for it.
 */
export class AnswerWriter {
  readonly #res: Answer
  readonly #upstream: Readonly<{ pause(): void; resume(): void }>
  readonly #stalledMs: number
  #stalled: NodeJS.Timeout | undefined
  #unsent: Buffer[] = []
  #isScheduled = false
  #isEnded = false

  /** The head is written but not sent. */
  constructor(res: Answer, upstream: Readonly<{ pause(): void; resume(): void }>, stalledMs: number) {
    this.#res = res
    this.#upstream = upstream
    this.#stalledMs = stalledMs
    res.on('drain', this.#onDrain)
    this.#schedule()
  }

  write(bytes: Buffer): void {
    this.#unsent.push(bytes)
    this.#schedule()
  }

  end(): void {
    this.#isEnded = true
    const unsent = this.#takeUnsent()
    if (unsent === undefined) this.#res.end()
    else this.#res.end(unsent)
  }

  /** The answer is over, or there will be no more of it. */
  stopWaiting(): void {
    clearTimeout(this.#stalled)
    this.#res.off('drain', this.#onDrain)
  }

  #wait(): void {
    this.#upstream.pause()
    this.#stalled ??= setTimeout(() => this.#res.destroy(), this.#stalledMs)
  }

  readonly #onDrain = (): void => {
    clearTimeout(this.#stalled)
    this.#stalled = undefined
    this.#upstream.resume()
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    process.nextTick(this.#send)
  }

  readonly #send = (): void => {
    this.#isScheduled = false
    if (this.#isEnded || this.#res.destroyed) return
    const unsent = this.#takeUnsent()
    // The client sees at once that the answer has started, even before its first part.
    if (unsent === undefined) this.#res.flushHeaders()
    else if (!this.#res.write(unsent)) this.#wait()
  }

  #takeUnsent(): Buffer | undefined {
    const unsent = this.#unsent
    if (unsent.length === 0) return undefined
    this.#unsent = []
    if (unsent.length > 1) return Buffer.concat(unsent)
    return this.#res.copiesBytes === true ? unsent[0]! : Buffer.from(unsent[0]!)
  }
}

/** As a latin1 string, which keeps every byte, a short answer is sent in one write with its head. */
export function endWith(res: Answer, answer: Buffer): void {
  if (answer.length > ONE_WRITE_BYTES_MAX) res.end(answer)
  else res.end(answer.toString('latin1'), 'latin1')
}
const ONE_WRITE_BYTES_MAX = 16 * 1024
