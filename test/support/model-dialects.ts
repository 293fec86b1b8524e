import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'

/** What a program says to a model and hears from it, whichever provider's package it uses. */
export type Turn =
  | Readonly<{ user: string }>
  | Readonly<{ text: string; calls: readonly AskedCall[]; raw?: unknown }>
  | Readonly<{ results: readonly Readonly<{ id: string; name: string; text: string }>[] }>
export type AskedCall = Readonly<{ id: string; name: string; args: Readonly<Record<string, unknown>> }>
type Heard = Readonly<{
  text: string
  calls: readonly AskedCall[]
  /** Why the answer ended, in the provider's own word. */
  end: string
}>

export type Dialect = Readonly<{
  name: string
  /** The word for an answer that is complete, and for one that waits for results of tools. */
  ends: Readonly<{ complete: string; calls: string }>
  ask(origin: string, turns: readonly Turn[], tools: readonly string[], options?: AskOptions): Promise<Heard>
}>
export type AskOptions = Readonly<{ headers?: Readonly<Record<string, string>> }>

const schema = { type: 'object' as const, properties: {}, additionalProperties: true }
const parsed = (text: string): AskedCall['args'] => JSON.parse(text || '{}') as AskedCall['args']

const chat = (name: string, address: string, model: string, isStream: boolean): Dialect => ({
  name,
  ends: { complete: 'stop', calls: 'tool_calls' },
  async ask(origin, turns, tools, { headers = {} } = {}) {
    const client = new OpenAI({
      baseURL: `${origin}/v1/${address}`,
      apiKey: 'castellan',
      maxRetries: 0,
      defaultHeaders: headers,
    })
    const messages = turns.flatMap((turn): OpenAI.ChatCompletionMessageParam[] => {
      if ('user' in turn) return [{ role: 'user', content: turn.user }]
      if ('results' in turn)
        return turn.results.map(({ id, text }) => ({ role: 'tool', tool_call_id: id, content: text }))
      const calls = turn.calls.map(({ id, name, args }) => ({
        id,
        type: 'function' as const,
        function: { name, arguments: JSON.stringify(args) },
      }))
      return [{ role: 'assistant', content: turn.text, ...(calls.length > 0 && { tool_calls: calls }) }]
    })
    const request = {
      model,
      messages,
      ...(tools.length > 0 && {
        tools: tools.map((tool) => ({ type: 'function' as const, function: { name: tool, parameters: schema } })),
      }),
    }
    const answer = isStream
      ? await client.chat.completions.stream(request).finalChatCompletion()
      : await client.chat.completions.create(request)
    const { message, finish_reason: end } = answer.choices[0]!
    const calls = (message.tool_calls ?? []).map((call) => {
      if (call.type !== 'function') throw new Error(`a call of the type ${call.type}`)
      return { id: call.id, name: call.function.name, args: parsed(call.function.arguments) }
    })
    return { text: message.content ?? '', calls, end }
  },
})

const responses = (isStream: boolean): Dialect => ({
  name: `responses, ${isStream ? 'streamed' : 'whole'}`,
  ends: { complete: 'completed', calls: 'completed' },
  async ask(origin, turns, tools, { headers = {} } = {}) {
    const client = new OpenAI({
      baseURL: `${origin}/v1/openai`,
      apiKey: 'castellan',
      maxRetries: 0,
      defaultHeaders: headers,
    })
    const input = turns.flatMap((turn): OpenAI.Responses.ResponseInputItem[] => {
      if ('user' in turn) return [{ role: 'user', content: turn.user }]
      if ('results' in turn)
        return turn.results.map(({ id, text }) => ({ type: 'function_call_output', call_id: id, output: text }))
      return [
        ...(turn.text === '' ? [] : [{ role: 'assistant' as const, content: turn.text }]),
        ...turn.calls.map(({ id, name, args }) => ({
          type: 'function_call' as const,
          call_id: id,
          name,
          arguments: JSON.stringify(args),
        })),
      ]
    })
    const request = {
      model: 'gpt-4o',
      input,
      store: false,
      tools: tools.map((tool) => ({ type: 'function' as const, name: tool, parameters: schema, strict: false })),
    }
    const answer = isStream
      ? await client.responses.stream(request).finalResponse()
      : await client.responses.create(request)
    const calls = answer.output.flatMap((item) =>
      item.type === 'function_call' ? [{ id: item.call_id, name: item.name, args: parsed(item.arguments) }] : [],
    )
    return { text: answer.output_text, calls, end: answer.status ?? '' }
  },
})

