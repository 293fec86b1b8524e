import { fieldsOf, textOf } from '../protocols/protocol.ts'
import { listIn, notDocumented, objectIn, positionIn, stringIn } from './documented.ts'
import { answerOf, dataEvent, inOrder, readArguments, whenKnown } from './events.ts'
import { isFetched } from './fetched-content.ts'
import type { CallJudge, EventJudge, Fields, HistoryResult, JudgedFormat, ModelCall, MutableFields } from './ports.ts'

/** OpenAI's Chat Completions, and compatible servers. */
export const chatFormat: JudgedFormat = {
  refersToUnseen: (body) => listOf(body['messages']).some(bringsFetched),
  providerTools: (body) => [
    ...(SEARCHES.some((name) => fieldsOf(body[name]) !== undefined) ? [WEB_SEARCH] : []),
    ...listOf(body['tools']).flatMap((tool) => providerToolOf(tool) ?? []),
  ],
  removeTools(body, tools) {
    if (tools.has(WEB_SEARCH)) for (const name of SEARCHES) delete body[name]
    const all = listOf(body['tools'])
    const retained = all.filter((tool) => !tools.has(providerToolOf(tool) ?? ''))
    if (retained.length === all.length) return
    if (retained.length > 0) body['tools'] = retained
    else {
      delete body['tools']
      delete body['tool_choice']
    }
  },
  results,
  beginning(body) {
    const messages = listOf(body['messages'])
    const first = messages.findIndex(({ role }) => role === 'assistant')
    return first === -1 ? undefined : spoken(messages.slice(0, first + 1))
  },
  marks: ['"tool_calls"', '"function_call"', '"url_citation"', '"reasoning_details"', '"thought_signature"'],
  whole: (answer, judge) => judgeWhole(answer, judge),
  events: (judge) => chatEvents(judge),
}

const WEB_SEARCH = 'web_search'
/** Members of requests with which OpenAI and compatible servers search the web. */
const SEARCHES = ['web_search_options', 'search_parameters', 'plugins'] as const

/** Compatible servers run tools of their own, each by its type. */
const providerToolOf = ({ type }: Fields): string | undefined =>
  typeof type !== 'string' || type === 'function' || type === 'custom' ? undefined : type

/** Whether a message of the program has a part that the provider fetches. Results of tools are judged as such. */
export const bringsFetched = ({ role, content }: Fields): boolean =>
  role !== 'assistant' && role !== 'tool' && typeof content === 'object' && listOf(content).some(isFetchedPart)
const isFetchedPart = (part: Fields): boolean => part['type'] !== 'tool_result' && isFetched(part)

/** Links to what the provider found. */
function noteSearch(message: Fields, judge: CallJudge): void {
  if (listOf(message['annotations']).some(({ type }) => type === 'url_citation')) judge.providerRan(WEB_SEARCH)
}

/** Whether a member is present and not empty. */
export const saysSomething = (value: unknown): boolean => value !== undefined && value !== null && value !== ''

/** Providers accept a single item as a list of one. */
export const listOf = (value: unknown): readonly MutableFields[] =>
  (Array.isArray(value) ? value : [value]).filter((item): item is MutableFields => fieldsOf(item) !== undefined)

/** Instructions change from request to request, for example with the date. */
const spoken = (messages: readonly Fields[]): readonly Fields[] =>
  messages.filter(({ role }) => role !== 'system' && role !== 'developer')

function callOf(value: unknown): ModelCall | undefined {
  const call = fieldsOf(value)
  const custom = fieldsOf(call?.['custom'])
  const called = custom ?? fieldsOf(call?.['function']) ?? call
  const name = textOf(called?.['name'])
  if (name === undefined) return undefined
  const args = custom === undefined ? readArguments(called?.['arguments']) : { input: custom['input'] }
  return { id: textOf(call?.['id']), name, args }
}

