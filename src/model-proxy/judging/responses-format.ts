import { fieldsOf, textOf } from '../protocols/protocol.ts'
import { bringsFetched, listOf, saysSomething, unreadable } from './chat-format.ts'
import { listIn, notDocumented, objectIn, positionIn, stringIn } from './documented.ts'
import { answerOf, inOrder, namedEvent, readArguments, whenKnown } from './events.ts'
import type { CallJudge, EventJudge, Fields, HistoryResult, JudgedFormat, ModelCall, MutableFields } from './ports.ts'

/** OpenAI's Responses. */
export const responsesFormat: JudgedFormat = {
  refersToStored: ({ previous_response_id: previous }) => saysSomething(previous),
  // Conversations and prompts are filled at the provider.
  refersToUnseen: ({ conversation, prompt, input }) =>
    saysSomething(conversation) || saysSomething(prompt) || listOf(input).some(bringsFetched),
  references: (body) =>
    listOf(body['input'])
      .filter(isReference)
      .map((item) => ({ id: textOf(item['id']), replace: (text) => asMessage(item, text) })),
  providerTools: (body) => listOf(body['tools']).flatMap((tool) => providerToolOf(tool) ?? []),
  removeTools(body, tools) {
    body['tools'] = listOf(body['tools']).filter((tool) => !tools.has(providerToolOf(tool) ?? ''))
  },
  results,
  beginning(body) {
    const items = listOf(body['input'])
    const first = items.findIndex(
      (item) => item['role'] === 'assistant' || isCallType(item['type']) || isReference(item),
    )
    if (first === -1) return undefined
    return items.slice(0, first + 1).filter(({ role }) => role !== 'system' && role !== 'developer')
  },
  marks: ['_call', '"output"', '"encrypted_content"', '"reasoning"', 'output_item.added'],
  whole: async (answer, judge) => judgeOutput(objectIn(answer)?.['output'], judge, new Map()),
  events: responseEvents,
}

/** Tools that OpenAI runs, by the prefix of their type. */
const PROVIDER_TOOL = /^(web_search|file_search|code_interpreter|mcp)(?:_|$)/
const PROVIDER_CALL = /^(?:(web_search|file_search|code_interpreter|mcp)_call|(shell)_call_output)$/
/** Tools that the program runs, or that return nothing from outside. What is not known here may be run by the provider. */
const otherTools: ReadonlySet<string> = new Set([
  'apply_patch',
  'computer',
  'computer_use_preview',
  'custom',
  'function',
  'image_generation',
  'local_shell',
  'namespace',
  'programmatic_tool_calling',
  'tool_search',
])

function providerToolOf({ type, environment }: Fields): string | undefined {
  if (typeof type !== 'string' || otherTools.has(type)) return undefined
  const location = textOf(fieldsOf(environment)?.['type']) ?? 'local'
  if (type === 'shell') return location === 'local' ? undefined : type
  return PROVIDER_TOOL.exec(type)?.[1] ?? type
}

/** The name of the provider's tool whose result is an item of an answer. */
function ranIn(item: Fields | undefined): string | undefined {
  const [, name, shell] = PROVIDER_CALL.exec(textOf(item?.['type']) ?? '') ?? []
  return name ?? shell
}

/**
 * An item that the provider has, and that the request does not repeat. Its type may be left out. A compacted history is readable for
 * the provider alone.
 */
const isReference = ({ type, role }: Fields): boolean =>
  type === 'item_reference' || type === 'compaction' || (textOf(type) === undefined && textOf(role) === undefined)

/** Calls that the program carries out. */
const callTypes: Readonly<Record<string, (item: Fields) => unknown>> = {
  function_call: ({ arguments: text }) => readArguments(text),
  custom_tool_call: ({ input }) => ({ input }),
  local_shell_call: ({ action }) => action,
  shell_call: ({ action }) => action,
  apply_patch_call: ({ operation }) => operation,
  computer_call: ({ action, actions }) => action ?? { actions },
}
const isCallType = (type: unknown): type is string => typeof type === 'string' && Object.hasOwn(callTypes, type)

function callOf(item: Fields): ModelCall {
  const type = textOf(item['type'])!
  const plain = textOf(item['name']) ?? type.slice(0, -'_call'.length)
  const namespace = textOf(item['namespace'])
  const name = namespace === undefined ? plain : `${namespace}__${plain}`
  return { id: textOf(item['call_id']), name, args: callTypes[type]!(item) }
}

/** A call in an answer, as it is compared with another that has the same id. */
function answeredCall(item: Fields): ModelCall {
  if (namedCalls.has(String(item['type'])) && typeof item['name'] !== 'string') throw notDocumented()
  return callOf(item)
}
const namedCalls: ReadonlySet<string> = new Set(['function_call', 'custom_tool_call'])
const contentOf = (item: Fields): string => {
  const { name, args } = answeredCall(item)
  return JSON.stringify([item['type'], name, args])
}

