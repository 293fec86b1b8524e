import type { IncomingMessage, ServerResponse } from 'node:http'
import { Pool } from 'undici'
import { AppError } from '../contract/app-error.ts'
import { errorCodes } from '../contract/error-codes.ts'
import { limits } from '../contract/limits.ts'
import { type BodyProblem, readBody } from '../http/exchange/read-body.ts'
import { sendJson } from '../http/exchange/send-text.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Logger } from '../kernel/logger.ts'
import { type Random, randomId } from '../kernel/random.ts'
import type { InFlightCalls } from '../tools/runtime/in-flight-calls.ts'
import { Exchange, type ExchangeInput } from './exchange.ts'
import { findRoute, MODEL_ROUTER, type Route } from './find-route.ts'
import { isGranted, requireModel, requirePermitted, requireProxy } from './grants.ts'
import type { Judging } from './judging/create-judging.ts'
import { whenKnown } from './judging/events.ts'
import type { JudgedRequest } from './judging/ports.ts'
import type { KeyGuard } from './key-guard.ts'
import { headersToUpstream } from './passed-headers.ts'
import type { Caller, ModelProxyDeps, PresentedKeys, ProxyFacts, Upstream } from './ports.ts'
import { presentedKeys } from './presented-keys.ts'
import type { Endpoint } from './protocols/protocol.ts'
import { refusedRequest } from './refused-request.ts'
import { prepareRequest } from './request-body.ts'
import { type RoutedRequest, routeRequest } from './router/route-request.ts'
import { askOtherModel } from './rules/ask-other-model.ts'
import { type ModelRule, modelsFor } from './rules/model-rules.ts'
import { reserveFor, type Spending, type SpendingDeps } from './spending.ts'

/**
 * Programs reach the models of providers through here, at `/v1/{provider}/{proxy}/…`. For every request, in this order: who
 * asks, which proxy, what it is for, then the upstream. What is none of the known operations is refused, so nothing passes
 * that was not looked at. Answers are in the form of the provider, refusals of ours too.
 */
export type ModelProxy = Readonly<{
  /** Answers, whatever happens. The address is one of a provider. */
  handle(req: IncomingMessage, res: ServerResponse, url: string): void
  close(): Promise<void>
}>