/** A call in an answer. Of two in one, programs differ in which they take. */
function answeredCall(call: Fields): ModelCall {
  if (objectIn(call['function']) !== undefined && objectIn(call['custom']) !== undefined) throw notDocumented()
  return callOf(call) ?? unreadable
}

function results(body: Fields): readonly HistoryResult[] {
  const found: HistoryResult[] = []
  const calls = new KnownCalls()
  for (const message of listOf(body['messages'])) {
    const { role } = message
    if (role !== 'tool' && role !== 'function') {
      calls.take(message)
      continue
    }
    found.push({
      call: calls.answeredBy(message),
      value: answerOf(message['content']),
      replace(text) {
        message['content'] = text
      },
    })
  }
  return found
}

/** Some compatible servers give all calls of a turn one id, or those of each turn the same ids. */
class KnownCalls {
  readonly #byId = new Map<string, ModelCall[]>()
  /** The call of a message of the older kind, which has no id. */
  #old: ModelCall | undefined

  /** The calls of the next message of the model. */
  take(message: Fields): void {
    this.#old = callOf(message['function_call']) ?? this.#old
    const calls = listOf(message['tool_calls']).flatMap((one) => callOf(one) ?? [])
    if (calls.length === 0) return
    // The first is at the end, to be taken from there.
    for (const [id, same] of Map.groupBy(calls.toReversed(), ({ id = '' }) => id)) this.#byId.set(id, same)
  }

  answeredBy({ role, name, tool_call_id: id }: Fields): ModelCall | undefined {
    const same = this.#byId.get(textOf(id) ?? '')
    const known = same !== undefined && same.length > 1 ? same.pop() : same?.[0]
    if (known !== undefined || role !== 'function' || typeof name !== 'string') return known
    return this.#old?.name === name ? this.#old : { name, args: undefined }
  }
}

async function judgeWhole(answer: unknown, judge: CallJudge): Promise<boolean> {
  let isChanged = false
  for (const choice of listIn(objectIn(answer)?.['choices'])) {
    const message = objectIn(choice['message'])
    if (message === undefined) continue
    noteSearch(message, judge)
    const refusals: string[] = []
    const allowed: unknown[] = []
    for (const one of listIn(message['tool_calls'])) {
      const refusal = await judge.refusalOf(answeredCall(one))
      if (refusal === undefined) allowed.push(one)
      else refusals.push(refusal)
    }
    const old = objectIn(message['function_call'])
    const refusal = old === undefined ? undefined : await judge.refusalOf(answeredCall(old))
    if (refusal !== undefined) {
      refusals.push(refusal)
      delete message['function_call']
    }
    if (refusals.length === 0) continue
    isChanged = true
    if (allowed.length === 0) delete message['tool_calls']
    else message['tool_calls'] = allowed
    const before = textOf(message['content'])
    message['content'] = [...(before ? [before] : []), ...refusals].join('\n\n')
    if (allowed.length === 0) choice['finish_reason'] = endReason(choice['finish_reason'])
  }
  return isChanged
}

export const unreadable: ModelCall = { name: '', args: undefined }

const endReason = (reason: unknown): unknown =>
  reason === 'tool_calls' || reason === 'function_call' ? 'stop' : reason

type StreamedCall = {
  id?: string | undefined
  name: string
  text: string
  isCustom: boolean
  /** Its parts have different names, or come after its end; some programs take the last, others concatenate all. */
  isAmbiguous: boolean
}
/** The index of the call in the old format, which has only one. */
const OLD_CALL = -1

