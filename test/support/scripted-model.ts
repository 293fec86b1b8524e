import { type ChatCompletionRequest, LLMock } from '@copilotkit/aimock'

/** What the scripted model answers: a text, calls of tools, or a failure with its HTTP status. */
export type Line = Readonly<
  | { text: string; toolCalls?: readonly ScriptedCall[] }
  | { toolCalls: readonly ScriptedCall[] }
  | { status: number; retryAfter?: number }
>
export type ScriptedCall = Readonly<{ name: string; arguments: object; id?: string }>
export type SeenRequest = Readonly<{ model: string; text: string; messages: ChatCompletionRequest['messages'] }>

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
    const seen = { model: request.model, text: textOf(request), messages: request.messages }
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
    if (toolCalls === undefined) return { content: 'text' in line ? line.text : '' }
    return 'text' in line ? { content: line.text, toolCalls } : { toolCalls }
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

const textOf = ({ messages }: ChatCompletionRequest): string =>
  messages
    .map(({ content }) =>
      typeof content === 'string' ? content : (content ?? []).map((part) => part.text ?? '').join(''),
    )
    .join('\n')
