import { countOf, fieldsOf, textOf } from '../protocols/protocol.ts'
import { type AnsweredCall, type ChatUsage, completion, createChunks, failedChunk } from './chat-answer.ts'
import {
  answerSchemaOf,
  type ChatMessage,
  invalid,
  mediaOf,
  partsOf,
  readChat,
  stopsOf,
  tokensMaxOf,
  toolCallsOf,
  toolChoiceOf,
  unknownRole,
} from './chat-request.ts'
import type { Fields, Translation } from './translation.ts'

/** The provider requires a bound; callers of OpenAI's format often set none. */
const MAX_TOKENS_DEFAULT = 4_096

const understood = { provider: 'Anthropic', own: ['parallel_tool_calls', 'reasoning_effort'] }

export const anthropicChat: Translation = {
  toRequest(chat, model) {
    const { system, turns, tools } = readChat(chat, understood, blocksOf)
    const body = {
      model,
      max_tokens: tokensMaxOf(chat, MAX_TOKENS_DEFAULT),
      ...(system !== undefined && { system }),
      messages: turns.map(({ isAssistant, content }) => {
        return { role: isAssistant ? 'assistant' : 'user', content }
      }),
      ...(tools.length > 0 && {
        tools: tools.map(({ name, description, parameters }) => ({ name, description, input_schema: parameters })),
        ...choiceOf(chat),
      }),
      ...temperatureOf(chat),
      ...(typeof chat['top_p'] === 'number' && { top_p: chat['top_p'] }),
      ...(stopsOf(chat) !== undefined && { stop_sequences: stopsOf(chat) }),
      ...outputConfigOf(chat),
      ...(chat['stream'] === true && { stream: true }),
    }
    return { endpoint: { operation: 'messages', method: 'POST', path: 'messages' }, body }
  },

  toAnswer(answer, naming) {
    const fields = fieldsOf(answer) ?? {}
    const content = Array.isArray(fields['content']) ? fields['content'].map((block) => fieldsOf(block) ?? {}) : []
    const texts = content.filter(({ type }) => type === 'text').map(({ text }) => textOf(text) ?? '')
    const calls = content
      .filter(({ type }) => type === 'tool_use')
      .map(({ id, name, input }): AnsweredCall => {
        return { id: textOf(id) ?? '', name: textOf(name) ?? '', arguments: JSON.stringify(input ?? {}) }
      })
    const reason = finishReasonOf(fields['stop_reason'])
    return completion(naming, texts.length === 0 ? null : texts.join(''), calls, reason, usageOf(fields['usage']))
  },

  toEvents(naming) {
    const chunks = createChunks(naming)
    /** The index of each block's call, by the index of the block. */
    const blocks = new Map<unknown, number>()
    let usage: Fields = {}
    let stopReason: unknown
    let isOver = false
    const end = (): readonly object[] => {
      if (isOver) return []
      isOver = true
      return chunks.end(finishReasonOf(stopReason), usageOf(usage))
    }
    return {
      take(value) {
        const event = fieldsOf(value) ?? {}
        switch (event['type']) {
          case 'message_start':
            usage = { ...fieldsOf(fieldsOf(event['message'])?.['usage']) }
            return []
          case 'content_block_start': {
            const block = fieldsOf(event['content_block']) ?? {}
            if (block['type'] === 'text' && block['text']) return [chunks.text(String(block['text']))]
            if (block['type'] !== 'tool_use') return []
            const started = chunks.call({
              id: textOf(block['id']) ?? '',
              name: textOf(block['name']) ?? '',
              arguments: '',
            })
            blocks.set(event['index'], started.index)
            return [started.chunk]
          }
          case 'content_block_delta': {
            const delta = fieldsOf(event['delta']) ?? {}
            if (delta['type'] === 'text_delta') return [chunks.text(textOf(delta['text']) ?? '')]
            const index = blocks.get(event['index'])
            if (delta['type'] !== 'input_json_delta' || index === undefined) return []
            return [chunks.callArguments(index, textOf(delta['partial_json']) ?? '')]
          }
          case 'message_delta':
            usage = { ...usage, ...present(fieldsOf(event['usage'])) }
            stopReason = fieldsOf(event['delta'])?.['stop_reason'] ?? stopReason
            return []
          case 'message_stop':
            return end()
          case 'error':
            isOver = true
            return [failedChunk(anthropicChat.toErrorMessage(event))]
          default:
            return []
        }
      },
      finish: () => [],
    }
  },

  toErrorMessage: (answer) => textOf(fieldsOf(fieldsOf(answer)?.['error'])?.['message']),
}

