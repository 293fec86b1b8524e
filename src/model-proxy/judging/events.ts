import type { AnswerJudge, CallJudge, EventJudge, JudgedFormat } from './ports.ts'

/** Judges an answer as it passes. What has no mark of its format goes on as the bytes that came. */
export function createAnswerJudge(format: JudgedFormat, judge: CallJudge): AnswerJudge {
  const marks = format.marks.map((mark) => Buffer.from(mark))
  const isMarked = (bytes: Buffer): boolean => marks.some((mark) => bytes.includes(mark))
  let events: EventJudge | undefined
  let rest: Buffer | undefined

  /** What should be looked at and cannot be read does not pass. */
  function takeOne(event: Buffer, out: Buffer[]): void | Promise<void> {
    const data = dataOf(event)
    return data === undefined && isMarked(event) ? undefined : events!.take(event, data, out)
  }

  function run(parts: readonly Buffer[], from: number, out: Buffer[]): void | Promise<void> {
    for (let index = from; index < parts.length; index++) {
      const pending = takeOne(parts[index]!, out)
      if (pending instanceof Promise) return pending.then(() => run(parts, index + 1, out))
    }
  }

  return {
    take(chunk) {
      events ??= format.events(judge)
      const bytes = rest === undefined ? chunk : Buffer.concat([rest, chunk])
      const end = endOfEvents(bytes)
      rest = end === bytes.length ? undefined : bytes.subarray(end)
      if (end === 0) return undefined
      const whole = end === bytes.length ? bytes : bytes.subarray(0, end)
      if (!events.isActive && !isMarked(whole)) return whole
      const out: Buffer[] = []
      const pending = run(splitEvents(whole), 0, out)
      return pending instanceof Promise ? pending.then(() => joined(out)) : joined(out)
    },
    finish() {
      const out: Buffer[] = []
      const pending = rest === undefined || events === undefined ? undefined : takeOne(rest, out)
      rest = undefined
      return pending instanceof Promise ? pending.then(() => joined(out)) : joined(out)
    },
    whole(bytes) {
      if (!isMarked(bytes)) return bytes
      let answer: unknown
      try {
        answer = JSON.parse(bytes.toString('utf8'))
      } catch {
        // What no program can read calls nothing.
        return bytes
      }
      return format.whole(answer, judge).then((isChanged) => (isChanged ? Buffer.from(JSON.stringify(answer)) : bytes))
    },
    get heldBytes() {
      return (rest?.length ?? 0) + (events?.heldBytes ?? 0)
    },
  }
}

const joined = (out: readonly Buffer[]): Buffer | undefined => {
  if (out.length === 0) return undefined
  return out.length === 1 ? out[0]! : Buffer.concat(out)
}

const LF = 10
const CR = 13

/** Behind the last blank line; 0 if there is none. */
function endOfEvents(bytes: Buffer): number {
  for (let at = bytes.length - 1; at > 0; at--) {
    if (bytes[at] === LF && isBlankLineBefore(bytes, at)) return at + 1
  }
  return 0
}

const isBlankLineBefore = (bytes: Buffer, at: number): boolean =>
  bytes[at - 1] === LF || (bytes[at - 1] === CR && bytes[at - 2] === LF)

function splitEvents(bytes: Buffer): Buffer[] {
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

export const dataEvent = (data: unknown): Buffer => Buffer.from(`data: ${JSON.stringify(data)}\n\n`)

/** As providers write events that have a name. */
export const namedEvent = (data: Readonly<{ type: string }>): Buffer =>
  Buffer.from(`event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`)

/** Does one after the other, at once for as long as nothing has to be waited for. */
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

/** Hands on what is there, or will be. */
export const whenKnown = <In, Out>(value: In | Promise<In>, next: (value: In) => Out): Out | Promise<Awaited<Out>> =>
  value instanceof Promise ? (value.then(next) as Promise<Awaited<Out>>) : next(value)

/** The arguments of a call, which models write as JSON; undefined if they are not an object. Nothing at all means none. */
export function readArguments(text: unknown): unknown {
  if (text === undefined || text === null || text === '') return {}
  if (typeof text === 'object') return text
  try {
    const value: unknown = typeof text === 'string' ? JSON.parse(text) : undefined
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Content of a tool's answer, whichever provider: a text or a list of blocks, in the form of MCP. */
export function answerOf(content: unknown): unknown {
  if (typeof content === 'string') return { content: [{ type: 'text', text: content }] }
  if (!Array.isArray(content)) return content
  const blocks = content.map((block: unknown) => {
    const { text } = (block ?? {}) as { text?: unknown }
    return typeof text === 'string' ? { ...(block as object), type: 'text' } : block
  })
  return { content: blocks }
}
