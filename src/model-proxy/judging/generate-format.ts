import { fieldsOf, textOf } from '../protocols/protocol.ts'
import { listOf, saysSomething, unreadable } from './chat-format.ts'
import { listIn, objectIn } from './documented.ts'
import { answerOf, dataEvent, readArguments } from './events.ts'
import { isFetched } from './fetched-content.ts'
import type { CallJudge, EventJudge, Fields, HistoryResult, JudgedFormat, ModelCall, MutableFields } from './ports.ts'

/** Gemini's generateContent and its stream. Both spellings of a member mean the same there. */
export const generateFormat: JudgedFormat = {
  refersToUnseen: (body) =>
    saysSomething(spelt(body, 'cachedContent')) ||
    [...listOf(body['contents']), ...listOf(spelt(body, 'systemInstruction'))].some(bringsFetched),
  providerTools: (body) => listOf(body['tools']).flatMap(providerToolsOf),
  removeTools(body, tools) {
    const retained = listOf(body['tools'])
      .map((tool) => Object.fromEntries(Object.entries(tool).filter(([key]) => !tools.has(snakeCase(key)))))
      .filter((tool) => Object.keys(tool).length > 0)
    if (retained.length > 0) body['tools'] = retained
    else delete body['tools']
  },
  results,
  beginning(body) {
    const contents = listOf(body['contents'])
    const first = contents.findIndex(({ role }) => role === 'model')
    return first === -1 ? undefined : contents.slice(0, first + 1)
  },
  marks: [
    ...['functionCall', 'codeExecutionResult', 'groundingMetadata', 'urlContextMetadata', 'thoughtSignature'],
  ].flatMap((name) => [`"${name}"`, `"${snakeCase(name)}"`]),
  whole: judgeParts,
  events: generateEvents,
}

function snakeCase(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
/** A member in either spelling. */
function spelt(fields: Fields, name: string): unknown {
  return fields[name] ?? fields[snakeCase(name)]
}

const providerToolsOf = (tool: Fields): string[] =>
  Object.keys(tool)
    .map(snakeCase)
    .filter((key) => key !== 'function_declarations' && key !== 'computer_use')

/** A result of a tool is judged as such. */
const bringsFetched = (content: Fields): boolean =>
  content['role'] !== 'model' &&
  partsOf(content).some(({ functionResponse: _, function_response: __, ...part }) => isFetched(part))

const partsOf = (content: unknown): readonly MutableFields[] => listOf(fieldsOf(content)?.['parts'])

function callOf(value: unknown): ModelCall | undefined {
  const call = fieldsOf(value)
  const name = textOf(call?.['name'])
  if (call === undefined || name === undefined) return undefined
  // Arguments that come in parts are incomplete when the call is judged.
  const isPartial = spelt(call, 'partialArgs') !== undefined || spelt(call, 'willContinue') === true
  return { id: textOf(call['id']), name, args: isPartial ? undefined : readArguments(call['args']) }
}

function results(body: Fields): readonly HistoryResult[] {
  const found: HistoryResult[] = []
  const contents = listOf(body['contents'])
  const calls = new KnownCalls(contents)
  for (const content of contents) {
    calls.turnTo(content)
    for (const part of partsOf(content)) {
      const answered = fieldsOf(part['functionResponse'] ?? part['function_response']) as MutableFields | undefined
      const ran = fieldsOf(part['codeExecutionResult'] ?? part['code_execution_result'])
      if (ran !== undefined) {
        found.push({
          call: { name: 'code_execution', args: {} },
          value: answerOf(textOf(ran['output']) ?? ''),
          replace(text) {
            for (const key of Object.keys(part)) delete part[key]
            part['text'] = text
          },
        })
      }
      if (answered === undefined) continue
      found.push({
        call: calls.answeredBy(answered),
        value: insideOf(answered['response']),
        replace(text) {
          answered['response'] = { output: text }
          delete answered['parts']
        },
      })
    }
  }
  return found
}

/** Calls of Gemini need no id. Results without one answer the calls of their name in the turn before, in their order. */
class KnownCalls {
  readonly #byContent = new Map<Fields, readonly ModelCall[]>()
  readonly #byId = new Map<string, ModelCall>()
  readonly #lastOf = new Map<string, ModelCall>()
  #turn = new Map<string, ModelCall[]>()

  constructor(contents: readonly Fields[]) {
    for (const content of contents) {
      const calls = partsOf(content).flatMap((part) => callOf(part['functionCall'] ?? part['function_call']) ?? [])
      if (calls.length > 0) this.#byContent.set(content, calls)
      for (const call of calls) {
        this.#lastOf.set(call.name, call)
        if (call.id !== undefined) this.#byId.set(call.id, call)
      }
    }
  }

  turnTo(content: Fields): void {
    const calls = this.#byContent.get(content)
    // The first is at the end, to be taken from there.
    if (calls !== undefined) this.#turn = Map.groupBy(calls.toReversed(), ({ name }) => name)
  }

  answeredBy(answered: Fields): ModelCall | undefined {
    const id = textOf(answered['id'])
    const name = textOf(answered['name'])
    const known = id === undefined ? undefined : this.#byId.get(id)
    if (known !== undefined || name === undefined) return known
    return this.#turn.get(name)?.pop() ?? this.#lastOf.get(name) ?? { name, args: undefined }
  }
}

/** Unwraps a text that a program put into an object. */
function insideOf(response: unknown): unknown {
  const fields = fieldsOf(response)
  const text = textOf(fields?.['output']) ?? textOf(fields?.['result']) ?? textOf(fields?.['content'])
  const isAlone = fields !== undefined && Object.keys(fields).every((key) => key === 'name' || wrappers.has(key))
  return text !== undefined && isAlone ? answerOf(text) : response
}
const wrappers: ReadonlySet<string> = new Set(['output', 'result', 'content'])

/** Changes one answer, or one event, in place. */
async function judgeParts(answer: unknown, judge: CallJudge): Promise<boolean> {
  let isChanged = false
  for (const candidate of listIn(objectIn(answer)?.['candidates'])) {
    if (spelt(candidate, 'groundingMetadata') !== undefined) judge.providerRan('google_search')
    if (spelt(candidate, 'urlContextMetadata') !== undefined) judge.providerRan('url_context')
    for (const part of listIn(objectIn(candidate['content'])?.['parts'])) {
      if (spelt(part, 'codeExecutionResult') !== undefined) judge.providerRan('code_execution')
      const { functionCall = part['function_call'] } = part
      if (functionCall === undefined) continue
      // Of two calls in one part, programs differ in which they take.
      const isTwice = part['functionCall'] !== undefined && part['function_call'] !== undefined
      const refusal = await judge.refusalOf((isTwice ? undefined : callOf(functionCall)) ?? unreadable)
      if (refusal === undefined) continue
      isChanged = true
      for (const key of Object.keys(part)) delete part[key]
      part['text'] = refusal
    }
  }
  return isChanged
}

/** A call is in one event, whole. */
function generateEvents(judge: CallJudge): EventJudge {
  return {
    async take(bytes, data, out) {
      out.push((await judgeParts(data, judge)) ? dataEvent(data) : bytes)
    },
    isActive: () => false,
    heldBytes: () => 0,
  }
}
