import { fieldsOf, textOf } from '../protocols/protocol.ts'
import { listOf, saysSomething } from './chat-format.ts'
import { answerOf, inOrder, namedEvent, readArguments, whenKnown } from './events.ts'
import type { CallJudge, EventJudge, Fields, HistoryResult, JudgedFormat, ModelCall, MutableFields } from './ports.ts'

/** OpenAI's Responses. */
export const responsesFormat: JudgedFormat = {
  refersToStored: ({ previous_response_id: previous }) => saysSomething(previous),
  providerTools: (body) => listOf(body['tools']).flatMap((tool) => providerToolOf(tool['type']) ?? []),
  removeTools(body, tools) {
    body['tools'] = listOf(body['tools']).filter(({ type }) => !tools.has(providerToolOf(type) ?? ''))
  },
  results,
  beginning(body) {
    const items = listOf(body['input'])
    const first = items.findIndex(({ role, type }) => role === 'assistant' || isCallType(type))
    if (first === -1) return undefined
    return items.slice(0, first + 1).filter(({ role }) => role !== 'system' && role !== 'developer')
  },
  marks: ['_call', '"response.completed"', '"response.incomplete"', '"response.failed"'],
  whole: (answer, judge) => judgeOutput(fieldsOf(answer)?.['output'], judge, new Map()),
  events: responseEvents,
}

/** Those that OpenAI runs, by the beginning of their type. */
const PROVIDER_TOOL = /^(web_search|file_search|code_interpreter|mcp)(?:_|$)/
const PROVIDER_CALL = /^(web_search|file_search|code_interpreter|mcp)_call$/

const providerToolOf = (type: unknown): string | undefined =>
  typeof type === 'string' ? PROVIDER_TOOL.exec(type)?.[1] : undefined

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

function results(body: Fields): readonly HistoryResult[] {
  const found: HistoryResult[] = []
  const items = listOf(body['input'])
  let calls: Map<string, ModelCall> | undefined
  for (const item of items) {
    const type = textOf(item['type']) ?? ''
    const provider = PROVIDER_CALL.exec(type)?.[1]
    if (provider !== undefined) {
      found.push({ call: { name: provider, args: {} }, value: item, replace: (text) => asMessage(item, text) })
    } else if (type.endsWith('_call_output')) {
      calls ??= new Map(
        items.filter(({ type }) => isCallType(type)).map((one) => [String(one['call_id']), callOf(one)]),
      )
      found.push({
        call: calls.get(String(item['call_id'])),
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

/** `judged` has the items of a stream that were judged before they came once more, by id; null for those allowed. */
async function judgeOutput(
  output: unknown,
  judge: CallJudge,
  judged: ReadonlyMap<string, string | null>,
): Promise<boolean> {
  if (!Array.isArray(output)) return false
  let isChanged = false
  for (const [index, one] of output.entries()) {
    const item = fieldsOf(one)
    const provider = PROVIDER_CALL.exec(textOf(item?.['type']) ?? '')?.[1]
    if (provider !== undefined) judge.providerRan(provider)
    if (item === undefined || !isCallType(item['type'])) continue
    const before = judged.get(keyOf(item))
    const refusal = before === undefined ? await judge.refusalOf(callOf(item)) : (before ?? undefined)
    if (refusal === undefined) continue
    isChanged = true
    output[index] = messageItem(item, refusal)
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

const ENDS: ReadonlySet<unknown> = new Set(['response.completed', 'response.incomplete', 'response.failed'])

/** Items come one after the other. From the beginning of a call until it is complete everything is held. */
function responseEvents(judge: CallJudge): EventJudge {
  const held: Readonly<{ bytes: Buffer; data: Fields }>[] = []
  const open = new Set<unknown>()
  const done = new Map<unknown, Fields>()
  const judged = new Map<string, string | null>()
  let heldBytes = 0
  /** How many more events there are than the provider sent. */
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
    const judging = inOrder(items, ([index, item]) =>
      whenKnown(judge.refusalOf(callOf(item)), (text) => {
        judged.set(keyOf(item), text ?? null)
        if (text !== undefined) refusals.set(index, { item, text })
      }),
    )
    const flush = (): void => {
      for (const { bytes, data } of events) {
        const index = data['output_index']
        const refusal = refusals.get(index)
        if (refusal === undefined) pass(bytes, data, out)
        else if (data['type'] !== 'response.output_item.done') shift--
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

  function end(bytes: Buffer, data: Fields, out: Buffer[]): Promise<void> {
    const output = fieldsOf(data['response'])?.['output']
    return judgeOutput(output, judge, judged).then((isChanged) => {
      if (isChanged) out.push(numbered(data, Number(data['sequence_number']) + shift))
      else pass(bytes, data, out)
    })
  }

  return {
    take(bytes, event, out) {
      const data = fieldsOf(event)
      const type = data?.['type']
      const item = fieldsOf(data?.['item'])
      if (type === 'response.output_item.added' && isCallType(item?.['type'])) open.add(data!['output_index'])
      if (open.size > 0 && data !== undefined && !ENDS.has(type)) {
        held.push({ bytes, data })
        heldBytes += bytes.length
        if (type === 'response.output_item.done' && item !== undefined && open.has(data['output_index'])) {
          done.set(data['output_index'], item)
          if (done.size === open.size) return settle(out)
        }
        return
      }
      const provider =
        type === 'response.output_item.done' ? PROVIDER_CALL.exec(textOf(item?.['type']) ?? '')?.[1] : undefined
      if (provider !== undefined) judge.providerRan(provider)
      if (data !== undefined && ENDS.has(type)) return end(bytes, data, out)
      pass(bytes, data, out)
    },
    get isActive() {
      return held.length > 0 || shift !== 0
    },
    get heldBytes() {
      return heldBytes
    },
  }
}

const numbered = (data: Fields, sequence: number): Buffer =>
  namedEvent({
    ...data,
    ...(Number.isFinite(sequence) && { sequence_number: sequence }),
  } as unknown as Readonly<{ type: string }>)

/** A message in the place of a call, as the provider would have sent it. */
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
