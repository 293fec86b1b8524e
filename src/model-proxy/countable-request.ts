import { AppError } from '../contract/app-error.ts'
import type { Caller } from './ports.ts'
import { fieldsOf, type Operation } from './protocols/protocol.ts'
import type { PreparedRequest } from './request-body.ts'

type Body = PreparedRequest['body']

/**
 * With these, routers such as OpenRouter and LiteLLM answer with another model than `model` names, or at another price. Providers of models
 * have none of them.
 */
const routing = ['models', 'route', 'provider', 'transforms', 'preset', 'fallbacks', 'user_config'] as const

/** A key for some models must not reach others by another name than `model`. */
export function requireOneModel({ grants }: Caller, body: Body): void {
  if ((grants?.models ?? null) === null) return
  const field = routingField(body)
  if (field !== undefined)
    throw refused(field, 'with it, the provider may choose another model than this key allows. Leave it out.')
}

const routingField = (body: Body): string | undefined => routing.find((name) => isSaid(body?.[name]))

/** What costs as much as is known, or less. */
const usualPrices: Readonly<Record<string, ReadonlySet<string>>> = {
  service_tier: new Set(['auto', 'default', 'flex', 'standard', 'standard_only']),
  serviceTier: new Set(['auto', 'default', 'flex', 'standard', 'standard_only']),
  speed: new Set(['standard']),
  inference_geo: new Set(['global']),
}

/** For a request whose cost is limited: its largest cost must be known from what it says. */
export function requireCountable(operation: Operation, body: Body): void {
  const field = routingField(body)
  if (field !== undefined)
    throw refused(field, 'with it, the price is not known, so your limit on cost could not be enforced. Leave it out.')
  for (const [name, usual] of Object.entries(usualPrices)) {
    const value = body?.[name]
    if (isSaid(value) && (typeof value !== 'string' || !usual.has(value.toLowerCase())))
      throw refused(name, `must be one of ${[...usual].join(', ')}, because your limit on cost counts the usual price.`)
  }
  const configs = operation === 'generate' ? ['generationConfig', 'generation_config'] : []
  for (const name of counts[operation] ?? []) requireCount(name, body?.[name], false)
  for (const config of configs) {
    for (const name of generateCounts) requireCount(`${config}.${name}`, fieldsOf(body?.[config])?.[name], true)
  }
}

/** The members by which the cost is reserved. */
const counts: Readonly<Partial<Record<Operation, readonly string[]>>> = {
  chat: ['max_completion_tokens', 'max_tokens', 'n'],
  responses: ['max_output_tokens'],
  messages: ['max_tokens'],
}
const generateCounts = ['maxOutputTokens', 'max_output_tokens', 'candidateCount', 'candidate_count'] as const

/** Null means the same as no bound. Gemini takes numbers as texts too. */
function requireCount(field: string, value: unknown, mayBeText: boolean): void {
  if (!isSaid(value)) return
  const isWritten = mayBeText && typeof value === 'string' && /^[1-9]\d{0,14}$/.test(value)
  if (isWritten || (Number.isSafeInteger(value) && (value as number) > 0)) return
  throw refused(field, 'must be a positive whole number, because your limit on cost reserves by it.')
}

const isSaid = (value: unknown): boolean => value !== undefined && value !== null

const refused = (field: string, rule: string): AppError =>
  new AppError('ERR_INVALID_INPUT', `${field}: ${rule}`, { field })
