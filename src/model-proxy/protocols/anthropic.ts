import {
  type AnswerFormat,
  type Endpoint,
  fieldsOf,
  kindsOf,
  ownError,
  type Protocol,
  readCount,
  textOf,
} from './protocol.ts'

const endpoints: ReadonlyMap<string, Endpoint> = new Map([
  ['POST v1/messages', { operation: 'messages', method: 'POST', path: 'messages' }],
  ['POST v1/messages/count_tokens', { operation: 'count_tokens', method: 'POST', path: 'messages/count_tokens' }],
  ['GET v1/models', { operation: 'models', method: 'GET', path: 'models' }],
])
const ONE_MODEL = /^v1\/(models\/[A-Za-z0-9._:@-]{1,256})$/

/** The first event of a stream has the answer in `message`; later ones have `usage` alone, with what they know. */
const messages: AnswerFormat = {
  usageMark: '"usage"',
  beginsWithUsage: true,
  readUsage(answer) {
    const fields = fieldsOf(answer)
    const usage = fieldsOf(fieldsOf(fields?.['message'])?.['usage'] ?? fields?.['usage'])
    if (usage === undefined) return undefined
    const cacheRead = readCount(usage['cache_read_input_tokens'] ?? 0)
    const cacheWrite = readCount(usage['cache_creation_input_tokens'] ?? 0)
    const output = usage['output_tokens'] === undefined ? {} : { output: readCount(usage['output_tokens']) }
    if (usage['input_tokens'] === undefined || usage['input_tokens'] === null) return output
    const fresh = readCount(usage['input_tokens'])
    const isRead = fresh !== undefined && cacheRead !== undefined && cacheWrite !== undefined
    const input = isRead ? fresh + cacheRead + cacheWrite : undefined
    const { ephemeral_1h_input_tokens: cacheWriteHour } = fieldsOf(usage['cache_creation']) ?? {}
    return { input, cacheRead: cacheRead ?? 0, cacheWrite: cacheWrite ?? 0, ...output, ...kindsOf({ cacheWriteHour }) }
  },
  readModel: (answer) => textOf(fieldsOf(fieldsOf(answer)?.['message'])?.['model'] ?? fieldsOf(answer)?.['model']),
}

const kinds: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
}

export const anthropic: Protocol = {
  name: 'anthropic',
  find(method, path) {
    const found = endpoints.get(`${method} ${path}`)
    if (found !== undefined) return found
    const model = method === 'GET' ? ONE_MODEL.exec(path)?.[1] : undefined
    return model === undefined ? undefined : { operation: 'models', method: 'GET', path: model }
  },
  operations: [...endpoints.keys()],
  keyHeaders: (key) => ['x-api-key', key],
  formatOf: (operation) => (operation === 'messages' ? messages : undefined),
  refusalText: ({ status, message, ...own }) =>
    JSON.stringify({ type: 'error', error: { type: kinds[status] ?? 'api_error', message, ...ownError(own) } }),
}
