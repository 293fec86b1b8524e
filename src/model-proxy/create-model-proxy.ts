import type { IncomingMessage, ServerResponse } from 'node:http'
import { AppError } from '../contract/app-error.ts'
import { errorCodes } from '../contract/error-codes.ts'
import { limits } from '../contract/limits.ts'
import { type ChosenModel, type OptimizationRules, tokensBySize } from '../contract/optimization-rules.ts'
import type { Answer } from '../http/exchange/answer.ts'
import { type BodyProblem, readBody } from '../http/exchange/read-body.ts'
import type { RequestHead } from '../http/exchange/request-head.ts'
import { sendJson } from '../http/exchange/send-text.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Logger } from '../kernel/logger.ts'
import { type Random, randomId } from '../kernel/random.ts'
import type { InFlightCalls } from '../tools/runtime/in-flight-calls.ts'
import { clientSignal } from './client-signal.ts'
import { requireOneModel } from './countable-request.ts'
import { Exchange } from './exchange.ts'
import type { ExchangeInput } from './exchange-input.ts'
import { findRoute, MODEL_ROUTER, type Route } from './find-route.ts'
import { headersToUpstream } from './forwarded-headers.ts'
import { requireModel, requirePermitted, requireProxy } from './grants.ts'
import { inProgress } from './in-progress.ts'
import type { Judging } from './judging/create-judging.ts'
import { whenKnown } from './judging/events.ts'
import type { JudgedRequest } from './judging/ports.ts'
import type { KeyGuard } from './key-guard.ts'
import { modelList } from './model-list.ts'
import type { Caller, ModelProxyDeps, PresentedKeys, ProxyFacts, UsedKey } from './ports.ts'
import { keyNeeded, presentedKeys } from './presented-keys.ts'
import type { Endpoint } from './protocols/protocol.ts'
import { createProviderCredentials, type ProviderCredentialDeps } from './provider-credentials.ts'
import { bodyTooLarge, notForwarded, shuttingDown, tooManyRequests } from './proxy-errors.ts'
import { refusalHeaders, refusedRequest } from './refused-request.ts'
import { prepareRequest } from './request-body.ts'
import { type RoutedRequest, routeRequest } from './router/route-request.ts'
import { asksWithTools, type ModelRule, modelsFor } from './rules/model-rules.ts'
import { rerouteRequest } from './rules/reroute-request.ts'
import { reserveFor, type Spending, type SpendingDeps, subjectOf } from './spending.ts'
import { createUpstreamPools } from './upstream/upstream-pools.ts'
import { withoutOurKeys } from './without-our-keys.ts'

/**
 * Programs reach the models of providers here, at `/v1/{provider}/{proxy}/…`. For every request, in this order: authentication,
 * proxy, operation, upstream. Unknown operations are refused, so nothing passes unjudged. Answers have the provider's format, our
 * refusals too.
 */
export type ModelProxy = Readonly<{
  /** Always answers. The address is one of a provider. */
  handle(req: IncomingMessage, res: ServerResponse, url: string): void
  /** The same for a request that was read whole. */
  handleWhole(req: RequestHead, body: Buffer, res: Answer, url: string): void
  close(): Promise<void>
}>

export type ModelProxyParts = ModelProxyDeps &
  ProviderCredentialDeps &
  Readonly<{
    inFlight: InFlightCalls
    /** Whether a credential has the form of one of ours. */
    isOurs(key: string): boolean
    sendError(
      req: RequestHead,
      res: Answer,
      error: Readonly<{ status: number; headers: Readonly<Record<string, string>>; json: string }>,
    ): void
    /** Judges tools in requests and answers. */
    judging: Judging
    /** Where a request comes from. */
    addressOf(req: RequestHead): string
    keyGuard: KeyGuard
    /** The costs of requests and their limits. */
    spending: SpendingDeps
    /** The list of the router address, as `provider:model`. */
    routedModels: readonly string[]
    /** Whether the texts of answers are stored. */
    keepsBodies: boolean
    /**
     * How long an upstream may take to begin its answer, and between two parts of it. A client that does not read may take as long as
     * the latter.
     */
    answerTimeoutMs: number
    idleTimeoutMs: number
    /** The rules of organisations for models; those of the operator come first. */
    optimization: OptimizationRules
    /** Which models replace others. */
    rules: readonly ModelRule[]
    minuteOfDay(nowMs: number): number
    clock: Clock
    random: Random
    logger: Logger
  }>

