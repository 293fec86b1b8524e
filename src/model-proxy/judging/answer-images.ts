import { eventText, parsedData } from '../event-data.ts'
import { fieldsOf } from '../protocols/protocol.ts'
import { splitEvents, whenKnown } from './events.ts'
import type { AnswerJudge, ModelCall, MutableFields } from './ports.ts'

/**
 * Images in the text of an answer. A program that displays the text loads them, and so sends what is in their addresses. So an image is
 * judged like a call of a tool, which policies name `client:answer_image`. An image that is denied stays as text that nothing loads.
 */
export const IMAGE_CALL: ModelCall = { name: 'answer_image', args: {} }

export type ImageRule = Readonly<{
  /** Whether an image would be denied in this conversation as it is now. */
  isDenied(): boolean | Promise<boolean>
  /** Called when the first one was found. */
  denied(): void
}>

/** The parts of an answer that pass, in which denied images are text. */
class AnswerWithoutDeniedImages implements AnswerJudge {
  readonly #answer: AnswerJudge
  readonly #rule: ImageRule
  #texts: AnswerTexts | undefined

  constructor(answer: AnswerJudge, rule: ImageRule) {
    this.#answer = answer
    this.#rule = rule
  }

  take(bytes: Buffer): ReturnType<AnswerJudge['take']> {
    return this.#rewritten(this.#answer.take(bytes))
  }

  finish(): ReturnType<AnswerJudge['finish']> {
    return this.#rewritten(this.#answer.finish())
  }

  whole(bytes: Buffer, isJson: boolean): Buffer | undefined | Promise<Buffer> {
    const passed = this.#answer.whole(bytes, isJson)
    if (passed === undefined) return undefined
    return whenKnown(passed, (known) =>
      whenKnown(this.#rule.isDenied(), (isDenied) => (isDenied ? this.#openTexts().whole(known) : known)),
    ) as Buffer | Promise<Buffer>
  }

  get heldBytes(): number {
    return this.#answer.heldBytes
  }

  #rewritten(passed: ReturnType<AnswerJudge['take']>): ReturnType<AnswerJudge['take']> {
    return whenKnown(passed, (bytes) =>
      bytes === undefined
        ? undefined
        : whenKnown(this.#rule.isDenied(), (isDenied) => (isDenied ? this.#openTexts().events(bytes) : bytes)),
    ) as ReturnType<AnswerJudge['take']>
  }

  #openTexts(): AnswerTexts {
    this.#texts ??= new AnswerTexts(this.#rule)
    return this.#texts
  }
}

export const withoutDeniedImages = (answer: AnswerJudge, rule: ImageRule): AnswerJudge =>
  new AnswerWithoutDeniedImages(answer, rule)

/** Members with the text of the model, in all formats. Thoughts that are not signed are displayed too. */
const TEXTS: ReadonlySet<string> = new Set(['text', 'content', 'refusal', 'reasoning', 'reasoning_content'])
/** Members in which nothing is displayed as text, or what the program has to send back unchanged. */
const OTHERS: ReadonlySet<string> = new Set([
  ...['tool_calls', 'function_call', 'functionCall', 'functionResponse', 'function', 'arguments', 'args', 'input'],
  ...['tools', 'instructions', 'metadata', 'summary', 'usage', 'reasoning_details'],
])
const TEXT_EVENTS: ReadonlySet<unknown> = new Set(
  ['output_text', 'refusal', 'reasoning_text', 'reasoning_summary_text'].map((name) => `response.${name}.delta`),
)
/** Text of the model is not deeper in any format. */
const DEPTH_MAX = 12

class AnswerTexts {
  readonly #rule: ImageRule
  /** The last characters of each text that comes in pieces, and of the text before it: programs display them as one. */
  readonly #tails = new Map<string, string>()
  /** Which text the event continues. */
  #part = ''
  /** Texts in which an element of HTML has begun. */
  readonly #marked = new Set<string>()
  /** Texts that say it. Streams repeat a text as a whole, which some programs display instead of its parts. */
  readonly #noticed = new Set<string>()

  constructor(rule: ImageRule) {
    this.#rule = rule
  }

