import { limits } from '../contract/limits.ts'

/** The beginning of an answer, as much as is ever read. */
export class RetainedAnswer {
  readonly #parts: Buffer[] = []
  #bytes = 0

  take(chunk: Buffer): void {
    if (this.#bytes > limits.interactionBodyReadMax) return
    this.#parts.push(Buffer.from(chunk))
    this.#bytes += chunk.length
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#parts)
  }
}
