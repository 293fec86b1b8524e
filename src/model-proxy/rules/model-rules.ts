import type { IncomingHttpHeaders } from 'node:http'
import { fieldsOf } from '../protocols/protocol.ts'
import type { PreparedRequest } from '../request-body.ts'

/** A model at a provider, both by the names that the configuration has. */
export type Target = Readonly<{ provider: string; model: string }>

/** What the operator says of some requests. What a condition leaves out is any. */
export type ModelRule = Readonly<{
  name: string
  when: Readonly<{
    provider?: string | undefined
    /** Names; one that ends in `*` stands for all that begin so. */
    models?: readonly string[] | undefined
    /** As many tokens as the request has at most, by its size. */
    maxTokens?: number | undefined
    hasTools?: boolean | undefined
    /** Names in lower case, and their exact values. */
    headers?: Readonly<Record<string, string>> | undefined
    /** Minutes of the day; from the first until before the second, over midnight too. */
    between?: readonly [number, number] | undefined
  }>
  /** The model that is asked instead. */
  use: Target | null
  /** Those that are asked in turn when a provider fails before it answers. */
  fallBack: readonly Target[]
}>

export type AskedModel = Readonly<{
  provider: string
  request: PreparedRequest
  headers: IncomingHttpHeaders
  minuteOfDay: number
}>

/** A model other than the one that was asked for, and the rule that chose it. */
export type Replacement = Readonly<{ target: Target; rule: string }>

const BYTES_PER_TOKEN = 4

/** The models to ask, in turn; undefined stands for the one that was asked for. The first rule that says something of it decides. */
export function modelsFor(rules: readonly ModelRule[], asked: AskedModel): readonly (Replacement | undefined)[] {
  const matching = rules.filter((rule) => matches(rule, asked))
  const optimising = matching.find(({ use }) => use !== null)
  const failing = matching.find(({ fallBack }) => fallBack.length > 0)
  return [
    optimising === undefined ? undefined : { target: optimising.use!, rule: optimising.name },
    ...(failing?.fallBack ?? []).map((target) => ({ target, rule: failing!.name })),
  ]
}

function matches({ when }: ModelRule, { provider, request, headers, minuteOfDay }: AskedModel): boolean {
  const { models, maxTokens, hasTools, between } = when
  const model = request.model ?? ''
  if (when.provider !== undefined && when.provider !== provider) return false
  if (models !== undefined && !models.some((name) => isNamed(name, model))) return false
  if (maxTokens !== undefined && Math.ceil((request.bytes?.length ?? 0) / BYTES_PER_TOKEN) > maxTokens) return false
  if (hasTools !== undefined && hasTools !== asksWithTools(request)) return false
  if (between !== undefined && !isWithin(between, minuteOfDay)) return false
  return Object.entries(when.headers ?? {}).every(([name, value]) => headers[name] === value)
}

const isNamed = (name: string, model: string): boolean =>
  name.endsWith('*') ? model.startsWith(name.slice(0, -1)) : name === model

const isWithin = ([from, until]: readonly [number, number], minute: number): boolean =>
  from <= until ? minute >= from && minute < until : minute >= from || minute < until

/** All three formats have them in a list of this name. */
function asksWithTools({ body }: PreparedRequest): boolean {
  const tools = fieldsOf(body)?.['tools']
  return Array.isArray(tools) && tools.length > 0
}

/** What a clock on the wall there says. */
export function minuteOfDayIn(timeZone: string): (nowMs: number) => number {
  const format = new Intl.DateTimeFormat('en-GB', { timeZone, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
  return (nowMs) => {
    const [hours, minutes] = format.format(nowMs).split(':')
    return Number(hours) * 60 + Number(minutes)
  }
}
