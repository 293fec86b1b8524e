import { AppError } from '../../contract/app-error.ts'
import type { Endpoint } from '../protocols/protocol.ts'
import { fieldsOf } from '../protocols/protocol.ts'

/** What the answer to one request is called in OpenAI's format, whichever provider gave it. */
export type Naming = Readonly<{
  id: string
  createdS: number
  /** `provider:model`, as the caller wrote it. */
  model: string
  /** The caller wants the usage at the end of a stream. */
  includeUsage: boolean
}>

/** One event of a stream of another provider becomes none, one or several of OpenAI's. */
export type EventTranslator = Readonly<{ take(event: unknown): readonly object[]; finish(): readonly object[] }>

/** OpenAI's chat format over the format of another provider. What the provider cannot do is refused by name, never left out. */
export type Translation = Readonly<{
  /** Throws ERR_INVALID_INPUT. */
  toRequest(chat: Fields, model: string): Readonly<{ endpoint: Endpoint; body: Fields }>
  toAnswer(answer: unknown, naming: Naming): object
  toEvents(naming: Naming): EventTranslator
  toErrorMessage(answer: unknown): string | undefined
}>

export type Fields = Readonly<Record<string, unknown>>

export const invalid = (field: string, problem: string): AppError =>
  new AppError('ERR_INVALID_INPUT', `${field}: ${problem}`, { field })

/** Fields that say nothing to the model, and those with a value that changes nothing. */
const harmless: Readonly<Record<string, (value: unknown) => boolean>> = {
  model: () => true,
  messages: () => true,
  stream: () => true,
  stream_options: () => true,
  metadata: () => true,
  user: () => true,
  safety_identifier: () => true,
  prompt_cache_key: () => true,
  n: (value) => value === 1,
  store: (value) => value === false,
  logprobs: (value) => value === false,
  frequency_penalty: (value) => value === 0,
  presence_penalty: (value) => value === 0,
  service_tier: (value) => value === 'auto' || value === 'default',
}

/** Refuses what would otherwise be dropped. */
export function requireKnown(chat: Fields, known: readonly string[], provider: string): void {
  for (const [field, value] of Object.entries(chat)) {
    if (value === undefined || value === null || known.includes(field) || harmless[field]?.(value) === true) continue
    throw invalid(
      field,
      `this cannot be said to a model of ${provider}; leave it out, or use the provider's own address`,
    )
  }
}

/** Everything that a message says, in parts; a plain text is one part. */
export function partsOf(content: unknown, field: string): readonly Fields[] {
  if (content === null || content === undefined) return []
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }]
  if (!Array.isArray(content)) throw invalid(field, 'must be a text or a list of parts')
  return content.map((part, index) => fieldsOf(part) ?? fail(`${field}[${index}]`, 'must be an object'))
}

const fail = (field: string, problem: string): never => {
  throw invalid(field, problem)
}

/** The text of content that may have nothing but text. */
export function plainText(content: unknown, field: string): string {
  return partsOf(content, field)
    .map((part, index) =>
      part['type'] === 'text' && typeof part['text'] === 'string'
        ? part['text']
        : fail(`${field}[${index}]`, 'only text can stand here'),
    )
    .join('\n')
}

export type ChatMessage = Readonly<{ role: string; field: string; fields: Fields }>

export function messagesOf(chat: Fields): readonly ChatMessage[] {
  const { messages } = chat
  if (!Array.isArray(messages) || messages.length === 0) throw invalid('messages', 'must be a list of messages')
  return messages.map((message, index) => {
    const field = `messages[${index}]`
    const fields = fieldsOf(message) ?? fail(field, 'must be an object')
    const { role } = fields
    if (typeof role !== 'string') throw invalid(`${field}.role`, 'must be a text')
    return { role, field, fields }
  })
}

export type ChatToolCall = Readonly<{ id: string; name: string; input: Fields; extra: Fields | undefined }>

/** The calls of an assistant message, with their arguments read. */
export function toolCallsOf({ fields, field }: ChatMessage): readonly ChatToolCall[] {
  const calls = fields['tool_calls']
  if (calls === undefined || calls === null) return []
  if (!Array.isArray(calls)) throw invalid(`${field}.tool_calls`, 'must be a list')
  return calls.map((value, index) => {
    const path = `${field}.tool_calls[${index}]`
    const call = fieldsOf(value)
    const called = fieldsOf(call?.['function'])
    const id = call?.['id']
    const name = called?.['name']
    if (typeof id !== 'string' || typeof name !== 'string')
      throw invalid(path, 'needs an id and a function with a name')
    return { id, name, input: argumentsOf(called?.['arguments'], path), extra: fieldsOf(call?.['extra_content']) }
  })
}

function argumentsOf(text: unknown, path: string): Fields {
  if (text === undefined || text === '') return {}
  try {
    const value: unknown = typeof text === 'string' ? JSON.parse(text) : undefined
    const fields = Array.isArray(value) ? undefined : fieldsOf(value)
    if (fields !== undefined) return fields
  } catch {
    // It is told below.
  }
  throw invalid(`${path}.function.arguments`, 'must be the JSON text of an object')
}

export type ChatTool = Readonly<{ name: string; description: string | undefined; parameters: Fields }>

