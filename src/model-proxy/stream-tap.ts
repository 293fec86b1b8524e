import { limits } from '../contract/limits.ts'
import { eventData } from './event-data.ts'
import { type AnswerFormat, fieldsOf, type PartialTokens } from './protocols/protocol.ts'
import { textBytesOf } from './text-bytes.ts'
import { type ReportedOutput, tokensIn } from './token-estimate.ts'
import { WholeEvents } from './whole-events.ts'

const NOTHING = Buffer.alloc(0)

/**
 * Reads the events of a stream as they pass unchanged. An event is parsed only if it reports tokens, and then only the last of
 * those. The amount of text is counted on demand, which is rare because providers report tokens.
 */
export class StreamTap {
  #events = 0
  #textBytes = 0
  /** Since the last event that reported tokens. */
  #unsaidBytes = 0
  /** Events that passed and are not counted, and how many of their bytes came before the end of the last that reported tokens. */
  #uncounted: Buffer = NOTHING
  #uncountedBytes = 0
  #saidBytes = 0
  #usages = 0
  readonly #format: AnswerFormat
  readonly #hidesUsage: boolean
  readonly #gathered = new WholeEvents()
  #tokens: PartialTokens | undefined
  #model: string | undefined
  #last: Buffer | undefined

  /** `hidesUsage`: the caller did not request the event that contains only the usage, so it is dropped. */
  constructor(format: AnswerFormat, hidesUsage: boolean) {
    this.#format = format
    this.#hidesUsage = hidesUsage
  }

  /** The part that passes; undefined if nothing does yet. */
  take(chunk: Buffer): Buffer | undefined {
    const events = this.#gathered.take(chunk)
    if (events === undefined) return this.#hidesUsage ? undefined : chunk
    const displayed = this.#inspect(events)
    return this.#hidesUsage ? displayed : chunk
  }

  /** Bytes that were held back because they might be the start of an event. */
  finish(): Buffer | undefined {
    const rest = this.#gathered.finish()
    if (rest === undefined) return undefined
    const displayed = this.#inspect(rest)
    return this.#hidesUsage ? displayed : undefined
  }

  /** Bytes that wait for the end of their event. */
  get heldBytes(): number {
    return this.#gathered.heldBytes
  }

  /** How many events passed. */
  get events(): number {
    this.#count()
    return this.#events
  }

