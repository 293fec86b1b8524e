import { createHash } from 'node:crypto'
import type { Interaction } from '../contract/interaction.ts'
import type { StoredInteraction } from '../domains/interactions/ports.ts'

type Value = Readonly<{ stringValue: string } | { intValue: string } | { doubleValue: number } | { boolValue: boolean }>
type Attribute = Readonly<{ key: string; value: Value }>

/** A span in OTLP's JSON: ids in hexadecimal digits, times and whole numbers as strings. */
type OtlpSpan = Readonly<{
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  kind: number
  startTimeUnixNano: string
  endTimeUnixNano: string
  attributes: readonly Attribute[]
  status: Readonly<{ code: number }>
}>

const CLIENT = 3
const UNSET = 0
const ERROR = 2
const TRACE_DIGITS = 32
const SPAN_DIGITS = 16

/** OpenTelemetry's names for operations. */
const operationNames: Readonly<Record<string, string>> = {
  ...{ chat: 'chat', messages: 'chat', responses: 'chat' },
  generate: 'generate_content',
}
const providerNames: Readonly<Record<Interaction['protocol'], string>> = {
  ...{ openai: 'openai', anthropic: 'anthropic' },
  gemini: 'gcp.gemini',
}

/**
 * A request to a model as a span of OpenTelemetry's conventions for generative AI, without texts. Its ids are derived from the
 * interaction, so that a span that is sent twice is the same span, and the requests of one run are one trace.
 */
export function spanOf(one: StoredInteraction): OtlpSpan {
  const { traceParent, tokens, labels } = one
  const operation = operationNames[one.operation] ?? one.operation
  const model = one.requestedModel ?? one.usedModel
  const isError = one.outcome !== 'ok'
  const trace = one.runId === null ? `interaction ${one.id}` : `run ${one.tenant} ${one.runId}`
  return {
    traceId: traceParent?.traceId ?? digits(trace, TRACE_DIGITS),
    spanId: digits(one.id, SPAN_DIGITS),
    ...(traceParent !== undefined && { parentSpanId: traceParent.spanId }),
    name: model === null ? operation : `${operation} ${model}`,
    kind: CLIENT,
    startTimeUnixNano: nanoseconds(one.startedAtMs),
    endTimeUnixNano: nanoseconds(one.startedAtMs + one.durationMs),
    attributes: attributesOf({
      'gen_ai.operation.name': operation,
      'gen_ai.provider.name': providerNames[one.protocol],
      'gen_ai.request.model': one.requestedModel,
      'gen_ai.response.model': one.usedModel,
      'gen_ai.usage.input_tokens': tokens?.input,
      'gen_ai.usage.output_tokens': tokens?.output,
      'gen_ai.usage.cache_read.input_tokens': tokens?.cacheRead,
      'gen_ai.usage.cache_creation.input_tokens': tokens?.cacheWrite,
      'gen_ai.conversation.id': labels.session,
      'gen_ai.agent.id': one.agentId,
      'http.response.status_code': one.httpStatus,
      'error.type': isError ? (one.errorCode ?? one.httpStatus?.toString() ?? one.outcome) : undefined,
      'castellan.interaction.id': one.id,
      'castellan.tenant': one.tenant,
      'castellan.owner': one.owner,
      'castellan.source': one.source,
      'castellan.outcome': one.outcome,
      'castellan.provider': one.provider,
      'castellan.proxy.id': one.proxyId,
      'castellan.run.id': one.runId,
      'castellan.stream': one.isStream,
      'castellan.reasoning_tokens': tokens?.reasoning,
      'castellan.tokens_estimated': tokens === null ? undefined : one.isEstimated,
      // Always of one type: a collector may take that of the first span for all, and cut off the decimals of others.
      'castellan.cost_microdollars': one.costNanodollars === null ? null : { doubleValue: one.costNanodollars / 1_000 },
      'castellan.first_token_ms': one.firstTokenMs === null ? undefined : Math.round(one.firstTokenMs),
    }),
    status: { code: isError ? ERROR : UNSET },
  }
}

type Plain = string | number | boolean

function attributesOf(values: Readonly<Record<string, Plain | Value | null | undefined>>): Attribute[] {
  const attributes: Attribute[] = []
  for (const [key, value] of Object.entries(values)) {
    if (value === null || value === undefined) continue
    attributes.push({ key, value: typeof value === 'object' ? value : otlpValue(value) })
  }
  return attributes
}

function otlpValue(value: Plain): Value {
  if (typeof value === 'string') return { stringValue: value }
  if (typeof value === 'boolean') return { boolValue: value }
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value }
}

const digits = (text: string, count: number): string => createHash('sha256').update(text).digest('hex').slice(0, count)
/** Microseconds are still exact as a number. */
const nanoseconds = (ms: number): string => `${Math.round(ms * 1_000)}000`