type Ready = Readonly<{
  route: Route & Readonly<{ endpoint: Endpoint }>
  caller: Caller
  proxy: ProxyFacts | undefined
}>

type Admitted = Omit<Ready, 'route'> &
  Readonly<{
    req: RequestHead
    res: Answer
    route: Ready['route']
    presented: PresentedKeys
    startedMs: number
  }>
type ReadBody = (done: (body: Buffer | BodyProblem) => void) => void
type Attempt = Readonly<{ routed: RoutedRequest; replaced?: ExchangeInput['replaced'] }>

export function createModelProxy(deps: ModelProxyParts): ModelProxy {
  const { clock, inFlight } = deps
  const keys = createProviderCredentials(deps)
  const { finished, keepsBodies, idleTimeoutMs } = deps
  const parts = { clock, finished, keepsBodies, idleTimeoutMs, refuse }
  const pools = createUpstreamPools({
    connections: limits.modelConnectionsMax,
    connectTimeoutMs: limits.modelConnectMs,
    answerTimeoutMs: deps.answerTimeoutMs,
    idleTimeoutMs,
    keepAliveMs: limits.modelKeepAliveMs,
  })

  const handle: ModelProxy['handle'] = (req, res, url) =>
    serve(req, res, url, (done) => readBody(req, limits.modelRequestBytesMax, done))

  /** The body is asked for when the caller and the address are known. */
  function serve(req: RequestHead, res: Answer, url: string, readBodyOf: ReadBody): void {
    const route = findRoute(req.method ?? 'GET', url, deps.upstreams)!
    try {
      const startedMs = clock.monotonicMs()
      const presented = presentedKeys(req, route, deps.isOurs)
      const caller = deps.authenticate(req, presented.ours)
      if (caller instanceof Promise) {
        caller
          .catch((error: unknown) => wrongKey(req, presented, error))
          .then((known) => admit(req, res, route, known, presented, startedMs, readBodyOf))
          .catch((error: unknown) => refuse(req, res, route, error))
      } else admit(req, res, route, caller, presented, startedMs, readBodyOf)
    } catch (error) {
      refuse(req, res, route, error)
    }
  }

  async function wrongKey(req: RequestHead, presented: PresentedKeys, error: unknown): Promise<never> {
    if (presented.ours === null) throw keyNeeded(error, presented)
    throw await deps.keyGuard.refusalOf(deps.addressOf(req), error)
  }

  function admit(
    req: RequestHead,
    res: Answer,
    route: Route,
    caller: Caller,
    presented: PresentedKeys,
    startedMs: number,
    readBodyOf: ReadBody,
  ): void {
    requirePermitted(caller, route.upstream)
    const { endpoint } = route
    if (endpoint === undefined) throw notForwarded(route.upstream)
    keys.requireAllowed(presented)
    const proxy = deps.findProxy(caller, route.proxy)
    const go = (found: ProxyFacts | undefined): void => {
      requireProxy(caller, found)
      if (route.upstream.name === MODEL_ROUTER && endpoint.operation === 'models') {
        if (endpoint.path !== 'models') throw notForwarded(route.upstream)
        sendJson(res, 200, modelList(deps.routedModels, caller))
        return
      }
      readBodyOf((body) => {
        try {
          send(req, res, { route: { ...route, endpoint }, caller, proxy: found }, presented, body, startedMs)
        } catch (error) {
          refuse(req, res, route, error)
        }
      })
    }
    if (proxy instanceof Promise) proxy.then(go).catch((error: unknown) => refuse(req, res, route, error))
    else go(proxy)
  }

  /** The request for the upstream: unchanged, or translated for the provider that its model names. */
  function prepared(route: Ready['route'], caller: Caller, body: Buffer): RoutedRequest {
    const { upstream, endpoint } = route
    if (upstream.name !== MODEL_ROUTER) {
      const request = prepareRequest(body, endpoint, upstream.protocol.formatOf(endpoint.operation))
      return { route, request, headers: [] }
    }
    const routed = routeRequest(route, body, deps.upstreams, { random: deps.random, nowMs: clock.nowMs() })
    requirePermitted(caller, routed.route.upstream)
    return routed
  }

  function send(
    req: RequestHead,
    res: Answer,
    { route, caller, proxy }: Ready,
    presented: PresentedKeys,
    received: Buffer | BodyProblem,
    startedMs: number,
  ): void {
    if (received === 'disconnected') return
    if (received === 'too-large') throw bodyTooLarge()
    const body = withoutOurKeys(received)
    const routed = prepared(route, caller, body)
    const { upstream, endpoint } = routed.route
    if (endpoint.method !== 'GET') {
      requireModel(caller, upstream.name, routed.request.model)
      requireOneModel(caller, routed.request.body)
    }
    const admitted = { req, res, route, caller, proxy, presented, startedMs }
    const isModelRequest = upstream.protocol.formatOf(endpoint.operation) !== undefined
    if (!isModelRequest) {
      attempt(admitted, [{ routed }])
      return
    }
    const done = whenKnown(cheaperModel(admitted, routed), (chosen) =>
      attempt(
        admitted,
        deps.rules.length === 0 && chosen === undefined ? [{ routed }] : attempts(admitted, routed, body, chosen),
      ),
    )
    if (done instanceof Promise) done.catch((error: unknown) => refuse(req, res, route, error))
  }

  /** The cheaper model that a rule of the organisation chooses; undefined if none does. */
  function cheaperModel({ caller, proxy }: Admitted, { route, request }: RoutedRequest) {
    if (request.model === null) return undefined
    return deps.optimization.choose(subjectOf(caller, proxy), {
      providers: route.upstream.keyNames,
      model: request.model,
      tokens: tokensBySize(request.bytes?.length ?? 0),
      hasTools: asksWithTools(request),
    })
  }

  /**
   * The candidate models, tried in turn while providers fail. A model that a rule names and that is not possible here is skipped.
   */
  function attempts(
    { req, route, caller, presented }: Admitted,
    routed: RoutedRequest,
    body: Buffer,
    chosen: ChosenModel | undefined,
  ): readonly Attempt[] {
    const { request } = routed
    const { name: provider } = routed.route.upstream
    const nowMs = clock.nowMs()
    const [byOperator, ...fallBacks] = modelsFor(deps.rules, {
      ...{ provider, model: request.model ?? '', tokens: tokensBySize(request.bytes?.length ?? 0) },
      ...{ hasTools: asksWithTools(request), headers: req.headers },
      minuteOfDay: deps.minuteOfDay(nowMs),
    })
    const hasOwnKey = presented.providers !== null
    const byOrganisation = chosen && { target: { provider, model: chosen.model }, rule: chosen.rule }
    const baseline = request.model === null ? null : { provider, model: request.model }
    const found = [byOperator ?? byOrganisation, ...fallBacks].map((replacement, position): Attempt | undefined => {
      if (replacement === undefined) return { routed }
      const { target, rule } = replacement
      if (target.provider === provider && target.model === request.model) return undefined
      const parts = { random: deps.random, nowMs }
      const other = rerouteRequest({ route, request, body, caller, hasOwnKey }, target, deps.upstreams, parts)
      return (
        other && {
          routed: other,
          replaced: { requestedModel: request.model, rule, baseline: position === 0 ? baseline : null },
        }
      )
    })
    const [first = { routed }, ...others] = found
    return [first, ...others.filter((other) => other !== undefined)]
  }

  function attempt(admitted: Admitted, all: readonly Attempt[]): void {
    const { routed, replaced } = all[0]!
    const { req, res, route, caller, proxy, presented, startedMs } = admitted
    let keyScope: UsedKey['scope'] = null
    const failed = (error: unknown): void => {
      const isKeyless = error instanceof AppError && error.code === 'ERR_PROVIDER_KEY_MISSING'
      // A model that a rule names, and for which nobody has a key, is skipped.
      if (isKeyless && replaced !== undefined && all.length > 1) {
        retry(admitted, all.slice(1))
        return
      }
      const input = { req, res, caller, proxy, startedMs, startedAtMs: clock.nowMs(), ...routed, replaced, keyScope }
      const refusal = refusedRequest(input, error, clock.monotonicMs() - startedMs)
      if (refusal !== undefined) deps.finished(refusal)
      refuse(req, res, route, error)
    }
    try {
      const done = whenKnown(keys.keyFor(routed.route.upstream, caller, presented), (key) => {
        keyScope = key.scope
        return attemptWith(admitted, all, key)
      })
      if (done instanceof Promise) done.catch(failed)
    } catch (error) {
      failed(error)
    }
  }

  function attemptWith(admitted: Admitted, all: readonly Attempt[], key: UsedKey): void | Promise<void> {
    const [first, ...others] = all
    const { routed, replaced } = first!
    const { req, res, caller, proxy, presented, startedMs } = admitted
    const { upstream, endpoint } = routed.route
    const fallBack = others.length === 0 ? undefined : () => retry(admitted, others)
    const format = upstream.protocol.formatOf(endpoint.operation)
    const begin = (
      spending: Spending | undefined,
      judged?: JudgedRequest | undefined,
      request = routed.request,
    ): void => {
      try {
        if (res.destroyed) throw new AppError('ERR_CANCELLED', 'The client disconnected.')
        const paidBy = { keyScope: key.scope, hiddenKey: key.scope === 'caller' ? undefined : (key.value ?? undefined) }
        const exchanged = { req, res, caller, proxy, startedMs, ...paidBy, spending, judged, replaced, fallBack }
        const { route, translator } = routed
        const input = { ...exchanged, route, translator, request, startedAtMs: clock.nowMs() }
        dispatch(input, routed.headers, key.value, presented.providers !== null)
      } catch (error) {
        spending?.settle(null, undefined)
        throw error
      }
    }
    if (format === undefined) return begin(undefined)
    const left = clientSignal(res)
    const { body: parsed, bytes: { length: bytes = 0 } = {} } = routed.request
    const { operation } = endpoint
    const requested = { caller, proxy, operation, headers: req.headers, body: parsed, bytes }
    const judging = inProgress(inFlight, caller, left, (ended) => deps.judging.begin({ ...requested, signal: ended }))
    return whenKnown(judging, (judged) => {
      const request =
        judged?.isChanged === true
          ? prepareRequest(Buffer.from(JSON.stringify(parsed)), endpoint, format)
          : routed.request
      const sent = { request, operation, headers: req.headers }
      const reserve = (ended: () => AbortSignal) => reserveFor(deps.spending, upstream, { caller, proxy }, sent, ended)
      const spending = inProgress(inFlight, caller, left, reserve)
      return whenKnown(spending, (reserved) => begin(reserved, judged, request))
    })
  }

  function retry(admitted: Admitted, others: readonly Attempt[]): void {
    if (!admitted.res.destroyed) attempt(admitted, others)
  }

  function dispatch(input: ExchangeInput, added: readonly string[], key: string | null, hasOwnKey: boolean): void {
    const { req, res, caller, route, request } = input
    const { upstream, endpoint } = route
    const { protocol } = upstream
    const fallBack =
      input.fallBack &&
      ((): void => {
        call.end()
        input.fallBack!()
      })
    const exchange = new Exchange(parts, fallBack === undefined ? input : { ...input, fallBack })
    const call = inFlight.begin(
      () => exchange.end(shuttingDown()),
      'call',
      (reason) => exchange.end(reason as Error),
    )
    res.on('close', () => call.end())
    if (!call.admit(caller.principal)) {
      exchange.drop()
      throw tooManyRequests()
    }
    const path = `${upstream.basePath}/${endpoint.path}${route.query === '' ? '' : `?${route.query}`}`
    const keyHeaders = [...(key === null ? [] : protocol.keyHeaders(key)), ...added]
    const headers = headersToUpstream(req.headers, keyHeaders, request.bytes?.length, hasOwnKey)
    const { method } = endpoint
    const sent = { method, path, headers, ...(request.bytes !== undefined && { body: request.bytes }) }
    pools.of(upstream.origin).dispatch(sent, exchange)
  }

  function refuse(req: RequestHead, res: Answer, route: Route, error: unknown): void {
    if (res.headersSent || res.destroyed) {
      res.destroy()
      return
    }
    const failure = error instanceof AppError ? error : unexpected(error)
    const status: number = errorCodes[failure.code].httpStatus
    const { code, message, details } = failure
    const json = route.upstream.protocol.refusalText({ status, code, message, details })
    deps.sendError(req, res, { status, headers: refusalHeaders(failure), json })
  }

  function unexpected(error: unknown): AppError {
    const reference = randomId(deps.random, 'ref')
    const cause = error instanceof Error ? (error.stack ?? error.message) : String(error)
    deps.logger.error('model request failed with an internal error', { reference, cause })
    const message = `Something failed inside Castellan. Give the operator this reference: ${reference}.`
    return new AppError('ERR_INTERNAL', message, { reference })
  }

  return {
    handle,
    handleWhole: (req, body, res, url) => serve(req, res, url, (done) => done(body)),
    close: pools.close,
  }
}
