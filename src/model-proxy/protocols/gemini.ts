import { type AnswerFormat, countOf, fieldsOf, type Operation, type Protocol, textOf } from './protocol.ts'

const CALL = /^(v1|v1beta)\/models\/([A-Za-z0-9._@-]{1,256}):([A-Za-z]+)$/
const MODELS = /^(v1|v1beta)\/models(?:\/([A-Za-z0-9._@-]{1,256}))?$/
const operations: Readonly<Record<string, Operation>> = {
  generateContent: 'generate',
  streamGenerateContent: 'generate',
  countTokens: 'count_tokens',
  embedContent: 'embeddings',
  batchEmbedContents: 'embeddings',
}

/** A stream without events is a list of answers. */
const lastOf = (answer: unknown): unknown => (Array.isArray(answer) ? answer.at(-1) : answer)

const generate: AnswerFormat = {
  usageMark: '"usageMetadata"',
  readUsage(answer) {
    const usage = fieldsOf(fieldsOf(lastOf(answer))?.['usageMetadata'])
    if (usage === undefined) return undefined
    const reasoning = countOf(usage['thoughtsTokenCount'])
    return {
      input: countOf(usage['promptTokenCount']) + countOf(usage['toolUsePromptTokenCount']),
      output: countOf(usage['candidatesTokenCount']) + reasoning,
      cacheRead: countOf(usage['cachedContentTokenCount']),
      reasoning,
    }
  },
  readModel: (answer) => textOf(fieldsOf(lastOf(answer))?.['modelVersion']),
}

const statuses: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  402: 'FAILED_PRECONDITION',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  413: 'INVALID_ARGUMENT',
  429: 'RESOURCE_EXHAUSTED',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
}

export const gemini: Protocol = {
  name: 'gemini',
  find(method, path) {
    if (method === 'GET') {
      return MODELS.test(path) ? { operation: 'models', method, path } : undefined
    }
    const [, , model, verb = ''] = CALL.exec(path) ?? []
    const operation = operations[verb]
    if (method !== 'POST' || model === undefined || operation === undefined) return undefined
    return { operation, method, path, model, isStream: verb === 'streamGenerateContent' }
  },
  keyHeaders: (key) => ['x-goog-api-key', key],
  formatOf: (operation) => (operation === 'generate' || operation === 'embeddings' ? generate : undefined),
  refusalText: ({ status, code, message }) =>
    JSON.stringify({
      error: {
        code: status,
        message,
        status: statuses[status] ?? 'INTERNAL',
        details: [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: code, domain: 'castellan' }],
      },
    }),
}