function results(body: Fields, stored?: ReadonlyMap<string, ModelCall>): readonly HistoryResult[] {
  const found: HistoryResult[] = []
  const items = listOf(body['input'])
  let calls: Map<string, ModelCall> | undefined
  for (const item of items) {
    const type = textOf(item['type']) ?? ''
    const provider = type === 'shell_call_output' ? undefined : ranIn(item)
    if (provider !== undefined) {
      found.push({ call: { name: provider, args: {} }, value: item, replace: (text) => asMessage(item, text) })
    } else if (type.endsWith('_call_output')) {
      calls ??= new Map(
        items.filter(({ type }) => isCallType(type)).map((one) => [String(one['call_id']), callOf(one)]),
      )
      const callId = String(item['call_id'])
      found.push({
        call: calls.get(callId) ?? stored?.get(callId),
        value: answerOf(item['output']),
        replace(text) {
          item['output'] = text
        },
      })
    }
  }
  return found
}

function asMessage(item: MutableFields, text: string): void {
  for (const key of Object.keys(item)) delete item[key]
  Object.assign(item, { type: 'message', role: 'assistant', content: [{ type: 'output_text', text }] })
}

/** A call of a stream, and the text that replaces it; null if it is allowed. */
type JudgedItem = Readonly<{ content: string; text: string | null }>

/** `judged` has the items of a stream that were judged already, by id. */
async function judgeOutput(
  output: unknown,
  judge: CallJudge,
  judged: ReadonlyMap<string, JudgedItem>,
): Promise<boolean> {
  let isChanged = false
  const items = listIn(output) as MutableFields[]
  for (const [index, item] of items.entries()) {
    const provider = ranIn(item)
    if (provider !== undefined) judge.providerRan(provider)
    const id = textOf(item['id'])
    if (id !== undefined) judge.wrote(id)
    if (!isCallType(stringIn(item['type']))) continue
    const before = keyOf(item) === '' ? undefined : judged.get(keyOf(item))
    const isSame = before !== undefined && (before.text !== null || before.content === contentOf(item))
    const refusal = isSame ? (before.text ?? undefined) : await judge.refusalOf(answeredCall(item))
    if (refusal === undefined) continue
    isChanged = true
    judge.wrote(messageId(item), refusal)
    items[index] = messageItem(item, refusal)
  }
  return isChanged
}

const keyOf = (item: Fields): string => textOf(item['call_id']) ?? textOf(item['id']) ?? ''

const partOf = (text: string) => ({ type: 'output_text', annotations: [], logprobs: [], text })
const messageItem = (item: Fields, text: string) => ({
  id: messageId(item),
  type: 'message',
  status: 'completed',
  role: 'assistant',
  content: [partOf(text)],
})
const messageId = (item: Fields): string => `msg_${(textOf(item['id']) ?? keyOf(item)).replace(/^[a-z]+_/, '')}`

/** The announcement of a call, and what came of it until it was complete. */
type OpenCall = { item: Fields | undefined; name: unknown; parts: string; whole: string | undefined }

/** Events with parts of an item; the first group is the item's type. */
const ITEM_PART = /^response\.([a-z_]+?_call)(?!_output)/
const isPartOfCall = (type: unknown): boolean => isCallType(ITEM_PART.exec(String(type))?.[1])

const argumentsIn = (item: Fields): string =>
  namedCalls.has(String(item['type']))
    ? stringIn(item['type'] === 'function_call' ? item['arguments'] : item['input'])
    : ''

/** Programs take the name and the arguments of a call from any of its events, so all of them must say the same. */
function isConsistent({ item: announced, name, parts, whole }: OpenCall, item: Fields): boolean {
  if (!isCallType(item['type'])) return false
  const said = argumentsIn(item)
  if ((whole ?? said) !== said || (name ?? item['name']) !== item['name'] || (parts || said) !== said) return false
  if (announced === undefined) return true
  const isSame = (member: string): boolean => (announced[member] ?? null) === (item[member] ?? null)
  return (argumentsIn(announced) || said) === said && ['type', 'name', 'namespace', 'call_id'].every(isSame)
}