export function toolsOf({ tools }: Fields): readonly ChatTool[] {
  if (tools === undefined || tools === null) return []
  if (!Array.isArray(tools)) throw invalid('tools', 'must be a list')
  return tools.map((value, index) => {
    const tool = fieldsOf(value)
    const declared = fieldsOf(tool?.['function'])
    const name = declared?.['name']
    if (tool?.['type'] !== 'function' || typeof name !== 'string') {
      throw invalid(`tools[${index}]`, 'only functions with a name can be given to this provider')
    }
    const description = declared?.['description']
    return {
      name,
      description: typeof description === 'string' ? description : undefined,
      parameters: fieldsOf(declared?.['parameters']) ?? { type: 'object', properties: {} },
    }
  })
}

/** `auto`, `none`, `required`, or the name of a function. */
export function toolChoiceOf({
  tool_choice: choice,
}: Fields): 'auto' | 'none' | 'required' | { name: string } | undefined {
  if (choice === undefined || choice === null) return undefined
  if (choice === 'auto' || choice === 'none' || choice === 'required') return choice
  const name = fieldsOf(fieldsOf(choice)?.['function'])?.['name']
  if (typeof name === 'string') return { name }
  throw invalid('tool_choice', 'must be auto, none, required, or name a function')
}

/** The schema that the answer must have; `json` for any JSON, undefined for text. */
export function answerSchemaOf({ response_format: format }: Fields): Fields | 'json' | undefined {
  const fields = fieldsOf(format)
  if (fields === undefined || fields['type'] === 'text') return undefined
  if (fields['type'] === 'json_object') return 'json'
  const schema = fieldsOf(fieldsOf(fields['json_schema'])?.['schema'])
  if (fields['type'] === 'json_schema' && schema !== undefined) return schema
  throw invalid('response_format', 'must have the type text, json_object, or json_schema with a schema')
}

const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+);base64,([A-Za-z0-9+/=\s]*)$/

/** Media in a message: inside it, or at an address. */
export type Media = Readonly<{ mimeType: string; data: string } | { url: string }>

export function mediaOf(url: unknown, field: string): Media {
  if (typeof url !== 'string') throw invalid(field, 'must be a URL')
  const [, mimeType, data] = DATA_URL.exec(url) ?? []
  if (mimeType !== undefined && data !== undefined) return { mimeType, data }
  if (/^https?:\/\//.test(url)) return { url }
  throw invalid(field, 'must be a base64 data URL, or one of http or https')
}

export const numberOr = <T>(value: unknown, otherwise: T): number | T => (typeof value === 'number' ? value : otherwise)

export const stopsOf = ({ stop }: Fields): readonly string[] | undefined => {
  if (stop === undefined || stop === null) return undefined
  const stops = Array.isArray(stop) ? stop : [stop]
  if (stops.every((text): text is string => typeof text === 'string')) return stops
  throw invalid('stop', 'must be a text or a list of texts')
}

export type ChatUsage = Readonly<{ input: number; output: number; cacheRead: number; reasoning: number }>

export const usageFields = ({ input, output, cacheRead, reasoning }: ChatUsage) => ({
  prompt_tokens: input,
  completion_tokens: output,
  total_tokens: input + output,
  prompt_tokens_details: { cached_tokens: cacheRead },
  completion_tokens_details: { reasoning_tokens: reasoning },
})

export type AnsweredCall = Readonly<{ id: string; name: string; arguments: string; extra?: Fields }>

const callFields = ({ id, name, arguments: text, extra }: AnsweredCall) => ({
  id,
  type: 'function',
  function: { name, arguments: text },
  ...(extra !== undefined && { extra_content: extra }),
})

export function completion(
  { id, createdS, model }: Naming,
  text: string | null,
  calls: readonly AnsweredCall[],
  finishReason: string,
  usage: ChatUsage,
): object {
  const message = {
    role: 'assistant',
    content: text,
    refusal: null,
    ...(calls.length > 0 && { tool_calls: calls.map(callFields) }),
  }
  return {
    id,
    object: 'chat.completion',
    created: createdS,
    model,
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishReason }],
    usage: usageFields(usage),
  }
}

/** The parts of a stream, in order: a role first, then texts and calls, then why it ended, then the usage if it is wanted. */
export function createChunks({ id, createdS, model, includeUsage }: Naming) {
  const base = { id, object: 'chat.completion.chunk', created: createdS, model }
  let hasStarted = false
  let calls = 0
  const chunk = (delta: object, finishReason: string | null = null): object => {
    const first = hasStarted ? {} : { role: 'assistant', content: '' }
    hasStarted = true
    return {
      ...base,
      choices: [{ index: 0, delta: { ...first, ...delta }, logprobs: null, finish_reason: finishReason }],
      ...(includeUsage && { usage: null }),
    }
  }
  return {
    text: (text: string): object => chunk({ content: text }),
    /** Answers the number of the call too: later parts of its arguments have it. */
    call(call: AnsweredCall): Readonly<{ chunk: object; index: number }> {
      const index = calls++
      return { index, chunk: chunk({ tool_calls: [{ index, ...callFields(call) }] }) }
    },
    callArguments: (index: number, text: string): object =>
      chunk({ tool_calls: [{ index, function: { arguments: text } }] }),
    get hasCalls(): boolean {
      return calls > 0
    },
    end(finishReason: string, usage: ChatUsage): object[] {
      const last = chunk({}, finishReason)
      return includeUsage ? [last, { ...base, choices: [], usage: usageFields(usage) }] : [last]
    },
  }
}