/** Calls come in parts that may alternate. They are held until their choice is finished. */
function chatEvents(judge: CallJudge): EventJudge {
  const held: Readonly<{ bytes: Buffer; data: Fields }>[] = []
  const calls = new Map<number, Map<number, StreamedCall>>()
  const finished = new Set<number>()
  /** Calls that were judged. A program would add a later part to one of them. */
  const settled = new Set<string>()
  let heldBytes = 0
  let hasText = false

  function settle(out: Buffer[]): void | Promise<void> {
    const events = held.splice(0)
    heldBytes = 0
    const all = [...calls].flatMap(([choice, own]) => [...own].map(([index, call]) => ({ choice, index, call })))
    const refusals = new Map<string, string>()
    const judged = inOrder(all, ({ choice, index, call }) => {
      const { id, name, text, isCustom, isAmbiguous } = call
      // A part without a name belongs to a call that was judged before it was complete.
      const args = isAmbiguous || name === '' ? undefined : isCustom ? { input: text } : readArguments(text)
      const refusal = judge.refusalOf({ id, name, args })
      return whenKnown(refusal, (said) => void (said !== undefined && refusals.set(`${choice}/${index}`, said)))
    })
    const flush = (): void => {
      for (const { choice, index } of all) settled.add(`${choice}/${index}`)
      if (refusals.size === 0) out.push(...events.map(({ bytes }) => bytes))
      else out.push(...rewritten(events, calls, refusals, hasText))
      calls.clear()
      finished.clear()
    }
    return judged instanceof Promise ? judged.then(flush) : flush()
  }

  function take(bytes: Buffer, event: unknown, out: Buffer[]): void | Promise<void> {
    const data = fieldsOf(event)
    if (data === undefined) {
      // After the last line unfinished calls stay unfinished. Other lines without data are comments, which come at any time.
      const pending = held.length === 0 || !isLast(bytes) ? undefined : settle(out)
      return pending instanceof Promise ? pending.then(() => void out.push(bytes)) : void out.push(bytes)
    }
    let isHeld = false
    const choices = listIn(data['choices'])
    if (choices.some(callsTwice)) return
    for (const choice of choices) {
      const index = positionIn(choice['index']) ?? 0
      const delta = deltaIn(choice)
      if (delta !== undefined) noteSearch(delta, judge)
      if (delta !== undefined && gather(delta, index, calls, settled)) isHeld = true
      else if (textOf(delta?.['content'])) hasText = true
      if (textOf(choice['finish_reason']) !== undefined && calls.has(index)) {
        finished.add(index)
        isHeld = true
      }
    }
    if (!isHeld) return void out.push(bytes)
    held.push({ bytes, data })
    heldBytes += bytes.length
    if (finished.size === calls.size) return settle(out)
  }

  return {
    take,
    isActive: () => held.length > 0,
    heldBytes: () => heldBytes,
  }
}

const hasCalls = (value: unknown): boolean => {
  const { tool_calls: calls, function_call: old } = fieldsOf(value) ?? {}
  return saysSomething(calls) || saysSomething(old)
}
/** Programs differ in which of the two they read, so such an event does not pass. */
const callsTwice = ({ delta, message }: Fields): boolean => hasCalls(delta) && hasCalls(message)

/** Some servers stream whole messages instead. */
function deltaIn(choice: MutableFields): Fields | undefined {
  const message = objectIn(choice['message'])
  if (message === undefined) return objectIn(choice['delta'])
  delete choice['message']
  const delta = { ...objectIn(choice['delta']), ...message }
  choice['delta'] = delta
  return delta
}

const isLast = (event: Buffer): boolean => /^data: ?\[DONE\]/m.test(event.toString('latin1'))