  /** The smallest number of tokens in what passed: most events of a stream are one token, but some have many. */
  get passedTokens(): number {
    return Math.max(this.events, tokensIn(this.#textBytes + this.#restTextBytes))
  }

  /** Undefined while the provider has reported only the start. */
  get reportedOutput(): ReportedOutput | undefined {
    const reported = this.tokens?.output
    if (reported === undefined || this.#usages <= (this.#format.beginsWithUsage === true ? 1 : 0)) return undefined
    this.#count()
    return { reported, since: tokensIn(this.#unsaidBytes + this.#restTextBytes) }
  }

  get #restTextBytes(): number {
    return textBytesOf(this.#gathered.held)
  }

  /** Nobody asks for anything any more. */
  release(): void {
    if (this.#uncounted !== NOTHING) returnMemory(this.#uncounted)
    this.#uncounted = NOTHING
    this.#uncountedBytes = 0
    this.#saidBytes = 0
  }

  #retain(events: Buffer): void {
    if (events.length === 0) return
    if (this.#uncountedBytes + events.length > limits.modelUncountedBytesMax) this.#count()
    if (events.length > limits.modelUncountedBytesMax) {
      this.#countIn(events, true)
      return
    }
    if (this.#uncounted === NOTHING) this.#uncounted = takeMemory()
    events.copy(this.#uncounted, this.#uncountedBytes)
    this.#uncountedBytes += events.length
  }

  #count(): void {
    this.#countIn(this.#uncounted.subarray(0, this.#saidBytes), false)
    this.#countIn(this.#uncounted.subarray(this.#saidBytes, this.#uncountedBytes), true)
    this.#uncountedBytes = 0
    this.#saidBytes = 0
  }

  #countIn(events: Buffer, isUnsaid: boolean): void {
    if (events.length === 0) return
    const textBytes = textBytesOf(events)
    this.#events += countEvents(events)
    this.#textBytes += textBytes
    if (isUnsaid) this.#unsaidBytes += textBytes
  }

  get tokens(): PartialTokens | undefined {
    if (this.#last !== undefined) this.#read(this.#last)
    this.#last = undefined
    return this.#tokens
  }

  get model(): string | undefined {
    return this.#model
  }

  #inspect(events: Buffer): Buffer | undefined {
    const displayed: Buffer[] = []
    let from = 0
    let counted = 0
    let last: Buffer | undefined
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
      else last = event
      at = findUsage(events, this.#format.usageMark, end)
      if (at !== -1) continue
      this.#retain(events.subarray(0, end))
      this.#saidBytes = this.#uncountedBytes
      this.#unsaidBytes = 0
      counted = end
    }
    if (last !== undefined) this.#last = Buffer.from(last)
    this.#retain(counted === 0 ? events : events.subarray(counted))
    if (from === 0) return events
    displayed.push(events.subarray(from))
    const left = Buffer.concat(displayed)
    return left.length === 0 ? undefined : left
  }

  #read(event: Buffer): unknown {
    const answer = eventData(event.toString('utf8'))
    const tokens = this.#format.readUsage(answer)
    if (tokens !== undefined) {
      const kinds = { ...this.#tokens?.kinds, ...tokens.kinds }
      this.#tokens = { ...this.#tokens, ...tokens, ...(Object.keys(kinds).length > 0 && { kinds }) }
    }
    this.#model ??= this.#format.readModel(answer)
    return answer
  }
}

function hasNoChoices(answer: unknown): boolean {
  const choices = fieldsOf(answer)?.['choices']
  return Array.isArray(choices) && choices.length === 0
}

/** Memory of streams that ended, for those to come. As garbage it would make V8 collect all garbage many times a second. */
const unusedMemory: Buffer[] = []
const UNUSED_MAX = 8
const takeMemory = (): Buffer => unusedMemory.pop() ?? Buffer.allocUnsafeSlow(limits.modelUncountedBytesMax)
function returnMemory(bytes: Buffer): void {
  if (unusedMemory.length < UNUSED_MAX) unusedMemory.push(bytes)
}

const LF = 10
const CR = 13
const SPACE = 32
const QUOTE = 34
const COLON = 58
const BRACE = 123

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

/** Searching for the other kind of line ending at every event would read the rest of the bytes each time. */
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

/**
 * The position of the member whose value is an object; inside a string its quotes would be escaped. The search begins with a byte
 * that is rare. If the member has another value, the rest is searched at once, since then every event may contain it.
 */
function findUsage(bytes: Buffer, mark: string, from: number): number {
  const name = mark.slice(1)
  const found = bytes.indexOf(name, from, 'latin1')
  if (found === -1) return -1
  if (bytes[found - 1] === QUOTE && hasObject(bytes, found + name.length)) return found - 1
  const pattern = objectPattern(mark)
  const at = bytes.toString('latin1', found).search(pattern)
  return at === -1 ? -1 : found + at
}

function hasObject(bytes: Buffer, from: number): boolean {
  let next = from
  while (bytes[next] === SPACE || bytes[next] === LF || bytes[next] === CR || bytes[next] === COLON) next++
  return bytes[next] === BRACE
}

const objectPatterns = new Map<string, RegExp>()
function objectPattern(mark: string): RegExp {
  const known = objectPatterns.get(mark) ?? new RegExp(`${mark}[ \\n\\r:]*\\{`)
  objectPatterns.set(mark, known)
  return known
}
