import { type ChatCompletionRequest, LLMock } from '@copilotkit/aimock'

/** What the scripted model answers: a text, calls of tools, or a failure with its HTTP status. */
export type Line = Readonly<
  | { text: string; toolCalls?: readonly ScriptedCall[]; tokens?: Readonly<{ input: number; output: number }> }
  | { toolCalls: readonly ScriptedCall[] }
  | { status: number; retryAfter?: number }
>
export type ScriptedCall = Readonly<{ name: string; arguments: object; id?: string }>
export type SeenRequest = Readonly<{
  model: string
  text: string
  messages: ChatCompletionRequest['messages']
  isStream: boolean
}>

export type ScriptedModel = AsyncDisposable &
  Readonly<{
    /** Of the server, without a path. */
    url: string
    requests: readonly SeenRequest[]
    stop(): Promise<void>
  }>

/** A model server over HTTP that speaks every provider's protocol; `answer` says what comes next. */
export async function startScriptedModel(
  answer: (request: SeenRequest, position: number) => Line | Promise<Line>,
): Promise<ScriptedModel> {
  const mock = new LLMock({ port: 0, logLevel: 'silent' })
  const requests: SeenRequest[] = []
  mock.on({}, async (request) => {
    const { model, messages, stream = false } = request
    const seen = { model, text: textOf(request), messages, isStream: stream }
    const line = await answer(seen, requests.push(seen) - 1)
    if ('status' in line) {
      const retry = line.retryAfter === undefined ? {} : { retryAfter: line.retryAfter }
      return { error: { message: 'scripted failure', type: 'scripted' }, status: line.status, ...retry }
    }
    const toolCalls = line.toolCalls?.map(({ name, arguments: args, id }, index) => ({
      name,
      arguments: JSON.stringify(args),
      id: id ?? `call_${requests.length}_${index}`,
    }))
    const tokens = 'text' in line && line.tokens !== undefined ? { usage: usageOf(line.tokens) } : {}
    if (toolCalls === undefined) return { content: 'text' in line ? line.text : '', ...tokens }
    // Gemini says that it stopped, also where it calls tools. The package says something that Gemini never does.
    const ended = model.startsWith('gemini') ? { finishReason: 'stop' } : {}
    return 'text' in line ? { content: line.text, toolCalls, ...ended } : { toolCalls, ...ended }
  })
  await mock.start()
  const stop = () => mock.stop()
  return { url: mock.url, requests, stop, [Symbol.asyncDispose]: stop }
}

/** Answers line by line, and the last one from then on. */
export const inTurn =
  (...lines: readonly Line[]) =>
  (_: SeenRequest, position: number): Line =>
    lines[Math.min(position, lines.length - 1)]!

/** As each of the protocols spells it. */
const usageOf = ({ input, output }: Readonly<{ input: number; output: number }>) => ({
  prompt_tokens: input,
  completion_tokens: output,
  total_tokens: input + output,
  input_tokens: input,
  output_tokens: output,
  promptTokenCount: input,
  candidatesTokenCount: output,
  totalTokenCount: input + output,
})

const textOf = ({ messages }: ChatCompletionRequest): string =>
  messages
    .map(({ content }) =>
      typeof content === 'string' ? content : (content ?? []).map((part) => part.text ?? '').join(''),
    )
    .join('\n')

/** The part of a configuration that leads to it, with the key in MODEL_KEY. */
export const scriptedModels = ({ url }: ScriptedModel) => ({
  models: {
    providers: [
      {
        name: 'scripted',
        type: 'openai',
        endpoint: `${url}/v1`,
        api_key: 'env:MODEL_KEY',
        models: [{ alias: 'default', model: 'm' }],
      },
    ],
  },
})
