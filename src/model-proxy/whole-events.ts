const LF = 10
const CR = 13
const GROWTH = 2
const CACHED_BYTES_MAX = 64 * 1024
const NOTHING = Buffer.alloc(0)

/**
 * Gathers the bytes of a stream into whole events. Every byte is searched once and copied a bounded number of times, however long
 * an event is and however small the parts are in which it comes: an image is one event of megabytes. A part may change after the
 * call, and with it the events that came of it.
 */
export class WholeEvents {
  /** Has the bytes of an event that is not complete. */
  #memory: Buffer = NOTHING
  #heldBytes = 0

  /** The events that are complete now; undefined if none is. */
  take(chunk: Buffer): Buffer | undefined {
    const end = this.#endOfEvents(chunk)
    if (end === 0) {
      this.#hold(chunk)
      return undefined
    }
    const ending = end === chunk.length ? chunk : chunk.subarray(0, end)
    const events = this.#heldBytes === 0 ? ending : Buffer.concat([this.held, ending])
    this.#release()
    if (end < chunk.length) this.#hold(chunk.subarray(end))
    return events
  }

  /** What is left at the end of a stream; undefined if that is nothing. */
  finish(): Buffer | undefined {
    const { held } = this
    this.#memory = NOTHING
    this.#heldBytes = 0
    return held.length === 0 ? undefined : held
  }

  get held(): Buffer {
    return this.#memory.subarray(0, this.#heldBytes)
  }

  get heldBytes(): number {
    return this.#heldBytes
  }

  /** After the last blank line, which may have begun in what is held; 0 if there is none. */
  #endOfEvents(chunk: Buffer): number {
    for (let at = chunk.lastIndexOf(LF); at !== -1; at = at === 0 ? -1 : chunk.lastIndexOf(LF, at - 1)) {
      const before = this.#byteAt(chunk, at - 1)
      if (before === LF || (before === CR && this.#byteAt(chunk, at - 2) === LF)) return at + 1
    }
    return 0
  }

  #byteAt(chunk: Buffer, index: number): number | undefined {
    return index >= 0 ? chunk[index] : this.#memory[this.#heldBytes + index]
  }

  #hold(bytes: Buffer): void {
    const heldBytes = this.#heldBytes + bytes.length
    if (heldBytes > this.#memory.length) {
      const grown = Buffer.allocUnsafe(heldBytes * GROWTH)
      this.#memory.copy(grown, 0, 0, this.#heldBytes)
      this.#memory = grown
    }
    bytes.copy(this.#memory, this.#heldBytes)
    this.#heldBytes = heldBytes
  }

  /** What was held has been passed on. The memory for a long event is not cached for short ones. */
  #release(): void {
    if (this.#memory.length > CACHED_BYTES_MAX) this.#memory = NOTHING
    this.#heldBytes = 0
  }
}