  events(bytes: Buffer): Buffer {
    let isChanged = false
    const parts = splitEvents(bytes).map((part) => {
      const event = part.toString('utf8')
      const data = parsedData(eventText(event))
      this.#part = partOf(data)
      if (!this.#rewrite(data, '', 0)) return part
      isChanged = true
      const others = event.split(/\r\n|\n|\r/).filter((line) => line !== '' && !line.startsWith('data:'))
      return Buffer.from(`${[...others, `data: ${JSON.stringify(data)}`].join('\n')}\n\n`)
    })
    return isChanged ? Buffer.concat(parts) : bytes
  }

  whole(bytes: Buffer): Buffer {
    const data = parsedData(bytes.toString('utf8'))
    this.#part = ''
    return this.#rewrite(data, '', 0) ? Buffer.from(JSON.stringify(data)) : bytes
  }

  /** Changes the texts in a value; returns whether there was an image. */
  #rewrite(value: unknown, path: string, depth: number): boolean {
    if (typeof value !== 'object' || value === null || depth > DEPTH_MAX) return false
    if (Array.isArray(value)) {
      let isChanged = false
      // What has no number is at another place in each event.
      for (const item of value)
        isChanged = this.#rewrite(item, `${path}/${numberOf(item) ?? ''}`, depth + 1) || isChanged
      return isChanged
    }
    const fields = value as MutableFields
    // The thoughts of a model are not displayed, and are signed.
    if (fields['thought'] === true) return false
    let isChanged = false
    for (const [name, member] of Object.entries(fields)) {
      if (OTHERS.has(name)) continue
      const isText = TEXTS.has(name) || (name === 'delta' && TEXT_EVENTS.has(fields['type']))
      if (typeof member !== 'string') isChanged = this.#rewrite(member, `${path}/${name}`, depth + 1) || isChanged
      else if (isText) {
        const text = this.#withoutImages(member, `${path}/${name}`)
        if (text === member) continue
        fields[name] = text
        isChanged = true
      }
    }
    return isChanged
  }

  #withoutImages(text: string, path: string): string {
    const known = `${this.#part} ${path}`
    const tail = this.#tails.get(known) ?? this.#tails.get(path) ?? ''
    let rewritten = ''
    let from = 0
    for (const { index, 0: opening, 1: attribute, 2: element } of (tail + text).matchAll(IMAGE)) {
      const at = index + opening.length - tail.length
      if (element !== undefined) this.#marked.add(path)
      // Outside of an element it is no attribute. What is whole in the tail was decided before.
      const isPlain = attribute !== undefined && (at < 0 || !this.#marked.has(path))
      if (element !== undefined || isPlain) continue
      // What has been sent stays: then the rest of the opening is separated from it.
      const end = Math.max(0, at)
      rewritten += text.slice(from, end) + this.#separator(opening, path)
      from = end
    }
    rewritten += text.slice(from)
    const end = tailOf(tail + rewritten)
    this.#tails.set(known, end)
    this.#tails.set(path, end)
    return rewritten
  }

  #separator(opening: string, path: string): string {
    const separator = opening === '<' ? ' ' : '\\'
    if (this.#noticed.has(path)) return separator
    if (this.#noticed.size === 0) this.#rule.denied()
    this.#noticed.add(path)
    return `${separator === ' ' ? ' ' : ''}${NOTICE}${separator}`
  }
}

/** Elements of HTML that load something. */
const LOADING =
  'img|image|picture|source|video|audio|track|iframe|frame|object|embed|svg|link|input|style|script|meta|base|body|applet|bgsound'
/**
 * The beginning of an image in Markdown or of an element that loads something; an attribute that loads something in any element; the
 * beginning of any other element.
 */
const IMAGE = new RegExp(
  `!(?=\\[)|<(?=(?:${LOADING})(?![\\w-]))|(?<![\\w-])(style|background)\\s*(?==)|(<)(?=[a-z])`,
  'gi',
)
const TAIL_CHARACTERS = ' background '.length

/** White space may stand between an attribute and its value, however much. */
function tailOf(text: string): string {
  const spoken = text.trimEnd()
  return (spoken.length < text.length ? `${spoken} ` : text).slice(-TAIL_CHARACTERS)
}

const NOTICE =
  '\\[Castellan: an image is shown as text, because this conversation has read untrusted data or a policy denies images\\] '

const numberOf = (value: unknown): number | undefined => {
  const index = fieldsOf(value)?.['index']
  return typeof index === 'number' ? index : undefined
}

/** Which text of the answer an event continues, in the formats whose events say it. */
function partOf(data: unknown): string {
  const { item_id: item, output_index: output, content_index: part, index } = fieldsOf(data) ?? {}
  return [item, output, part, index].join('/')
}
