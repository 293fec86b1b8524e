import { AppError } from '../../contract/app-error.ts'
import { type Random, randomId } from '../../kernel/random.ts'
import type { Route } from '../find-route.ts'
import type { Upstream } from '../ports.ts'
import { openai } from '../protocols/openai.ts'
import { type Endpoint, fieldsOf, textOf } from '../protocols/protocol.ts'
import { type PreparedRequest, prepareRequest } from '../request-body.ts'
import { type AnswerTranslator, createAnswerTranslator } from './answer-translator.ts'
import { anthropicChat } from './anthropic-chat.ts'
import { invalid } from './chat-request.ts'
import { geminiChat } from './gemini-chat.ts'
import type { Translation } from './translation.ts'

/** A request in OpenAI's format on its way to the provider that its model names. */
export type RoutedRequest = Readonly<{
  route: Route & Readonly<{ endpoint: Endpoint }>
  request: PreparedRequest
  /** Absent if the provider uses OpenAI's format itself. */
  translator?: AnswerTranslator
  /** Further headers for the provider, as alternating names and values. */
  headers: readonly string[]
}>

const translations: Readonly<Record<'anthropic' | 'gemini', Translation>> = {
  anthropic: anthropicChat,
  gemini: geminiChat,
}
const ANTHROPIC_VERSION = ['anthropic-version', '2023-06-01'] as const

const refusing = new WeakMap<Upstream, Upstream>()

/** One object for each upstream: its prices are remembered by the object. */
function refusingLikeOpenai(upstream: Upstream): Upstream {
  const known = refusing.get(upstream)
  if (known !== undefined) return known
  const made = { ...upstream, protocol: { ...upstream.protocol, refusalText: openai.refusalText } }
  refusing.set(upstream, made)
  return made
}

/** The model is written `provider:model`. Refusals are in OpenAI's format for every provider. */
export function routeRequest(
  route: Route & Readonly<{ endpoint: Endpoint }>,
  received: Buffer,
  upstreams: ReadonlyMap<string, Upstream>,
  parts: Readonly<{ random: Random; nowMs: number }>,
): RoutedRequest {
  const prepared = prepareRequest(received, route.endpoint, undefined)
  const body = prepared.body ?? {}
  const [, name = '', model = ''] = /^([^:]{1,64}):(.{1,256})$/s.exec(textOf(body['model']) ?? '') ?? []
  const found = upstreams.get(name)
  if (found === undefined) throw unknownProvider(upstreams)
  const upstream = refusingLikeOpenai(found)
  const { protocol } = found
  if (protocol.name === 'openai') {
    const bytes = Buffer.from(JSON.stringify({ ...body, model }))
    const format = protocol.formatOf(route.endpoint.operation)
    return { route: { ...route, upstream }, request: prepareRequest(bytes, route.endpoint, format), headers: [] }
  }
  if (route.endpoint.operation !== 'chat') throw onlyChat(name)
  const translation = translations[protocol.name]
  const translated = translation.toRequest(body, model)
  const bytes = Buffer.from(JSON.stringify(translated.body))
  const naming = {
    id: randomId(parts.random, 'chatcmpl').replace('_', '-'),
    createdS: Math.floor(parts.nowMs / 1000),
    model: `${name}:${model}`,
    includeUsage: fieldsOf(body['stream_options'])?.['include_usage'] === true,
  }
  const { endpoint } = translated
  return {
    route: { ...route, upstream, endpoint, query: '' },
    request: prepareRequest(bytes, endpoint, protocol.formatOf(endpoint.operation)),
    translator: createAnswerTranslator(translation, naming),
    headers: protocol.name === 'anthropic' ? ANTHROPIC_VERSION : [],
  }
}

function unknownProvider(upstreams: ReadonlyMap<string, Upstream>): AppError {
  const names = [...upstreams.keys()].join(', ')
  return invalid('model', `must be provider:model, with one of these providers: ${names}`)
}

const onlyChat = (provider: string): AppError =>
  new AppError('ERR_ROUTE_NOT_FOUND', `Models of '${provider}' are available only through chat/completions.`, {
    provider,
  })