const messages = (isStream: boolean): Dialect => ({
  name: `messages, ${isStream ? 'streamed' : 'whole'}`,
  ends: { complete: 'end_turn', calls: 'tool_use' },
  async ask(origin, turns, tools, { headers = {} } = {}) {
    const client = new Anthropic({
      baseURL: `${origin}/v1/anthropic`,
      apiKey: 'castellan',
      maxRetries: 0,
      defaultHeaders: headers,
    })
    const said = turns.map((turn): Anthropic.MessageParam => {
      if ('user' in turn) return { role: 'user', content: turn.user }
      if ('results' in turn) {
        const content = turn.results.map(({ id, text }) => ({
          type: 'tool_result' as const,
          tool_use_id: id,
          content: [{ type: 'text' as const, text }],
        }))
        return { role: 'user', content }
      }
      const content = turn.calls.map(({ id, name, args }) => ({ type: 'tool_use' as const, id, name, input: args }))
      return {
        role: 'assistant',
        content: [...(turn.text === '' ? [] : [{ type: 'text' as const, text: turn.text }]), ...content],
      }
    })
    const request = {
      model: 'claude-opus-4-5',
      max_tokens: 500,
      messages: said,
      tools: tools.map((tool) => ({ name: tool, input_schema: schema })),
    }
    const answer = isStream
      ? await client.messages.stream(request).finalMessage()
      : await client.messages.create(request)
    const calls = answer.content.flatMap((block) =>
      block.type === 'tool_use' ? [{ id: block.id, name: block.name, args: block.input as AskedCall['args'] }] : [],
    )
    const text = answer.content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('')
    return { text, calls, end: answer.stop_reason ?? '' }
  },
})

const generate = (isStream: boolean): Dialect => ({
  name: `generateContent, ${isStream ? 'streamed' : 'whole'}`,
  ends: { complete: 'STOP', calls: 'STOP' },
  async ask(origin, turns, tools, { headers = {} } = {}) {
    const client = new GoogleGenAI({
      apiKey: 'castellan',
      httpOptions: { baseUrl: `${origin}/v1/gemini`, headers: { ...headers } },
    })
    const contents = turns.map((turn) => {
      if ('user' in turn) return { role: 'user', parts: [{ text: turn.user }] }
      if ('results' in turn) {
        const parts = turn.results.map(({ name, text }) => ({ functionResponse: { name, response: { output: text } } }))
        return { role: 'user', parts }
      }
      const calls = turn.calls.map(({ name, args }) => ({ functionCall: { name, args } }))
      return { role: 'model', parts: [...(turn.text === '' ? [] : [{ text: turn.text }]), ...calls] }
    })
    const functionDeclarations = tools.map((name) => ({ name, parametersJsonSchema: schema }))
    const request = {
      model: 'gemini-2.5-flash',
      contents,
      config: tools.length === 0 ? {} : { tools: [{ functionDeclarations }] },
    }
    let text = ''
    let end = ''
    const calls: AskedCall[] = []
    const answers = isStream
      ? await client.models.generateContentStream(request)
      : [await client.models.generateContent(request)]
    for await (const answer of answers) {
      for (const { text: said, functionCall } of answer.candidates?.[0]?.content?.parts ?? []) {
        text += said ?? ''
        if (functionCall === undefined) continue
        calls.push({ id: `${calls.length}`, name: functionCall.name!, args: functionCall.args ?? {} })
      }
      end = answer.candidates?.[0]?.finishReason ?? end
    }
    return { text, calls, end }
  },
})

export const dialects: readonly Dialect[] = [
  chat('chat, whole', 'openai', 'gpt-4o', false),
  chat('chat, streamed', 'openai', 'gpt-4o', true),
  responses(false),
  responses(true),
  messages(false),
  messages(true),
  generate(false),
  generate(true),
  chat('chat to Anthropic, whole', 'model-router', 'anthropic:claude-opus-4-5', false),
  chat('chat to Anthropic, streamed', 'model-router', 'anthropic:claude-opus-4-5', true),
  chat('chat to Gemini, streamed', 'model-router', 'gemini:gemini-2.5-flash', true),
]

/** The configuration that leads each of them to a model server. */
export const dialectProviders = (url: string) =>
  [
    ['openai', '/v1'],
    ['anthropic', '/v1'],
    ['gemini', '/v1beta'],
  ].map(([type, path]) => ({
    name: type,
    type,
    endpoint: `${url}${path}`,
    api_key: 'env:MODEL_KEY',
    models: [{ alias: type === 'openai' ? 'default' : `${type}-default`, model: 'm' }],
  }))
/** An agent program: asks, runs the tools that it is told to, and goes on until nothing more is called. */
export async function runAgent(
  dialect: Dialect,
  origin: string,
  tools: Readonly<Record<string, (args: AskedCall['args']) => string | Promise<string>>>,
  turns: Turn[],
  options?: AskOptions,
): Promise<string> {
  for (let round = 0; round < 10; round++) {
    const heard = await dialect.ask(origin, turns, Object.keys(tools), options)
    const calls = heard.calls.map((call, index) => ({
      ...call,
      id: call.id === `${index}` ? `${round}.${index}` : call.id,
    }))
    turns.push({ text: heard.text, calls })
    if (calls.length === 0) return heard.text
    const results = []
    for (const { id, name, args } of calls) results.push({ id, name, text: await tools[name]!(args) })
    turns.push({ results })
  }
  throw new Error('the agent does not come to an end')
}
