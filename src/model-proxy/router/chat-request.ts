import { AppError } from '../../contract/app-error.ts'
import { fieldsOf } from '../protocols/protocol.ts'
import type { Fields } from './translation.ts'

/** Reads a request in OpenAI's chat format for a provider with another format. */
export const invalid = (field: string, problem: string): AppError =>
  new AppError('ERR_INVALID_INPUT', `${field}: ${problem}`, { field })

/** Fields that do not reach the model, and those whose value changes nothing. */
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
  // Every provider lets a model make several calls at once.
  parallel_tool_calls: (value) => value === true,
  logprobs: (value) => value === false,
  frequency_penalty: (value) => value === 0,
  presence_penalty: (value) => value === 0,
  service_tier: (value) => value === 'auto' || value === 'default',
}

/** Fields that every provider understands. */
const general: readonly string[] = [
  'max_tokens',
  'max_completion_tokens',
  'temperature',
  'top_p',
  'stop',
  'tools',
  'tool_choice',
  'response_format',
]

/** Refuses what would otherwise be dropped. */
function requireKnown(chat: Fields, own: readonly string[], provider: string): void {
  const known = [...general, ...own]
  for (const [field, value] of Object.entries(chat)) {
    if (value === undefined || value === null || known.includes(field) || harmless[field]?.(value) === true) continue
    throw invalid(
      field,
      `models of ${provider} do not support this; leave it out, or send the request to the provider's own route`,
    )
  }
}

/** A turn of the conversation; its content is in the provider's format. */
type Turn = Readonly<{ isAssistant: boolean; content: readonly Fields[] }>

/**
 * The parts of a request that every format has. `own` are the fields that the provider understands besides the general ones, and
 * `contentOf` writes a message in its format.
 */
export function readChat(
  chat: Fields,
  { provider, own }: Readonly<{ provider: string; own: readonly string[] }>,
  contentOf: (message: ChatMessage) => readonly Fields[],
): Readonly<{ system: string | undefined; turns: readonly Turn[]; tools: readonly ChatTool[] }> {
  requireKnown(chat, own, provider)
  const { system, messages } = conversationOf(chat)
  const tools = toolsOf(chat)
  return { system, turns: turnsOf(messages, contentOf), tools }
}

/** The content of a message, in parts; a plain string is one part. */
export function partsOf(content: unknown, field: string): readonly Fields[] {
  if (content === null || content === undefined) return []
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }]
  if (!Array.isArray(content)) throw invalid(field, 'must be a string or a list of parts')
  return content.map((part, index) => fieldsOf(part) ?? fail(`${field}[${index}]`, 'must be an object'))
}

const fail = (field: string, problem: string): never => {
  throw invalid(field, problem)
}

/** The text of content that may contain only text. */
export function plainText(content: unknown, field: string): string {
  return partsOf(content, field)
    .map((part, index) =>
      part['type'] === 'text' && typeof part['text'] === 'string'
        ? part['text']
        : fail(`${field}[${index}]`, 'only text is allowed here'),
    )
    .join('\n')
}

export type ChatMessage = Readonly<{ role: string; field: string; fields: Fields }>

type Conversation = Readonly<{
  /** The system and developer messages, as one text. */
  system: string | undefined
  messages: readonly ChatMessage[]
}>

function conversationOf(chat: Fields): Conversation {
  const all = messagesOf(chat)
  const system = all.filter(isSystem).map(({ fields, field }) => plainText(fields['content'], `${field}.content`))
  return {
    system: system.length === 0 ? undefined : system.join('\n\n'),
    messages: all.filter((message) => !isSystem(message)),
  }
}

const isSystem = ({ role }: ChatMessage): boolean => role === 'system' || role === 'developer'

/** Turns alternate: consecutive messages of one side are merged. */
function turnsOf(
  messages: readonly ChatMessage[],
  contentOf: (message: ChatMessage) => readonly Fields[],
): readonly Turn[] {
  const turns: { isAssistant: boolean; content: Fields[] }[] = []
  for (const message of messages) {
    const isAssistant = message.role === 'assistant'
    const content = contentOf(message)
    const last = turns.at(-1)
    if (last?.isAssistant === isAssistant) last.content.push(...content)
    else turns.push({ isAssistant, content: [...content] })
  }
  return turns
}

export const unknownRole = ({ field }: ChatMessage): AppError =>
  invalid(`${field}.role`, 'must be system, developer, user, assistant or tool')

function messagesOf({ messages }: Fields): readonly ChatMessage[] {
  if (!Array.isArray(messages) || messages.length === 0) throw invalid('messages', 'must be a list of messages')
  return messages.map((message, index) => {
    const field = `messages[${index}]`
    const fields = fieldsOf(message) ?? fail(field, 'must be an object')
    const { role } = fields
    if (typeof role !== 'string') throw invalid(`${field}.role`, 'must be a string')
    return { role, field, fields }
  })
}

type ChatToolCall = Readonly<{ id: string; name: string; input: Fields; extra: Fields | undefined }>

/** The calls of an assistant message, with parsed arguments. */
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
    // Reported below.
  }
  throw invalid(`${path}.function.arguments`, 'must be a JSON object as a string')
}

type ChatTool = Readonly<{ name: string; description: string | undefined; parameters: Fields }>

function toolsOf({ tools }: Fields): readonly ChatTool[] {
  if (tools === undefined || tools === null) return []
  if (!Array.isArray(tools)) throw invalid('tools', 'must be a list')
  return tools.map((value, index) => {
    const tool = fieldsOf(value)
    const declared = fieldsOf(tool?.['function'])
    const name = declared?.['name']
    if (tool?.['type'] !== 'function' || typeof name !== 'string') {
      throw invalid(`tools[${index}]`, 'this provider accepts only functions with a name')
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

/** The schema of the answer; `json` for any JSON, undefined for text. */
export function answerSchemaOf({ response_format: format }: Fields): Fields | 'json' | undefined {
  const fields = fieldsOf(format)
  if (fields === undefined || fields['type'] === 'text') return undefined
  if (fields['type'] === 'json_object') return 'json'
  const schema = fieldsOf(fieldsOf(fields['json_schema'])?.['schema'])
  if (fields['type'] === 'json_schema' && schema !== undefined) return schema
  throw invalid('response_format', 'must have the type text, json_object, or json_schema with a schema')
}

const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+);base64,([A-Za-z0-9+/=\s]*)$/

/** Media in a message: inline, or at an address. */
type Media = Readonly<{ mimeType: string; data: string } | { url: string }>

export function mediaOf(url: unknown, field: string): Media {
  if (typeof url !== 'string') throw invalid(field, 'must be a URL')
  const [, mimeType, data] = DATA_URL.exec(url) ?? []
  if (mimeType !== undefined && data !== undefined) return { mimeType, data }
  if (/^https?:\/\//.test(url)) return { url }
  throw invalid(field, 'must be a base64 data URL, or one of http or https')
}

const numberOr = <T>(value: unknown, otherwise: T): number | T => (typeof value === 'number' ? value : otherwise)

/** The output bound; OpenAI has two names for it. */
export const tokensMaxOf = <T>(chat: Fields, otherwise: T): number | T =>
  numberOr(chat['max_completion_tokens'], numberOr(chat['max_tokens'], otherwise))

export const stopsOf = ({ stop }: Fields): readonly string[] | undefined => {
  if (stop === undefined || stop === null) return undefined
  const stops = Array.isArray(stop) ? stop : [stop]
  if (stops.every((text): text is string => typeof text === 'string')) return stops
  throw invalid('stop', 'must be a string or a list of strings')
}
