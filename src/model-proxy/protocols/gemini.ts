import {
  type AnswerFormat,
  countOf,
  type Fields,
  fieldsOf,
  kindsOf,
  type Operation,
  type Protocol,
  readCount,
  textOf,
} from './protocol.ts'

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
    const prompt = readCount(usage['promptTokenCount'])
    const input = prompt === undefined ? undefined : prompt + countOf(usage['toolUsePromptTokenCount'])
    const cacheRead = countOf(usage['cachedContentTokenCount'])
    return { input, output: outputOf(usage, input, reasoning), cacheRead, reasoning, ...mediaOf(usage) }
  },
  readModel: (answer) => textOf(fieldsOf(lastOf(answer))?.['modelVersion']),
}

/** Nothing is written. */
const embeddings: AnswerFormat = {
  ...generate,
  readUsage(answer) {
    const usage = generate.readUsage(answer)
    return usage && { ...usage, output: 0 }
  },
}

const formats: Readonly<Partial<Record<Operation, AnswerFormat>>> = { generate, embeddings }

/** Counts by modality, of which there may be several of one. */
function mediaOf(usage: Fields) {
  const counted = (modality: string, ...members: readonly string[]): unknown => {
    const counts = members
      .flatMap((name) => usage[name])
      .filter((one) => fieldsOf(one)?.['modality'] === modality)
      .map((one) => fieldsOf(one)!['tokenCount'] ?? 0)
    const known = counts.map(readCount)
    return known.includes(undefined) ? counts : known.reduce<number>((sum, one) => sum + one!, 0)
  }
  return kindsOf({
    inputAudio: counted('AUDIO', 'promptTokensDetails', 'toolUsePromptTokensDetails'),
    inputImage: counted('IMAGE', 'promptTokensDetails', 'toolUsePromptTokensDetails'),
    inputVideo: counted('VIDEO', 'promptTokensDetails', 'toolUsePromptTokensDetails'),
    cachedAudio: counted('AUDIO', 'cacheTokensDetails'),
    cachedImage: counted('IMAGE', 'cacheTokensDetails'),
    outputAudio: counted('AUDIO', 'candidatesTokensDetails'),
    outputImage: counted('IMAGE', 'candidatesTokensDetails'),
    outputVideo: counted('VIDEO', 'candidatesTokensDetails'),
  })
}

/** A count of 0 may be left out; then the total says whether it is. */
function outputOf(usage: Fields, input: number | undefined, reasoning: number): number | undefined {
  const { candidatesTokenCount: candidates, totalTokenCount: total } = usage
  const written = readCount(candidates)
  if (written !== undefined) return written + reasoning
  const all = readCount(total)
  if ((candidates ?? null) !== null || all === undefined || input === undefined) return undefined
  return Math.max(all - input, reasoning)
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

/** An ErrorInfo has texts only. */
const asTexts = (details: Fields): Record<string, string> =>
  Object.fromEntries(
    Object.entries(details).map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  )

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
  operations: [...Object.keys(operations).map((verb) => `POST v1beta/models/MODEL:${verb}`), 'GET v1beta/models'],
  keyHeaders: (key) => ['x-goog-api-key', key],
  formatOf: (operation) => formats[operation],
  refusalText: ({ status, code, message, details }) =>
    JSON.stringify({
      error: {
        code: status,
        message,
        status: statuses[status] ?? 'INTERNAL',
        details: [
          {
            '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
            ...{ reason: code, domain: 'castellan', metadata: asTexts(details ?? {}) },
          },
        ],
      },
    }),
}
