import { type AnswerFormat, fieldsOf, type PartialTokens } from './protocols/protocol.ts'
import { textBytesOf } from './text-bytes.ts'
import { tokensIn } from './token-estimate.ts'

/**
 * Reads the events of a stream as they pass. They go on as the bytes that came: an event is parsed only if it tells how many
 * tokens there were, and then the last of those.
 */
export class StreamTap {
  /** How many events passed. */
  events = 0
  #textBytes = 0
  #usages = 0
  readonly #format: AnswerFormat
  readonly #hidesUsage: boolean
  #rest: Buffer | undefined
  #tokens: PartialTokens | undefined
  #model: string | undefined
  #last: Buffer | undefined

  /** `hidesUsage`: the caller did not ask for the event that has nothing but the usage, so it does not get it. */
  constructor(format: AnswerFormat, hidesUsage: boolean) {
    this.#format = format
    this.#hidesUsage = hidesUsage
  }

  /** What goes on of what came; undefined if nothing does yet. */
  take(chunk: Buffer): Buffer | undefined {
    const bytes = this.#rest === undefined ? chunk : Buffer.concat([this.#rest, chunk])
    const end = endOfEvents(bytes)
    this.#rest = end === bytes.length ? undefined : bytes.subarray(end)
    if (end === 0) return this.#hidesUsage ? undefined : chunk
    const events = end === bytes.length ? bytes : bytes.subarray(0, end)
    this.events += countEvents(events)
    this.#textBytes += textBytesOf(events)
    const displayed = this.#look(events)
    return this.#hidesUsage ? displayed : chunk
  }

  /** What was kept back because it might have been the beginning of an event. */
  finish(): Buffer | undefined {
    const rest = this.#rest
    this.#rest = undefined
    if (rest === undefined) return undefined
    const displayed = this.#look(rest)
    return this.#hidesUsage ? displayed : undefined
  }

  /** Bytes that wait for the end of their event. */
  get heldBytes(): number {
    return this.#rest?.length ?? 0
  }

  /** How many tokens the model wrote at least in what passed: most events of a stream are one, but some have many. */
  get passedTokens(): number {
    const bytes = this.#textBytes + (this.#rest === undefined ? 0 : textBytesOf(this.#rest))
    return Math.max(this.events, tokensIn(bytes))
  }

  /** The provider said how many tokens it wrote, and not only that it begins. */
  get hasSaidOutput(): boolean {
    return this.tokens?.output !== undefined && this.#usages > (this.#format.beginsWithUsage === true ? 1 : 0)
  }

  get tokens(): PartialTokens | undefined {
    if (this.#last !== undefined) this.#read(this.#last)
    this.#last = undefined
    return this.#tokens
  }

  get model(): string | undefined {
    return this.#model
  }

  #look(events: Buffer): Buffer | undefined {
    const displayed: Buffer[] = []
    let from = 0
    for (let at = findUsage(events, this.#format.usageMark, 0); at !== -1; ) {
      const start = startOfEvent(events, at)
      const end = endOfEvent(events, at)
      const event = events.subarray(start, end)
      this.#usages++
      if (this.#hidesUsage) {
        if (hasNoChoices(this.#read(event))) {
          displayed.push(events.subarray(from, start))
          from = end
        }
      } else if (this.#tokens === undefined) this.#read(event)
      else this.#last = event
      at = findUsage(events, this.#format.usageMark, end)
    }
    if (from === 0) return events
    displayed.push(events.subarray(from))
    const left = Buffer.concat(displayed)
    return left.length === 0 ? undefined : left
  }

  #read(event: Buffer): unknown {
    const answer = dataOf(event)
    const tokens = this.#format.readUsage(answer)
    if (tokens !== undefined) this.#tokens = { ...this.#tokens, ...tokens }
    this.#model ??= this.#format.readModel(answer)
    return answer
  }
}

function hasNoChoices(answer: unknown): boolean {
  const choices = fieldsOf(answer)?.['choices']
  return Array.isArray(choices) && choices.length === 0
}

const LF = 10
const CR = 13
const SPACE = 32
const COLON = 58
const BRACE = 123

/** Behind the last blank line; 0 if there is none. */
function endOfEvents(bytes: Buffer): number {
  const { length } = bytes
  if (length > 1 && bytes[length - 1] === LF && bytes[length - 2] === LF) return length
  const plain = bytes.lastIndexOf('\n\n')
  const wide = bytes.lastIndexOf('\n\r\n')
  return Math.max(plain === -1 ? 0 : plain + 2, wide === -1 ? 0 : wide + 3)
}

function endOfEvent(bytes: Buffer, from: number): number {
  const plain = bytes.indexOf('\n\n', from)
  const wide = bytes.indexOf('\n\r\n', from)
  if (plain === -1 && wide === -1) return bytes.length
  if (wide === -1 || (plain !== -1 && plain < wide)) return plain + 2
  return wide + 3
}

function startOfEvent(bytes: Buffer, from: number): number {
  const plain = bytes.lastIndexOf('\n\n', from)
  const wide = bytes.lastIndexOf('\n\r\n', from)
  return Math.max(plain === -1 ? 0 : plain + 2, wide === -1 ? 0 : wide + 3)
}

/** To look for the other kind of line at every event would read the rest of the bytes each time. */
function countEvents(bytes: Buffer): number {
  const next = bytes.includes(CR) ? endOfEvent : endOfPlainEvent
  let count = 0
  for (let at = next(bytes, 0); ; at = next(bytes, at)) {
    count++
    if (at >= bytes.length) return count
  }
}

function endOfPlainEvent(bytes: Buffer, from: number): number {
  const at = bytes.indexOf('\n\n', from)
  return at === -1 ? bytes.length : at + 2
}

/** Where the member stands that has an object; inside a text its quotes would be escaped. */
function findUsage(bytes: Buffer, mark: string, from: number): number {
  for (let at = bytes.indexOf(mark, from, 'latin1'); at !== -1; at = bytes.indexOf(mark, at + 1, 'latin1')) {
    let next = at + mark.length
    while (bytes[next] === SPACE || bytes[next] === LF || bytes[next] === CR || bytes[next] === COLON) next++
    if (bytes[next] === BRACE) return at
  }
  return -1
}

/** The JSON of an event; undefined if it is none. */
function dataOf(event: Buffer): unknown {
  const lines = event.toString('utf8').split(/\r\n|\n|\r/)
  const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice('data:'.length))
  try {
    return JSON.parse(data.join('\n'))
  } catch {
    return undefined
  }
}
