import { fieldsOf, textOf } from '../protocols/protocol.ts'
import { bringsFetched, listOf, unreadable } from './chat-format.ts'
import { listIn, notDocumented, objectIn, positionIn, stringIn } from './documented.ts'
import { answerOf, namedEvent, readArguments, whenKnown } from './events.ts'
import type { CallJudge, EventJudge, Fields, HistoryResult, JudgedFormat, ModelCall, MutableFields } from './ports.ts'

/** Anthropic's Messages. */
export const messagesFormat: JudgedFormat = {
  refersToUnseen: ({ messages, system }) => listOf(messages).some(bringsFetched) || bringsFetched({ content: system }),
  providerTools: (body) => [
    ...listOf(body['tools']).flatMap((tool) => providerToolOf(tool) ?? []),
    ...(listOf(body['mcp_servers']).length > 0 ? [MCP] : []),
  ],
  removeTools(body, tools) {
    if (tools.has(MCP)) delete body['mcp_servers']
    const retained = listOf(body['tools']).filter((tool) => !tools.has(providerToolOf(tool) ?? ''))
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
    return first === -1 ? undefined : messages.slice(0, first + 1).map(withoutCacheMarks)
  },
  marks: [
    ...['"tool_use"', '_tool_result"', '"signature', '"redacted_thinking"'],
    ...['"content_block_start"', '"message_start"', '"input_json_delta"'],
  ],
  whole: judgeWhole,
  events: messageEvents,
}

const MCP = 'mcp'
/** Tools that Anthropic defines; the type ends in a date. It runs all of them but these, which the program runs. */
const DEFINED_TOOL = /^(.+)_\d+$/
const programTools = /^(?:bash|browser_toolset|computer|computer_toolset|memory|text_editor|tool_search_tool(?:_.+)?)$/
const PROVIDER_RESULT = /^(.+)_tool_result$/

function providerToolOf({ type }: Fields): string | undefined {
  if (type === 'mcp_toolset') return MCP
  const name = typeof type === 'string' ? DEFINED_TOOL.exec(type)?.[1] : undefined
  return name === undefined || programTools.test(name) ? undefined : name
}

/** Cache marks move from request to request. */
const withoutCacheMarks = ({ role, content }: Fields): unknown => [
  role,
  typeof content === 'string' ? content : listOf(content).map(({ cache_control: _, ...block }) => block),
]

function results(body: Fields): readonly HistoryResult[] {
  const found: HistoryResult[] = []
  let calls: Map<string, ModelCall> | undefined
  const messages = listOf(body['messages'])
  for (const { content } of messages) {
    for (const block of listOf(content)) {
      const type = textOf(block['type']) ?? ''
      const isOwn = type === 'tool_result'
      const provider = isOwn ? undefined : PROVIDER_RESULT.exec(type)?.[1]
      if (!isOwn && provider === undefined) continue
      // It returns only names of tools in the request itself.
      if (provider === 'tool_search') continue
      calls ??= callsIn(messages)
      found.push({
        call: provider === undefined ? calls.get(textOf(block['tool_use_id']) ?? '') : { name: provider, args: {} },
        value: answerOf(block['content']),
        replace(text) {
          if (isOwn) block['content'] = text
          else for (const key of Object.keys(block)) delete block[key]
          if (!isOwn) Object.assign(block, { type: 'text', text })
        },
      })
    }
  }
  return found
}

const callsIn = (messages: readonly Fields[]): Map<string, ModelCall> =>
  new Map(
    messages
      .flatMap(({ content }) => listOf(content))
      .flatMap((block) => {
        const call = block['type'] === 'tool_use' ? callOf(block) : undefined
        return call?.id === undefined ? [] : [[call.id, call]]
      }),
  )

function callOf(block: Fields): ModelCall | undefined {
  const name = textOf(block['name'])
  return name === undefined ? undefined : { id: textOf(block['id']), name, args: readArguments(block['input']) }
}

function ranBy(block: Fields, judge: CallJudge): void {
  const provider = PROVIDER_RESULT.exec(textOf(block['type']) ?? '')?.[1]
  if (provider !== undefined && provider !== 'tool_search') judge.providerRan(provider)
}

