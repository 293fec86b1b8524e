/** The retained parts of a line that is too long. */
export type OversizedLine = Readonly<{ head: string; tail: string }>

const NEWLINE = 10
const END_BYTES = 512

/** Splits bytes into lines; holds at most one unfinished line, and only the ends of an oversized one. */
export class LineSplitter {
  onLine: (line: string) => void = () => {}
  onOversizedLine: (line: OversizedLine) => void = () => {}
  readonly #lineBytesMax: number
  /** The beginning of a line whose end has not arrived. */
  #parts: Buffer[] = []
  #partsBytes = 0
  /** Set while the rest of an oversized line is discarded. */
  #oversized: { head: string; tail: Buffer } | undefined

  constructor(lineBytesMax: number) {
    this.#lineBytesMax = lineBytesMax
  }

  push(chunk: Buffer): void {
    let start = 0
    const last = chunk.lastIndexOf(NEWLINE)
    if (this.#partsBytes === 0 && this.#oversized === undefined && last !== -1 && last <= this.#lineBytesMax) {
      this.#splitText(chunk.toString('utf8', 0, last))
      start = last + 1
    }
    for (let end = chunk.indexOf(NEWLINE, start); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      this.#endLine(chunk.subarray(start, end))
      start = end + 1
    }
    this.#keep(start === 0 ? chunk : chunk.subarray(start))
  }

  /** Takes what arrived after the last newline as a line. */
  end(): void {
    if (this.#partsBytes > 0 || this.#oversized !== undefined) this.#endLine(Buffer.alloc(0))
  }

  #splitText(text: string): void {
    let start = 0
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', start)) {
      if (end > start) this.onLine(text.slice(start, end))
      start = end + 1
    }
    if (start < text.length) this.onLine(start === 0 ? text : text.slice(start))
  }

  #keep(rest: Buffer): void {
    if (rest.length === 0) return
    if (this.#oversized !== undefined) {
      this.#oversized.tail = endOf(this.#oversized.tail, rest)
    } else if (this.#partsBytes + rest.length > this.#lineBytesMax) {
      this.#keepEnds(rest)
    } else {
      this.#parts.push(rest)
      this.#partsBytes += rest.length
    }
  }

  #endLine(rest: Buffer): void {
    this.#keep(rest)
    if (this.#oversized !== undefined) {
      const { head, tail } = this.#oversized
      this.#oversized = undefined
      this.onOversizedLine({ head, tail: tail.toString() })
      return
    }
    const bytes = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts)
    this.#parts = []
    this.#partsBytes = 0
    this.#splitText(bytes.toString())
  }

  #keepEnds(rest: Buffer): void {
    const head = Buffer.concat([...this.#parts, rest.subarray(0, END_BYTES)]).toString('utf8', 0, END_BYTES)
    this.#oversized = { head, tail: this.#parts.reduce(endOf, Buffer.alloc(0)) }
    this.#oversized.tail = endOf(this.#oversized.tail, rest)
    this.#parts = []
    this.#partsBytes = 0
  }
}

/** The last bytes of `before` followed by `after`. */
function endOf(before: Buffer, after: Buffer): Buffer {
  if (after.length >= END_BYTES) return Buffer.from(after.subarray(after.length - END_BYTES))
  const both = Buffer.concat([before, after])
  return both.subarray(Math.max(0, both.length - END_BYTES))
}
