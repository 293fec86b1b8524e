const LF = 10
const CR = 13
const GROWTH = 2
const NOTHING = Buffer.alloc(0)

/**
 * Gathers the bytes of a stream into whole events. Every byte is searched once and copied a bounded number of times, however long
 * an event is and however small the parts are in which it comes: an image is one event of megabytes.
 */
export class WholeEvents {
  /** Bytes of an event that is not complete. The first part is not copied; the others are appended to memory of our own. */
  #memory: Buffer = NOTHING
  #heldBytes = 0
  #isOwn = false

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
    this.#release()
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
    if (this.#heldBytes === 0) {
      this.#memory = bytes
      this.#isOwn = false
    } else {
      if (!this.#isOwn || heldBytes > this.#memory.length) {
        const grown = Buffer.allocUnsafe(heldBytes * GROWTH)
        this.#memory.copy(grown, 0, 0, this.#heldBytes)
        this.#memory = grown
        this.#isOwn = true
      }
      bytes.copy(this.#memory, this.#heldBytes)
    }
    this.#heldBytes = heldBytes
  }

  #release(): void {
    this.#memory = NOTHING
    this.#heldBytes = 0
    this.#isOwn = false
  }
}