async function judgeWhole(answer: unknown, judge: CallJudge): Promise<boolean> {
  const message = objectIn(answer)
  if (message === undefined) return false
  const content = listIn(message['content']) as MutableFields[]
  let allowed = 0
  let denied = 0
  for (const [index, block] of content.entries()) {
    ranBy(block, judge)
    if (stringIn(block['type']) !== 'tool_use') continue
    const refusal = await judge.refusalOf(callOf(block) ?? unreadable)
    if (refusal === undefined) allowed++
    else {
      denied++
      content[index] = { type: 'text', text: refusal }
    }
  }
  if (denied > 0 && allowed === 0 && message['stop_reason'] === 'tool_use') message['stop_reason'] = 'end_turn'
  return denied > 0
}

type HeldBlock = {
  index: number
  events: Buffer[]
  id: string | undefined
  name: string
  input: unknown
  text: string
}

/**
 * A call's block is held until it is complete. Blocks come one after the other, and programs number them in that order. They concatenate
 * whatever arguments come for a block, even after its end.
 */
function messageEvents(judge: CallJudge): EventJudge {
  let held: HeldBlock | undefined
  let heldBytes = 0
  /** How many blocks have started, and which of them is an open call of a tool that the provider runs. */
  let blocksStarted = 0
  let provided: number | undefined
  let allowed = 0
  let denied = 0

  function settle({ index, events, id, name, input, text }: HeldBlock, out: Buffer[]): void | Promise<void> {
    held = undefined
    heldBytes = 0
    const isTwice = text !== '' && Object.keys(objectIn(input) ?? {}).length > 0
    const args = isTwice ? undefined : readArguments(text === '' ? input : text)
    return whenKnown(judge.refusalOf({ id, name, args }), (refusal) => {
      if (refusal === undefined) {
        allowed++
        out.push(...events)
        return
      }
      denied++
      out.push(
        namedEvent({ type: 'content_block_start', index, content_block: { type: 'text', text: '' } } as Named),
        namedEvent({ type: 'content_block_delta', index, delta: { type: 'text_delta', text: refusal } } as Named),
        namedEvent({ type: 'content_block_stop', index } as Named),
      )
    })
  }

  /** Usually empty. */
  async function start(bytes: Buffer, data: Fields, out: Buffer[]): Promise<void> {
    blocksStarted += listIn(objectIn(data['message'])?.['content']).length
    out.push((await judgeWhole(data['message'], judge)) ? namedEvent(data as Named) : bytes)
  }

  function begin(data: Fields): void {
    const block = objectIn(data['content_block']) ?? {}
    const type = stringIn(block['type'])
    ranBy(block, judge)
    const index = positionIn(data['index'])
    if (held !== undefined) throw notDocumented()
    if (type === 'tool_use') {
      if (index !== blocksStarted) throw notDocumented()
      const { id, name, input } = block
      held = { index, events: [], id: textOf(id), name: textOf(name) ?? '', input, text: '' }
    }
    provided = type !== 'tool_use' && type.endsWith('tool_use') ? index : undefined
    blocksStarted++
  }

  function continueBlock(type: string, data: Fields): void {
    const index = positionIn(data['index'])
    const delta = objectIn(data['delta'])
    const isInput = delta?.['type'] === 'input_json_delta'
    if (held !== undefined) {
      if (index !== held.index || (type === 'content_block_delta' && !isInput)) throw notDocumented()
      held.text += stringIn(delta?.['partial_json'])
    } else if (isInput && (index === undefined || index !== provided)) throw notDocumented()
  }

  return {
    take(bytes, event, out) {
      const data = fieldsOf(event)
      const type = data?.['type']
      if (type === 'message_start') return start(bytes, data!, out)
      if (type === 'content_block_start') begin(data!)
      if (type === 'content_block_delta' || type === 'content_block_stop') continueBlock(type, data!)
      if (held !== undefined && String(type).startsWith('content_block_')) {
        held.events.push(bytes)
        heldBytes += bytes.length
        return type === 'content_block_stop' ? settle(held, out) : undefined
      }
      const delta = fieldsOf(data?.['delta']) as MutableFields | undefined
      if (type === 'message_delta' && denied > 0 && allowed === 0 && delta?.['stop_reason'] === 'tool_use') {
        delta['stop_reason'] = 'end_turn'
        out.push(namedEvent(data as Named))
      } else out.push(bytes)
    },
    isActive: () => held !== undefined || denied > 0,
    heldBytes: () => heldBytes,
  }
}

type Named = Readonly<{ type: string }>