/** Adds the parts of calls in a delta; returns whether there were any. */
function gather(
  delta: Fields,
  choice: number,
  calls: Map<number, Map<number, StreamedCall>>,
  settled: ReadonlySet<string>,
): boolean {
  const old = objectIn(delta['function_call'])
  const listed = listIn(delta['tool_calls'])
  // To some programs, calls without an index are one.
  if (listed.length > 1 && listed.some(({ index }) => positionIn(index) === undefined)) throw notDocumented()
  const parts = [
    ...listed.map((part, position) => ({ index: indexOf(part, position), part })),
    ...(old === undefined ? [] : [{ index: OLD_CALL, part: { function: old } as Fields }]),
  ]
  if (parts.length === 0) return false
  const own = calls.get(choice) ?? new Map<number, StreamedCall>()
  calls.set(choice, own)
  for (const { index, part } of parts) {
    const custom = objectIn(part['custom'])
    const plain = objectIn(part['function'])
    if (custom !== undefined && plain !== undefined) throw notDocumented()
    const called = custom ?? plain
    const known = own.get(index)
    const call = known ?? { name: '', text: '', isCustom: custom !== undefined, isAmbiguous: false }
    own.set(index, call)
    const isOther = called !== undefined && call.isCustom !== (custom !== undefined)
    // Whether a second part without an index belongs to the same call, programs decide differently.
    const isUnnumbered = known !== undefined && index !== OLD_CALL && positionIn(part['index']) === undefined
    if (isOther || isUnnumbered || settled.has(`${choice}/${index}`)) call.isAmbiguous = true
    call.id ??= textOf(part['id'])
    const name = stringIn(called?.['name'])
    if (call.name === '') call.name = name
    else if (name !== '' && name !== call.name) call.isAmbiguous = true
    call.text += stringIn(called?.[call.isCustom ? 'input' : 'arguments'])
  }
  return true
}

const indexOf = (part: Fields, position: number): number => positionIn(part['index']) ?? position

/** Allowed calls keep their parts and are renumbered; each other call becomes a text. */
function rewritten(
  events: readonly Readonly<{ data: Fields }>[],
  calls: ReadonlyMap<number, ReadonlyMap<number, StreamedCall>>,
  refusals: Map<string, string>,
  hasText: boolean,
): Buffer[] {
  const numbers = new Map<string, number>()
  const allowed = new Map<number, number>()
  for (const [choice, own] of calls) {
    let next = 0
    for (const index of own.keys()) {
      if (refusals.has(`${choice}/${index}`)) continue
      numbers.set(`${choice}/${index}`, index === OLD_CALL ? OLD_CALL : next++)
      allowed.set(choice, (allowed.get(choice) ?? 0) + 1)
    }
  }
  let separator = hasText ? '\n\n' : ''
  const rewrite = (choice: MutableFields): void => {
    const number = typeof choice['index'] === 'number' ? choice['index'] : 0
    const delta = fieldsOf(choice['delta']) as MutableFields | undefined
    const said: string[] = []
    const tell = (index: number): void => {
      const text = refusals.get(`${number}/${index}`)
      if (text === undefined || text === '') return
      said.push(`${separator}${text}`)
      separator = '\n\n'
      refusals.set(`${number}/${index}`, '')
    }
    if (delta !== undefined) {
      const retained = listOf(delta['tool_calls']).flatMap((part, position) => {
        const index = indexOf(part, position)
        const renumbered = numbers.get(`${number}/${index}`)
        if (renumbered !== undefined) return [{ ...part, index: renumbered }]
        tell(index)
        return []
      })
      if (retained.length > 0) delta['tool_calls'] = retained
      else delete delta['tool_calls']
      if (delta['function_call'] !== undefined && !numbers.has(`${number}/${OLD_CALL}`)) {
        delete delta['function_call']
        tell(OLD_CALL)
      }
      if (said.length > 0) delta['content'] = (textOf(delta['content']) ?? '') + said.join('')
    }
    if (!allowed.has(number)) choice['finish_reason'] = endReason(choice['finish_reason'])
  }
  return events.flatMap(({ data }) => {
    const choices = listOf(data['choices'])
    choices.forEach(rewrite)
    const isEmpty = choices.every(
      ({ delta, finish_reason: reason }) => Object.keys(fieldsOf(delta) ?? {}).length === 0 && !reason,
    )
    return isEmpty && data['usage'] === undefined ? [] : [dataEvent(data)]
  })
}