/** Items come one after the other. From the beginning of a call until it is complete everything is held. */
function responseEvents(judge: CallJudge): EventJudge {
  const held: Readonly<{ bytes: Buffer; data: Fields }>[] = []
  const open = new Map<number, OpenCall>()
  const done = new Map<number, Readonly<{ item: Fields; isSound: boolean }>>()
  const judged = new Map<string, JudgedItem>()
  let heldBytes = 0
  /** Programs number items in the order of their announcement. */
  let announced = 0
  /** How many more events were sent than the provider sent. */
  let shift = 0

  function pass(bytes: Buffer, data: Fields | undefined, out: Buffer[]): void {
    if (shift === 0 || data === undefined) out.push(bytes)
    else out.push(numbered(data, Number(data['sequence_number']) + shift))
  }

  function settle(out: Buffer[]): void | Promise<void> {
    const events = held.splice(0)
    heldBytes = 0
    const items = [...done]
    done.clear()
    open.clear()
    const refusals = new Map<unknown, Readonly<{ item: Fields; text: string }>>()
    const judging = inOrder(items, ([index, { item, isSound }]) =>
      whenKnown(judge.refusalOf(isSound ? answeredCall(item) : unreadable), (text) => {
        if (isCallType(item['type'])) judged.set(keyOf(item), { content: contentOf(item), text: text ?? null })
        if (text !== undefined) refusals.set(index, { item, text })
      }),
    )
    const flush = (): void => {
      for (const { bytes, data } of events) {
        const index = data['output_index']
        const refusal = refusals.get(index)
        if (refusal === undefined) pass(bytes, data, out)
        else if (data['type'] !== DONE) shift--
        else {
          const replaced = messageEventsOf(index, refusal)
          const first = Number(data['sequence_number']) + shift
          out.push(...replaced.map((event, offset) => numbered(event, first + offset)))
          shift += replaced.length - 1
        }
      }
    }
    return judging instanceof Promise ? judging.then(flush) : flush()
  }

  function whole(bytes: Buffer, data: Fields, output: readonly unknown[], out: Buffer[]): Promise<void> {
    return judgeOutput(output, judge, judged).then((isChanged) => {
      if (isChanged) out.push(numbered(data, Number(data['sequence_number']) + shift))
      else pass(bytes, data, out)
    })
  }

  function begin(data: Fields, item: Fields): void {
    const index = indexIn(data)
    if (index !== announced || open.has(index)) throw notDocumented()
    open.set(index, opened(item))
  }

  /** Of a call that was judged, or never announced, some programs would still add it. */
  function addPart(data: Fields): void {
    const call = open.get(indexIn(data))
    if (call === undefined || done.has(indexIn(data))) throw notDocumented()
    const isNamed = namedCalls.has(String(call.item?.['type']))
    if (!isNamed) return
    call.name = data['name'] ?? call.name
    if (String(data['type']).endsWith('.delta')) call.parts += stringIn(data['delta'])
    else call.whole = stringIn(data['arguments'] ?? data['input'])
  }

  return {
    take(bytes, event, out) {
      const data = fieldsOf(event)
      const type = data?.['type']
      const item = objectIn(data?.['item'])
      const isCall = isCallType(item?.['type'])
      if (type === ADDED) {
        if (isCall) begin(data!, item!)
        announced++
      }
      // The whole answer so far: complete at the end, and usually empty at the beginning.
      const response = objectIn(data?.['response'])
      const output = listIn(response?.['output'])
      if (output.length > 0) return whole(bytes, data!, output, out)
      if (isPartOfCall(type)) addPart(data!)
      // Some servers announce no item before it is complete.
      if (type === DONE && isCall && !open.has(indexIn(data!))) open.set(indexIn(data!), opened(undefined))
      if (open.size > 0 && data !== undefined && response === undefined) {
        held.push({ bytes, data })
        heldBytes += bytes.length
        const call = type === DONE && item !== undefined ? open.get(indexIn(data)) : undefined
        if (call === undefined) return
        done.set(indexIn(data), { item: item!, isSound: isConsistent(call, item!) })
        return done.size === open.size ? settle(out) : undefined
      }
      const provider = type === DONE ? ranIn(item) : undefined
      if (provider !== undefined) judge.providerRan(provider)
      pass(bytes, data, out)
    },
    isActive: () => held.length > 0 || shift !== 0,
    heldBytes: () => heldBytes,
  }
}

const [ADDED, DONE] = ['response.output_item.added', 'response.output_item.done']
const opened = (item: Fields | undefined): OpenCall => ({ item, name: undefined, parts: '', whole: undefined })

function indexIn(data: Fields): number {
  const index = positionIn(data['output_index'])
  if (index === undefined) throw notDocumented()
  return index
}

const numbered = (data: Fields, sequence: number): Buffer =>
  namedEvent({
    ...data,
    ...(Number.isFinite(sequence) && { sequence_number: sequence }),
  } as unknown as Readonly<{ type: string }>)

/** A message that replaces a call, as the provider would send it. */
function messageEventsOf(index: unknown, { item, text }: Readonly<{ item: Fields; text: string }>): readonly Fields[] {
  const position = { item_id: messageId(item), output_index: index, content_index: 0 }
  const whole = messageItem(item, text)
  return [
    {
      type: 'response.output_item.added',
      output_index: index,
      item: { ...whole, status: 'in_progress', content: [] },
    },
    { type: 'response.content_part.added', ...position, part: partOf('') },
    { type: 'response.output_text.delta', ...position, delta: text, logprobs: [] },
    { type: 'response.output_text.done', ...position, text, logprobs: [] },
    { type: 'response.content_part.done', ...position, part: partOf(text) },
    { type: 'response.output_item.done', output_index: index, item: whole },
  ]
}
