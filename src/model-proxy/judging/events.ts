import { limits } from '../../contract/limits.ts'
import { exceededBound } from '../../kernel/json-bounds.ts'
import { hasRepeatedMembers } from '../ambiguous-members.ts'
import { eventText, parsedData } from '../event-data.ts'
import { WholeEvents } from '../whole-events.ts'
import { createSignatures, opaqueParts } from './opaque-parts.ts'
import { tooManyParts } from './paced-judge.ts'
import type { AnswerJudge, CallJudge, EventJudge, JudgedFormat } from './ports.ts'

/** Judges an answer as it passes. Parts without a mark of the format pass unchanged. */
class MarkedAnswer implements AnswerJudge {
  readonly #format: JudgedFormat
  readonly #judge: CallJudge
  #events: EventJudge | undefined
  readonly #gathered = new WholeEvents()
  readonly #signatureIn = createSignatures()

  constructor(format: JudgedFormat, judge: CallJudge) {
    this.#format = format
    this.#judge = judge
  }

  take(chunk: Buffer): Buffer | undefined | Promise<Buffer | undefined> {
    this.#events ??= this.#format.events(this.#judge)
    const whole = this.#gathered.take(chunk)
    if (whole === undefined) return undefined
    if (!this.#events.isActive() && !isMarked(this.#format, whole)) return whole
    const out: Buffer[] = []
    // What is judged may be held beyond the call.
    const pending = this.#run(splitEvents(Buffer.from(whole)), 0, out)
    return pending instanceof Promise ? pending.then(() => joined(out)) : joined(out)
  }

  finish(): Buffer | undefined | Promise<Buffer | undefined> {
    const out: Buffer[] = []
    const rest = this.#gathered.finish()
    const pending = rest === undefined || this.#events === undefined ? undefined : this.#takeOne(rest, out)
    return pending instanceof Promise ? pending.then(() => joined(out)) : joined(out)
  }

  whole(bytes: Buffer, isJson: boolean): Buffer | undefined | Promise<Buffer> {
    if (bytes.length === 0 || (isJson && !isMarked(this.#format, bytes))) return bytes
    const text = bytes.toString('utf8')
    if (exceededBound(text, bounds) !== undefined) throw tooManyParts()
    const answer = parsedData(text)
    // Programs may read what we cannot: events under another content type, or a text with a byte order mark.
    if (answer === undefined || hasRepeatedMembers(text)) return undefined
    return this.#wholeOf(answer).then((isChanged) => (isChanged ? Buffer.from(JSON.stringify(answer)) : bytes))
  }

  /** A stream without events is a list of answers. */
  async #wholeOf(answer: unknown): Promise<boolean> {
    let isChanged = false
    this.#note(answer)
    for (const one of Array.isArray(answer) ? answer : [answer])
      isChanged = (await this.#format.whole(one, this.#judge)) || isChanged
    return isChanged
  }

  get heldBytes(): number {
    return this.#gathered.heldBytes + (this.#events?.heldBytes() ?? 0)
  }

  /** An event that must be judged and cannot be read in one way only does not pass. */
  #takeOne(event: Buffer, out: Buffer[]): void | Promise<void> {
    const text = eventText(event.toString('utf8'))
    if (exceededBound(text, bounds) !== undefined) throw tooManyParts()
    const data = parsedData(text)
    if (data === undefined || Array.isArray(data)) {
      if (!isMarked(this.#format, event)) return this.#events!.take(event, undefined, out)
    } else if (!hasRepeatedMembers(text)) {
      this.#note(data)
      return this.#events!.take(event, data, out)
    }
  }

  /** What the program may send back, and nobody here can read. */
  #note(data: unknown): void {
    const signature = this.#signatureIn(data)
    if (signature !== undefined) this.#judge.wroteOpaque(signature)
    for (const part of opaqueParts(data, true)) this.#judge.wroteOpaque(part)
  }

  #run(parts: readonly Buffer[], from: number, out: Buffer[]): void | Promise<void> {
    for (let index = from; index < parts.length; index++) {
      const pending = this.#takeOne(parts[index]!, out)
      if (pending instanceof Promise) return pending.then(() => this.#run(parts, index + 1, out))
    }
  }
}

const bounds = {
  depthMax: limits.modelAnswerDepthMax,
  valuesMax: limits.modelAnswerValuesMax,
  membersMax: limits.modelAnswerMembersMax,
}

export const createAnswerJudge = (format: JudgedFormat, judge: CallJudge): AnswerJudge =>
  new MarkedAnswer(format, judge)

const isMarked = (format: JudgedFormat, bytes: Buffer): boolean =>
  bytes.includes(ESCAPE) || marksOf(format).some(({ rare, exact }) => bytes.includes(rare) && bytes.includes(exact))

/** Any letter of a mark can be written like this. */
const ESCAPE = Buffer.from('\\u00')

type Mark = Readonly<{ rare: Buffer; exact: Buffer }>
const marksOfFormats = new WeakMap<JudgedFormat, readonly Mark[]>()

/** A search is as fast as its first byte is rare, so a mark that begins with a quote is first searched from a later byte on. */
function marksOf(format: JudgedFormat): readonly Mark[] {
  const known = marksOfFormats.get(format)
  if (known !== undefined) return known
  const marks = format.marks.map((mark) => ({
    rare: Buffer.from(mark.slice(mark.includes('_') ? mark.indexOf('_') : 1)),
    exact: Buffer.from(mark),
  }))
  marksOfFormats.set(format, marks)
  return marks
}

const joined = (out: readonly Buffer[]): Buffer | undefined => {
  if (out.length === 0) return undefined
  return out.length === 1 ? out[0]! : Buffer.concat(out)
}

const LF = 10
const CR = 13

const isBlankLineBefore = (bytes: Buffer, at: number): boolean =>
  bytes[at - 1] === LF || (bytes[at - 1] === CR && bytes[at - 2] === LF)

export function splitEvents(bytes: Buffer): Buffer[] {
  const events: Buffer[] = []
  let from = 0
  for (let at = bytes.indexOf(LF); at !== -1; at = bytes.indexOf(LF, at + 1)) {
    if (at > from && isBlankLineBefore(bytes, at)) {
      events.push(bytes.subarray(from, at + 1))
      from = at + 1
    }
  }
  if (from < bytes.length) events.push(bytes.subarray(from))
  return events
}

export const dataEvent = (data: unknown): Buffer => Buffer.from(`data: ${JSON.stringify(data)}\n\n`)

/** The format of named events. */
export const namedEvent = (data: Readonly<{ type: string }>): Buffer =>
  Buffer.from(`event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`)

/** Processes one item after the other, synchronously while nothing has to be awaited. */
export function inOrder<Item>(
  items: readonly Item[],
  step: (item: Item) => void | Promise<void>,
  from = 0,
): void | Promise<void> {
  for (let index = from; index < items.length; index++) {
    const pending = step(items[index]!)
    if (pending instanceof Promise) return pending.then(() => inOrder(items, step, index + 1))
  }
}

/** Maps a value or a promise. */
export const whenKnown = <In, Out>(value: In | Promise<In>, next: (value: In) => Out): Out | Promise<Awaited<Out>> =>
  value instanceof Promise ? (value.then(next) as Promise<Awaited<Out>>) : next(value)

/**
 * The arguments of a call, which models write as JSON; undefined if they are not an object, or have a member twice. An empty text means
 * none.
 */
export function readArguments(text: unknown): unknown {
  if (text === undefined || text === null || text === '') return {}
  if (typeof text === 'object') return text
  try {
    const value: unknown = typeof text === 'string' && !hasRepeatedMembers(text) ? JSON.parse(text) : undefined
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** The content of a tool's answer for any provider: a string or a list of blocks, in MCP's format. */
export function answerOf(content: unknown): unknown {
  if (typeof content === 'string') return { content: [{ type: 'text', text: content }] }
  if (!Array.isArray(content)) return content
  const blocks = content.map((block: unknown) => {
    const { text } = (block ?? {}) as { text?: unknown }
    return typeof text === 'string' ? { ...(block as object), type: 'text' } : block
  })
  return { content: blocks }
}
