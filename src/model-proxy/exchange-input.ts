import type { ProviderKeyScope } from '../contract/provider-keys.ts'
import type { Answer } from '../http/exchange/answer.ts'
import type { RequestHead } from '../http/exchange/request-head.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Route } from './find-route.ts'
import type { JudgedRequest } from './judging/ports.ts'
import type { Caller, FinishedRequest, ProxyFacts } from './ports.ts'
import type { Endpoint } from './protocols/protocol.ts'
import type { PreparedRequest } from './request-body.ts'
import type { AnswerTranslator } from './router/answer-translator.ts'
import type { ModelRuleName } from './rules/model-rules.ts'
import type { Spending } from './spending.ts'

export type ExchangeParts = Readonly<{
  clock: Clock
  finished(request: FinishedRequest): void
  keepsBodies: boolean
  /** How long a client may read nothing of an available answer. */
  idleTimeoutMs: number
  /** Answers in the provider's own format. */
  refuse(req: RequestHead, res: Answer, route: Route, error: unknown): void
}>

type ReplacedModel = Readonly<{
  requestedModel: string | null
  rule: ModelRuleName
  /** Null if a failure chose the model, and not a rule for a cheaper one. */
  baseline: FinishedRequest['baseline']
}>

export type ExchangeInput = Readonly<{
  req: RequestHead
  res: Answer
  route: Route & Readonly<{ endpoint: Endpoint }>
  caller: Caller
  proxy: ProxyFacts | undefined
  request: PreparedRequest
  /** Present if the answer must be in another format than the upstream's. */
  translator?: AnswerTranslator | undefined
  /** The verdicts on the request, and the judge of its answer. Absent if there is nothing to judge. */
  judged?: JudgedRequest | undefined
  /** Present if the model is not the requested one. */
  replaced?: ReplacedModel | undefined
  /** Called if the provider fails before it answers, and another model should be tried. */
  fallBack?: (() => void) | undefined
  /** Computed before the request is sent. */
  spending?: Spending | undefined
  /** Whose key is sent to the upstream. */
  keyScope: ProviderKeyScope | null
  /** That key, if the caller must not see it. */
  hiddenKey?: string | undefined
  startedAtMs: number
  startedMs: number
}>