function blocksOf(message: ChatMessage): readonly Fields[] {
  const { role, fields, field } = message
  const parts = () => partsOf(fields['content'], `${field}.content`)
  switch (role) {
    case 'user':
      return parts().map((part, index) => mediaBlock(part, `${field}.content[${index}]`))
    case 'assistant':
      return [
        ...parts().map((part, index) => textBlock(part, `${field}.content[${index}]`)),
        ...toolCallsOf(message).map(({ id, name, input }) => ({ type: 'tool_use', id, name, input })),
      ]
    case 'tool': {
      const id = fields['tool_call_id']
      if (typeof id !== 'string') throw invalid(`${field}.tool_call_id`, 'must be the id of a call')
      const content = parts().map((part, index) => mediaBlock(part, `${field}.content[${index}]`))
      return [{ type: 'tool_result', tool_use_id: id, content }]
    }
    default:
      throw unknownRole(message)
  }
}

function textBlock(part: Fields, field: string): Fields {
  const text = part['type'] === 'refusal' ? part['refusal'] : part['text']
  if ((part['type'] === 'text' || part['type'] === 'refusal') && typeof text === 'string') return { type: 'text', text }
  throw invalid(field, 'only text is allowed here')
}

function mediaBlock(part: Fields, field: string): Fields {
  switch (part['type']) {
    case 'image_url': {
      const media = mediaOf(fieldsOf(part['image_url'])?.['url'], `${field}.image_url.url`)
      return { type: 'image', source: sourceOf(media) }
    }
    case 'file': {
      const media = mediaOf(fieldsOf(part['file'])?.['file_data'], `${field}.file.file_data`)
      const title = textOf(fieldsOf(part['file'])?.['filename'])
      return { type: 'document', source: sourceOf(media), ...(title !== undefined && { title }) }
    }
    default:
      return textBlock(part, field)
  }
}

const sourceOf = (media: ReturnType<typeof mediaOf>): Fields =>
  'url' in media ? { type: 'url', url: media.url } : { type: 'base64', media_type: media.mimeType, data: media.data }

function choiceOf(chat: Fields): Fields {
  const choice = toolChoiceOf(chat)
  const alone = chat['parallel_tool_calls'] === false ? { disable_parallel_tool_use: true } : {}
  if (choice === undefined)
    return chat['parallel_tool_calls'] === false ? { tool_choice: { type: 'auto', ...alone } } : {}
  if (choice === 'none') return { tool_choice: { type: 'none' } }
  if (typeof choice === 'object') return { tool_choice: { type: 'tool', name: choice.name, ...alone } }
  return { tool_choice: { type: choice === 'required' ? 'any' : 'auto', ...alone } }
}

function temperatureOf({ temperature }: Fields): Fields {
  if (typeof temperature !== 'number') return {}
  if (temperature > 1) throw invalid('temperature', 'must be from 0 to 1 for a model of Anthropic')
  return { temperature }
}

function outputConfigOf(chat: Fields): Fields {
  const schema = answerSchemaOf(chat)
  if (schema === 'json') {
    throw invalid('response_format', 'must have the type json_schema, with a schema, for a model of Anthropic')
  }
  const effort = chat['reasoning_effort']
  const format = schema === undefined ? {} : { format: { type: 'json_schema', schema } }
  const config = { ...format, ...(typeof effort === 'string' && { effort }) }
  return Object.keys(config).length === 0 ? {} : { output_config: config }
}

const reasons: Readonly<Record<string, string>> = {
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool_calls',
  refusal: 'content_filter',
}
const finishReasonOf = (reason: unknown): string => reasons[String(reason)] ?? 'stop'

const present = (fields: Fields | undefined): Fields =>
  Object.fromEntries(Object.entries(fields ?? {}).filter(([, value]) => value !== null && value !== undefined))

function usageOf(value: unknown): ChatUsage {
  const usage = fieldsOf(value)
  const cacheRead = countOf(usage?.['cache_read_input_tokens'])
  const input = countOf(usage?.['input_tokens']) + cacheRead + countOf(usage?.['cache_creation_input_tokens'])
  return { input, output: countOf(usage?.['output_tokens']), cacheRead, reasoning: 0 }
}
