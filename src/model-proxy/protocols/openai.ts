import {
  type AnswerFormat,
  countOf,
  type Endpoint,
  fieldsOf,
  kindsOf,
  type Operation,
  ownError,
  type PartialTokens,
  type Protocol,
  readCount,
  textOf,
} from './protocol.ts'

const endpoints: ReadonlyMap<string, Endpoint> = new Map(
  (
    [
      { operation: 'chat', method: 'POST', path: 'chat/completions' },
      { operation: 'responses', method: 'POST', path: 'responses' },
      { operation: 'count_tokens', method: 'POST', path: 'responses/input_tokens' },
      { operation: 'embeddings', method: 'POST', path: 'embeddings' },
      { operation: 'models', method: 'GET', path: 'models' },
    ] as const
  ).map((endpoint) => [`${endpoint.method} ${endpoint.path}`, endpoint]),
)
const ONE_MODEL = /^models\/([A-Za-z0-9._:/@-]{1,256})$/

function usageOf(value: unknown): PartialTokens | undefined {
  const usage = fieldsOf(value)
  if (usage === undefined) return undefined
  const input = fieldsOf(usage['prompt_tokens_details'] ?? usage['input_tokens_details'])
  const cached = fieldsOf(input?.['cached_tokens_details'])
  const output = fieldsOf(usage['completion_tokens_details'] ?? usage['output_tokens_details'])
  return {
    input: readCount(usage['prompt_tokens'] ?? usage['input_tokens']),
    output: readCount(usage['completion_tokens'] ?? usage['output_tokens']),
    cacheRead: countOf(input?.['cached_tokens']),
    cacheWrite: countOf(input?.['cache_write_tokens']),
    reasoning: countOf(output?.['reasoning_tokens']),
    ...kindsOf({
      inputAudio: input?.['audio_tokens'],
      inputImage: input?.['image_tokens'],
      cachedAudio: cached?.['audio_tokens'],
      cachedImage: cached?.['image_tokens'],
      outputAudio: output?.['audio_tokens'],
      outputImage: output?.['image_tokens'],
    }),
  }
}

const chat: AnswerFormat = {
  usageMark: '"usage"',
  readUsage: (answer) => usageOf(fieldsOf(answer)?.['usage']),
  readModel: (answer) => textOf(fieldsOf(answer)?.['model']),
  asksForUsage: true,
}

/** Nothing is written. */
const embeddings: AnswerFormat = {
  usageMark: '"usage"',
  readUsage(answer) {
    const usage = usageOf(fieldsOf(answer)?.['usage'])
    return usage && { ...usage, output: 0 }
  },
  readModel: chat.readModel,
}

/** An event of a stream has the answer in `response`. */
const answerIn = (value: unknown) => fieldsOf(fieldsOf(value)?.['response']) ?? fieldsOf(value)
const responses: AnswerFormat = {
  usageMark: '"usage"',
  readUsage: (answer) => (isUnfinished(answer) ? undefined : usageOf(answerIn(answer)?.['usage'])),
  readModel: (answer) => textOf(answerIn(answer)?.['model']),
  isUnfinished,
}

function isUnfinished(answer: unknown): boolean {
  const status = answerIn(answer)?.['status']
  return status === 'queued' || status === 'in_progress'
}

const formats: Readonly<Partial<Record<Operation, AnswerFormat>>> = { chat, embeddings, responses }

const kinds: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'insufficient_quota',
  403: 'permission_error',
  404: 'invalid_request_error',
  413: 'invalid_request_error',
  429: 'rate_limit_error',
}

/** The error format, for our errors and those of other providers. */
export const errorOf = (status: number, message: string, code: string | null) => ({
  error: { message, type: kinds[status] ?? 'server_error', param: null, code },
})

export const openai: Protocol = {
  name: 'openai',
  find(method, path) {
    const found = endpoints.get(`${method} ${path}`)
    if (found !== undefined) return found
    if (method !== 'GET' || !ONE_MODEL.test(path) || path.includes('..')) return undefined
    return { operation: 'models', method: 'GET', path }
  },
  operations: [...endpoints.keys()],
  keyHeaders: (key) => ['authorization', `Bearer ${key}`],
  formatOf(operation) {
    return formats[operation]
  },
  refusalText({ status, code, message, details }) {
    const { error } = errorOf(status, message, code)
    return JSON.stringify({ error: { ...error, ...ownError({ code, ...(details && { details }) }) } })
  },
}