export type ModelProxyParts = ModelProxyDeps &
  Readonly<{
    inFlight: InFlightCalls
    /** Whether a credential has the form of one of ours. */
    isOurs(key: string): boolean
    sendError(
      req: IncomingMessage,
      res: ServerResponse,
      error: Readonly<{ status: number; headers: Readonly<Record<string, string>>; json: string }>,
    ): void
    /** What rules say of tools in requests and answers. */
    judging: Judging
    /** Where a request comes from. */
    addressOf(req: IncomingMessage): string
    keyGuard: KeyGuard
    /** What requests cost, and may cost. */
    spending: SpendingDeps
    /** What the address over all providers lists, as `provider:model`. */
    routedModels: readonly string[]
    /** Whether the texts of answers are wanted. */
    keepsBodies: boolean
    /** Callers may bring keys of their own. */
    allowsCallerKeys: boolean
    /** How long an upstream may take to begin its answer, and between two parts of it. */
    answerTimeoutMs: number
    idleTimeoutMs: number
    /** Which models are asked in place of others. */
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

/** A request that is admitted. */
type Admitted = Omit<Ready, 'route'> &
  Readonly<{
    req: IncomingMessage
    res: ServerResponse
    asked: Ready['route']
    presented: PresentedKeys
    startedMs: number
  }>
/** One model that may be asked. */
type Attempt = Readonly<{ routed: RoutedRequest; replaced?: ExchangeInput['replaced'] }>

export function createModelProxy(deps: ModelProxyParts): ModelProxy {
  const { clock, inFlight } = deps
  const pools = new Map<string, Pool>()
  const parts = { clock, finished: deps.finished, keepsBodies: deps.keepsBodies, refuse }

  function poolOf({ origin }: Upstream): Pool {
    const known = pools.get(origin)
    if (known !== undefined) return known
    const pool = new Pool(origin, {
      connections: limits.modelConnectionsMax,
      pipelining: 1,
      connect: { timeout: limits.modelConnectMs },
      headersTimeout: deps.answerTimeoutMs,
      bodyTimeout: deps.idleTimeoutMs,
      keepAliveTimeout: limits.modelKeepAliveMs,
    })
    pools.set(origin, pool)
    return pool
  }

  function handle(req: IncomingMessage, res: ServerResponse, url: string): void {
    const route = findRoute(req.method ?? 'GET', url, deps.upstreams)!
    try {
      const startedMs = clock.monotonicMs()
      const presented = presentedKeys(req, route, deps.isOurs)
      const caller = deps.authenticate(req, presented.ours)
      if (caller instanceof Promise) {
        caller
          .catch((error: unknown) => wrongKey(req, presented, error))
          .then((known) => admit(req, res, route, known, presented, startedMs))
          .catch((error: unknown) => refuse(req, res, route, error))
      } else admit(req, res, route, caller, presented, startedMs)
    } catch (error) {
      refuse(req, res, route, error)
    }
  }

  async function wrongKey(req: IncomingMessage, { ours }: PresentedKeys, error: unknown): Promise<never> {
    throw ours === null ? error : await deps.keyGuard.refusalOf(deps.addressOf(req), error)
  }

  function admit(
    req: IncomingMessage,
    res: ServerResponse,
    route: Route,
    caller: Caller,
    presented: PresentedKeys,
    startedMs: number,
  ): void {
    requirePermitted(caller, route.upstream)
    const { endpoint } = route
    if (endpoint === undefined) throw notPassedOn(route)
    if (route.upstream.name !== MODEL_ROUTER) keyFor(route.upstream, presented)
    const proxy = deps.findProxy(caller, route.proxy)
    const go = (found: ProxyFacts | undefined): void => {
      requireProxy(caller, found)
      if (route.upstream.name === MODEL_ROUTER && endpoint.operation === 'models') {
        if (endpoint.path !== 'models') throw notPassedOn(route)
        sendJson(res, 200, modelList(deps.routedModels.filter((id) => mayAsk(caller, id))))
        return
      }
      readBody(req, limits.modelRequestBytesMax, (body) => {
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

  /** The key of the caller's own, where it brings one; otherwise that of the operator. */
  function keyFor(upstream: Upstream, { providers }: PresentedKeys): string | null {
    if (providers !== null) {
      if (deps.allowsCallerKeys) return providers
      const message =
        'This server takes no keys of providers. Send an API key or a virtual key of ours, or the key castellan.'
      throw new AppError('ERR_UNAUTHENTICATED', message)
    }
    return upstream.apiKey
  }

  /** What goes to the upstream: the request as it is, or what it is for the provider that its model names. */
  function prepared(asked: Ready['route'], caller: Caller, body: Buffer): RoutedRequest {
    const { upstream, endpoint } = asked
    if (upstream.name !== MODEL_ROUTER) {
      const request = prepareRequest(body, endpoint, upstream.protocol.formatOf(endpoint.operation))
      return { route: asked, request, headers: [] }
    }
    const routed = routeRequest(asked, body, deps.upstreams, { random: deps.random, nowMs: clock.nowMs() })
    requirePermitted(caller, routed.route.upstream)
    return routed
  }

  function send(
    req: IncomingMessage,
    res: ServerResponse,
    { route: asked, caller, proxy }: Ready,
    presented: PresentedKeys,
    body: Buffer | BodyProblem,
    startedMs: number,
  ): void {
    if (body === 'disconnected') return
    if (body === 'too-large') throw tooLarge()
    const routed = prepared(asked, caller, body)
    const { upstream, endpoint } = routed.route
    if (endpoint.method !== 'GET') requireModel(caller, upstream.name, routed.request.model)
    const admitted = { req, res, asked, caller, proxy, presented, startedMs }
    const isModelAsked = upstream.protocol.formatOf(endpoint.operation) !== undefined
    if (deps.rules.length === 0 || !isModelAsked) attempt(admitted, [{ routed }])
    else attempt(admitted, attempts(admitted, routed, body))
  }

  /** What is asked, one after the other while providers fail. A model that a rule names and that is not possible here is left out. */
  function attempts(
    { req, asked, caller, presented }: Admitted,
    routed: RoutedRequest,
    body: Buffer,
  ): readonly Attempt[] {
    const { request } = routed
    const { name: provider } = routed.route.upstream
    const nowMs = clock.nowMs()
    const models = modelsFor(deps.rules, {
      ...{ provider, request, headers: req.headers },
      minuteOfDay: deps.minuteOfDay(nowMs),
    })
    const hasOwnKey = presented.providers !== null
    const found = models.map((replacement): Attempt | undefined => {
      if (replacement === undefined) return { routed }
      const { target, rule } = replacement
      if (target.provider === provider && target.model === request.model) return undefined
      const parts = { random: deps.random, nowMs }
      const other = askOtherModel({ route: asked, request, body, caller, hasOwnKey }, target, deps.upstreams, parts)
      return other && { routed: other, replaced: { asked: request.model, rule } }
    })
    const [first = { routed }, ...others] = found
    return [first, ...others.filter((other) => other !== undefined)]
  }

  function attempt(admitted: Admitted, all: readonly Attempt[]): void {
    const [first, ...others] = all
    const { routed, replaced } = first!
    const { req, res, asked, caller, proxy, presented, startedMs } = admitted
    const { upstream, endpoint } = routed.route
    const key = keyFor(upstream, presented)
    const fallBack = others.length === 0 ? undefined : () => retry(admitted, others)
    const format = upstream.protocol.formatOf(endpoint.operation)
    const begin = (
      spending: Spending | undefined,
      judged?: JudgedRequest | undefined,
      request = routed.request,
    ): void => {
      try {
        if (res.destroyed) throw new AppError('ERR_CANCELLED', 'The client went away.')
        const input = { req, res, caller, proxy, startedMs, spending, ...routed, request, judged, replaced, fallBack }
        dispatch(input, routed.headers, key, presented.providers !== null)
      } catch (error) {
        spending?.settle(null, undefined)
        throw error
      }
    }
    if (format === undefined) {
      begin(undefined)
      return
    }
    const closing = new AbortController()
    // After a whole answer nothing waits any more, and to abort costs more than all of the routing.
    res.once('close', () => {
      if (!res.writableFinished) closing.abort(new Error('the client went away'))
    })
    const { signal } = closing
    const { body: parsed } = routed.request
    const { operation } = endpoint
    const judging = deps.judging.begin({ caller, proxy, operation, headers: req.headers, body: parsed, signal })
    const done = whenKnown(judging, (judged) => {
      const request =
        judged?.isChanged === true
          ? prepareRequest(Buffer.from(JSON.stringify(parsed)), endpoint, format)
          : routed.request
      const spending = reserveFor(deps.spending, upstream, { caller, proxy }, { request, operation }, signal)
      return whenKnown(spending, (reserved) => begin(reserved, judged, request))
    })
    if (!(done instanceof Promise)) return
    done.catch((error: unknown) => {
      const input = { req, res, caller, proxy, startedMs, startedAtMs: clock.nowMs(), ...routed, replaced }
      const refusal = refusedRequest(input, error, clock.monotonicMs() - startedMs)
      if (refusal !== undefined) deps.finished(refusal)
      refuse(req, res, asked, error)
    })
  }

  function retry(admitted: Admitted, others: readonly Attempt[]): void {
    const { req, res, asked } = admitted
    try {
      if (!res.destroyed) attempt(admitted, others)
    } catch (error) {
      refuse(req, res, asked, error)
    }
  }

  function dispatch(
    input: Omit<ExchangeInput, 'startedAtMs'>,
    added: readonly string[],
    key: string | null,
    hasOwnKey: boolean,
  ): void {
    const { req, res, caller, route, request } = input
    const { upstream, endpoint } = route
    const { protocol } = upstream
    const fallBack =
      input.fallBack &&
      ((): void => {
        call.end()
        input.fallBack!()
      })
    const exchange = new Exchange(parts, { ...input, fallBack, startedAtMs: clock.nowMs() })
    const call = inFlight.begin(() => exchange.end(new AppError('ERR_SHUTTING_DOWN', 'The server is shutting down.')))
    res.once('close', () => call.end())
    if (!call.admit(caller.principal)) {
      throw new AppError('ERR_BUSY', 'Too many of your requests are under way.', { retry_after_ms: 1_000 })
    }
    call.signal.addEventListener('abort', () => exchange.end(call.signal.reason as Error))
    const path = `${upstream.basePath}/${endpoint.path}${route.query === '' ? '' : `?${route.query}`}`
    const keyHeaders = [...(key === null ? [] : protocol.keyHeaders(key)), ...added]
    const headers = headersToUpstream(req.headers, keyHeaders, request.bytes?.length, hasOwnKey)
    poolOf(upstream).dispatch(
      { method: endpoint.method, path, headers, ...(request.bytes !== undefined && { body: request.bytes }) },
      exchange,
    )
  }

  function refuse(req: IncomingMessage, res: ServerResponse, route: Route, error: unknown): void {
    if (res.headersSent || res.destroyed) {
      res.destroy()
      return
    }
    const failure = error instanceof AppError ? error : unexpected(error)
    const status: number = errorCodes[failure.code].httpStatus
    const { code, message } = failure
    const afterMs = failure.details['retry_after_ms']
    const headers: Record<string, string> =
      typeof afterMs === 'number' ? { 'retry-after': String(Math.max(1, Math.ceil(afterMs / 1000))) } : {}
    const json = route.upstream.protocol.refusalText({ status, code, message })
    deps.sendError(req, res, { status, headers, json })
  }

  function unexpected(error: unknown): AppError {
    const reference = randomId(deps.random, 'ref')
    const cause = error instanceof Error ? (error.stack ?? error.message) : String(error)
    deps.logger.error('a request to a model failed unexpectedly', { reference, cause })
    const message = `Something failed inside Castellan. Give the operator this reference: ${reference}.`
    return new AppError('ERR_INTERNAL', message, { reference })
  }

  return {
    handle,
    async close() {
      await Promise.all([...pools.values()].map((pool) => pool.destroy()))
    },
  }
}

/** The model as `provider:model`. */
function mayAsk(caller: Caller, id: string): boolean {
  const colon = id.indexOf(':')
  return isGranted(caller, id.slice(0, colon), id.slice(colon + 1))
}

const modelList = (ids: readonly string[]): string =>
  JSON.stringify({
    object: 'list',
    data: ids.map((id) => ({ id, object: 'model', created: 0, owned_by: id.slice(0, id.indexOf(':')) })),
  })

const notPassedOn = ({ upstream }: Route): AppError =>
  new AppError(
    'ERR_ROUTE_NOT_FOUND',
    `Nothing at this address is passed on to '${upstream.name}'. The guide of the model proxy lists what is.`,
  )

const tooLarge = (): AppError =>
  new AppError('ERR_TOO_LARGE', `The body is larger than ${limits.modelRequestBytesMax} bytes.`, {
    bytes_max: limits.modelRequestBytesMax,
  })
