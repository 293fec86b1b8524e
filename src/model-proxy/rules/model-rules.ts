import type { IncomingHttpHeaders } from 'node:http'
import { isModelNamed } from '../../contract/optimization-rules.ts'
import { fieldsOf } from '../protocols/protocol.ts'
import type { PreparedRequest } from '../request-body.ts'

/** A model at a provider, by their names in the configuration. */
export type Target = Readonly<{ provider: string; model: string }>

/** The operator's rule for some requests. An absent condition matches any request. */
export type ModelRule = Readonly<{
  name: string
  when: Readonly<{
    provider?: string | undefined
    /** Names; one that ends in `*` is a prefix. */
    models?: readonly string[] | undefined
    /** The largest number of tokens in the request, estimated by its size. */
    maxTokens?: number | undefined
    hasTools?: boolean | undefined
    /** Names in lower case, and their exact values. */
    headers?: Readonly<Record<string, string>> | undefined
    /** Minutes of the day, the second excluded; may cross midnight. */
    between?: readonly [number, number] | undefined
  }>
  /** The model to use instead. */
  use: Target | null
  /** Models to try in turn if a provider fails before it answers. */
  fallBack: readonly Target[]
}>

export type RequestedModel = Readonly<{
  provider: string
  model: string
  /** By its size. */
  tokens: number
  hasTools: boolean
  headers: IncomingHttpHeaders
  minuteOfDay: number
}>

/** A replacement for the requested model, and its rule. */
export type Replacement = Readonly<{ target: Target; rule: ModelRuleName }>
/** One of the configuration has no id. */
export type ModelRuleName = Readonly<{ id: string | null; name: string }>

/** The models to try in turn; undefined stands for the requested one. The first matching rule decides. */
export function modelsFor(
  rules: readonly ModelRule[],
  requested: RequestedModel,
): readonly (Replacement | undefined)[] {
  const matching = rules.filter((rule) => matches(rule, requested))
  const optimising = matching.find(({ use }) => use !== null)
  const failing = matching.find(({ fallBack }) => fallBack.length > 0)
  return [
    optimising === undefined ? undefined : { target: optimising.use!, rule: { id: null, name: optimising.name } },
    ...(failing?.fallBack ?? []).map((target) => ({ target, rule: { id: null, name: failing!.name } })),
  ]
}

function matches({ when }: ModelRule, requested: RequestedModel): boolean {
  const { models, maxTokens, hasTools, between } = when
  const { model, headers, minuteOfDay } = requested
  if (when.provider !== undefined && when.provider !== requested.provider) return false
  if (models !== undefined && !models.some((name) => isModelNamed(name, model))) return false
  if (maxTokens !== undefined && requested.tokens > maxTokens) return false
  if (hasTools !== undefined && hasTools !== requested.hasTools) return false
  if (between !== undefined && !isWithin(between, minuteOfDay)) return false
  return Object.entries(when.headers ?? {}).every(([name, value]) => headers[name] === value)
}

const isWithin = ([from, until]: readonly [number, number], minute: number): boolean =>
  from <= until ? minute >= from && minute < until : minute >= from || minute < until

/** All three formats have them in a list of this name. */
export function asksWithTools({ body }: PreparedRequest): boolean {
  const tools = fieldsOf(body)?.['tools']
  return Array.isArray(tools) && tools.length > 0
}

/** The local time of day in that zone. */
export function minuteOfDayIn(timeZone: string): (nowMs: number) => number {
  const format = new Intl.DateTimeFormat('en-GB', { timeZone, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
  return (nowMs) => {
    const [hours, minutes] = format.format(nowMs).split(':')
    return Number(hours) * 60 + Number(minutes)
  }
}
